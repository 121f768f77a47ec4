"""``sagas.testing.World``: several sagas, moments, deaths, and what an operator does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, get_args

import pytest

from sagas import (
    CircuitBreaker,
    Context,
    Exhausted,
    NotYet,
    Rejected,
    Retry,
    Saga,
    children,
    sleep,
    step,
    wait_for,
)
from sagas.errors import Conflict, InvalidRequest, NotFound, TooLarge, Unavailable
from sagas.testing import World, die
from sagas.testing.world import AtMoment

MOMENTS: tuple[AtMoment, ...] = get_args(AtMoment)
PARKED = Retry.constant(max_retries=0, delay=0, on_exhausted=Exhausted.DEAD_LETTER)
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Order:
    who: str = "ada"
    many: int = 2


MUGS = list[str]()
CHARGES = dict[str, int]()
REFUNDS = list[str]()
LOG = list[str]()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    MUGS[:] = ["mug"]
    CHARGES.clear()
    REFUNDS.clear()
    LOG.clear()


class Purchase(Saga[Order], name="purchase"):
    @step
    def take(self, request: Order) -> str:
        if not MUGS:
            raise Rejected("sold out")
        return MUGS.pop()

    @take.compensate
    def put_back(self, take: str) -> None:
        MUGS.append(take)

    @step
    def tell(self, request: Order) -> str:
        LOG.append(request.who)
        return request.who


class Trip(Saga[Order], name="trip", find_by={"who": "$.who"}):
    @step(retry=Retry.constant(max_retries=2, delay=60, on_exhausted=Exhausted.DEAD_LETTER))
    def charge(self, request: Order, ctx: Context) -> str:
        CHARGES[ctx.idempotency_key] = CHARGES.get(ctx.idempotency_key, 0) + 1
        return "ch"

    @charge.compensate(retry=Retry.constant(max_retries=0, delay=0))
    def refund(self, charge: str) -> None:
        REFUNDS.append(charge)

    approval = wait_for(str, timeout=timedelta(days=3))

    @step
    async def ship(self, approval: str) -> str:
        LOG.append(f"ship {approval}")
        return approval


class Leaf(Saga[Order], name="leaf"):
    @step
    def grow(self, request: Order) -> str:
        LOG.append(request.who)
        return request.who


class Tree(Saga[Order], name="tree"):
    @children(Leaf)
    def leaves(self, request: Order) -> list[Order]:
        return [Order(str(number)) for number in range(request.many)]

    pause = sleep(timedelta(days=1))


class Guarded(Saga[Order], name="guarded"):
    @step(circuit_breaker=CircuitBreaker(failure_threshold=3, open_for=600))
    def call(self, request: Order) -> str:
        LOG.append("call")
        return "up"


class Polls(Saga[Order], name="polls"):
    @step
    def poll(self, ctx: Context) -> int:
        if ctx.attempt < 3:
            raise NotYet(after=7200)
        return ctx.attempt


def test_two_buyers_of_one_mug() -> None:
    with World(Purchase) as world:
        ada = world.start(Purchase, Order("ada"))
        bob = world.start(Purchase, Order("bob"))
        world.play()
    assert sorted([ada.status, bob.status]) == ["COMPENSATED", "COMPLETED"]
    assert MUGS == []
    assert (ada.id, bob.id) == ("00000000-0000-7000-8000-000000000000", "00000000-0000-7000-8000-000000000001")


def test_a_cancel_while_the_card_is_charged() -> None:
    with World(Trip) as world:
        trip = world.start(Trip, Order())
        trip.on(Trip.charge, "calling", trip.cancel)
        world.play()
    assert trip.status == "CANCELLED"
    assert REFUNDS == ["ch"]
    assert trip.outcome.steps["approval"] == "PENDING"


def test_the_worker_dies_after_the_charge() -> None:
    with World(Trip) as world:
        trip = world.start(Trip, Order())
        trip.on(Trip.charge, "returned", die)
        world.advance()
        assert (trip.status, trip.outcome.steps["charge"]) == ("RUNNING", "RUNNING")
        world.advance(HOUR)
        assert trip.status == "WAITING"
        assert trip.signal(Trip.approval, "yes", by="ada") == 202
        assert trip.signal(Trip.approval, "yes") == 200
        world.play()
    assert list(CHARGES.values()) == [2]  # under one idempotency key
    assert trip.outcome.result == "yes"
    assert [entry.action for entry in trip.outcome.audit].count("StepLost") == 1
    assert [entry.actor for entry in trip.outcome.audit if entry.action == "SignalReceived"] == ["ada"]


@pytest.mark.parametrize(
    ("moment", "calls", "lost"), [("before", 1, 0), ("calling", 1, 1), ("returned", 2, 1), ("after", 1, 0)]
)
def test_a_worker_can_die_at_each_moment(moment: Any, calls: int, lost: int) -> None:
    with World(Trip) as world:
        trip = world.start(Trip, Order())
        trip.on(Trip.charge, moment, die)
        world.advance(HOUR)
        trip.signal(Trip.approval, "yes")
        world.play()
    assert trip.status == "COMPLETED", trip.outcome
    assert list(CHARGES.values()) == [calls]
    assert [entry.action for entry in trip.outcome.audit].count("StepLost") == lost
    assert LOG == ["ship yes"]


@pytest.mark.parametrize("moment", ["before", "calling", "returned", "after"])
def test_a_worker_can_die_in_an_undo(moment: Any) -> None:
    with World(Trip) as world:
        trip = world.start(Trip, Order())
        world.advance()
        trip.cancel("no")
        trip.on(Trip.charge, moment, die, undo=True)
        world.play()
    assert trip.status == ("CANCELLED" if moment in ("before", "after") else "COMPENSATION_FAILED")
    assert len(REFUNDS) == (0 if moment == "calling" else 1)


def test_a_fake_client_can_let_the_worker_die_in_the_code() -> None:
    deaths = [die]

    class Ship(Saga[Order], name="dying-ship"):
        @step
        async def ship(self, request: Order, ctx: Context) -> int:
            if deaths:
                deaths.pop()()
            return ctx.attempt

    with World(Ship) as world:
        saga = world.start(Ship, Order())
        world.play()
    assert saga.outcome.result == 2


def test_the_state_at_a_moment_and_time() -> None:
    with World(Trip, Purchase) as world:
        trip = world.start(Trip, Order())
        began = world.now
        mug = world.start(Purchase, Order())
        world.advance()
        assert (trip.status, mug.status) == ("WAITING", "COMPLETED")
        world.advance(timedelta(days=2))
        assert trip.status == "WAITING"
        assert timedelta(days=2) <= world.now - began < timedelta(days=2, minutes=1)
        world.advance(timedelta(days=2))
        assert trip.status == "COMPENSATED"
    assert REFUNDS == ["ch"]


def test_an_attempt_is_named_by_its_number() -> None:
    seen = list[str]()
    with World(Trip) as world:
        trip = world.start(Trip, Order(), fail={"charge": [OSError("down"), None]})
        for attempt in (1, 2):
            for moment in ("before", "calling", "after"):
                trip.on("charge", moment, partial(seen.append, f"{moment} {attempt}"), attempt=attempt)
        trip.on(Trip.charge, "returned", lambda: seen.append("returned 2"), attempt=2)
        world.advance(HOUR)
    assert seen == ["before 1", "calling 1", "after 1", "before 2", "calling 2", "returned 2", "after 2"]


def test_polls_count_as_attempts() -> None:
    times = list[timedelta]()
    with World(Polls) as world:
        saga = world.start(Polls, Order())
        began = world.now
        for attempt in (1, 2, 3):
            saga.on(Polls.poll, "calling", lambda: times.append(world.now - began), attempt=attempt)
        world.play()
    assert saga.outcome.result == 3
    assert [round(time / HOUR) for time in times] == [0, 2, 4]


def test_waits_reach_moments_without_code() -> None:
    with World(Trip) as world:
        trip = world.start(Trip, Order())
        trip.on(Trip.approval, "before", lambda: LOG.append("before"))
        trip.on(Trip.approval, "after", lambda: trip.signal(Trip.approval, "soon"))
        world.play()
    assert LOG == ["before", "ship soon"]


def test_an_operator_retries_and_gives_up() -> None:
    class Stuck(Saga[Order], name="stuck", timeout=timedelta(days=1)):
        take = Purchase.take
        put_back = Purchase.put_back

        @step(retry=PARKED)
        def pay(self) -> str:
            LOG.append("pay")
            raise OSError("down")

    with World(Stuck) as world:
        saga = world.start(Stuck, Order())
        world.play()
        assert saga.status == "DEAD_LETTERED"
        saga.retry("the provider is back")
        world.play()
        assert (saga.status, len(LOG)) == ("DEAD_LETTERED", 2)
        saga.compensate("never mind")
        world.play()
    assert saga.status == "COMPENSATED"
    assert MUGS == ["mug"]


def test_the_deadline_of_a_dead_lettered_saga_passes_only_with_its_time() -> None:
    class Late(Saga[Order], name="late", timeout=timedelta(days=1)):
        take = Purchase.take
        put_back = Purchase.put_back

        @step(retry=PARKED)
        def pay(self) -> str:
            raise OSError("down")

    with World(Late) as world:
        saga = world.start(Late, Order())
        world.play()
        assert saga.status == "DEAD_LETTERED"
        world.advance(timedelta(hours=23))
        assert saga.status == "DEAD_LETTERED"
        world.advance(timedelta(hours=2))
    assert saga.status == "COMPENSATED"
    assert MUGS == ["mug"]


def test_a_paused_type_waits_and_refuses_starts() -> None:
    with World(Purchase) as world:
        ada = world.start(Purchase, Order())
        world.pause(Purchase)
        world.play()
        assert (ada.status, MUGS) == ("PENDING", ["mug"])
        with pytest.raises(Unavailable, match="purchase is paused"):
            world.start(Purchase, Order())
        world.resume(Purchase)
        world.play()
    assert ada.status == "COMPLETED"


def test_a_step_is_paused_and_undos_with_it_if_asked() -> None:
    with World(Purchase) as world:
        world.pause(Purchase, Purchase.tell)
        ada = world.start(Purchase, Order())
        world.play()
        assert ada.outcome.steps == {"take": "COMPLETED", "tell": "PENDING"}
        world.pause(Purchase, "take", undos=True)
        ada.cancel()
        world.play()
        assert MUGS == []
        world.resume(Purchase, Purchase.take)
        world.play()
    assert (ada.status, MUGS) == ("CANCELLED", ["mug"])


def test_starts_alone_are_paused() -> None:
    with World(Purchase) as world:
        ada = world.start(Purchase, Order())
        world.pause(Purchase, starts_only=True)
        world.play()
        with pytest.raises(Unavailable, match="starts of purchase are paused"):
            world.start(Purchase, Order())
    assert ada.status == "COMPLETED"


def test_an_open_breaker_holds_its_step_back_until_it_is_closed_or_its_time_is_over() -> None:
    with World(Guarded) as world:
        world.open_breaker(Guarded.call)
        ada = world.start(Guarded, Order("ada"))
        world.advance(timedelta(minutes=5))
        assert (ada.status, LOG) == ("PENDING", [])
        world.advance(timedelta(minutes=10))
        assert ada.status == "COMPLETED"
        world.open_breaker(Guarded.call)
        bob = world.start(Guarded, Order("bob"))
        world.advance(timedelta(seconds=1))
        world.close_breaker(Guarded.call)
        world.advance(timedelta(minutes=1))
    assert bob.status == "COMPLETED"


def test_children_have_handles() -> None:
    with World(Tree) as world:
        tree = world.start(Tree, Order(many=3))
        world.advance()
        leaves = tree.children["leaves"]
        assert [leaf.status for leaf in leaves] == ["COMPLETED"] * 3
        assert leaves[1].outcome.result == "1"
        assert tree.outcome.steps == {"leaves": "COMPLETED", "pause": "WAITING"}
        world.play()
    assert tree.outcome.children["leaves"][2].result == "2"
    assert repr(tree) == f"<tree {tree.id}: COMPLETED>"


def test_hundreds_of_children_take_no_time() -> None:
    with World(Tree) as world:
        tree = world.start(Tree, Order(many=200))
        world.play()
    assert len(LOG) == 200
    assert tree.status == "COMPLETED"


def test_one_key_is_one_saga() -> None:
    with World(Purchase) as world:
        ada = world.start(Purchase, Order(), key="order-1")
        again = world.start(Purchase, Order(), key="order-1")
        assert ada.id == again.id
        with pytest.raises(InvalidRequest, match="used before with another request"):
            world.start(Purchase, Order("bob"), key="order-1")
        world.play()
    assert MUGS == []


def test_a_moment_can_start_another_saga() -> None:
    with World(Purchase) as world:
        bob = list[Any]()
        ada = world.start(Purchase, Order("ada"))
        ada.on(Purchase.take, "returned", lambda: bob.append(world.start(Purchase, Order("bob"))))
        world.play()
    assert (ada.status, bob[0].status) == ("COMPLETED", "COMPENSATED")


def test_time_does_not_pass_inside_a_step() -> None:
    with World(Purchase) as world:
        ada = world.start(Purchase, Order())
        ada.on(Purchase.take, "calling", world.play)
        with pytest.raises(RuntimeError, match="a step is running"):
            world.play()


def test_what_a_moment_raises_ends_the_test() -> None:
    def fail() -> None:
        raise LookupError("of the test")

    for moment in MOMENTS:
        with World(Purchase) as world:
            ada = world.start(Purchase, Order())
            ada.on(Purchase.take, moment, fail)
            with pytest.raises(LookupError, match="of the test"):
                world.play()


def test_moments_that_are_never_reached() -> None:
    world = World(Trip, Tree)
    trip = world.start(Trip, Order())
    trip.on(Trip.charge, "returned", die, attempt=2)
    trip.on(Trip.charge, "before", die, undo=True)
    world.advance()
    with pytest.raises(AssertionError) as caught, world:
        pass
    missed = 'charge was never "returned" in attempt 2; the undo of charge was never "before" in attempt 1'
    assert str(caught.value) == f"on: {missed}"


def test_an_error_of_the_test_is_not_hidden_by_moments() -> None:
    world = World(Trip)
    world.start(Trip, Order()).on(Trip.charge, "after", die)
    with pytest.raises(KeyError), world:
        raise KeyError


def test_a_closed_world_can_be_read_only() -> None:
    with World(Purchase) as world:
        ada = world.start(Purchase, Order())
        world.play()
    assert ada.outcome.results[Purchase.take] == "mug"
    with World(Purchase) as other:
        other.start(Purchase, Order())
        other.play()
    assert ada.status == "COMPLETED"
    for act in (world.play, world.advance, lambda: world.start(Purchase, Order())):
        with pytest.raises(RuntimeError, match="the world is closed"):
            act()


REFUSED: list[tuple[Callable[[World, Any], object], type[Exception], str]] = [
    (lambda world, _: world.start(Polls, Order()), ValueError, 'World has no type "polls"; it has trip, tree, leaf'),
    (lambda world, _: world.start(Trip, 7), InvalidRequest, "request"),  # type: ignore[arg-type]
    (lambda world, _: world.start(Trip, Order("x" * 300_000)), TooLarge, "put the data into S3"),
    (lambda world, _: world.start(Trip, Order(), fail={"chrage": OSError()}), ValueError, 'no step or undo "chrage"'),
    (lambda world, _: world.advance(-HOUR), ValueError, "time does not go back"),
    (lambda world, _: world.advance(3), TypeError, "pass a timedelta, not 3"),  # type: ignore[arg-type]
    (lambda world, _: world.pause(Polls), ValueError, 'no type "polls"'),
    (lambda world, _: world.pause(Trip, "shop"), ValueError, 'pause: trip has no step "shop"; it has charge, approval'),
    (lambda world, _: world.open_breaker(Trip.charge), NotFound, "has no circuit breaker"),
    (lambda world, _: world.open_breaker(Guarded.call), ValueError, "World has no type with the step"),
    (
        lambda _, trip: trip.on("chrage", "before", die),
        ValueError,
        'on: trip has no step "chrage"; it has charge, appr',
    ),
    (lambda _, trip: trip.on(Trip.charge, "begun", die), ValueError, "unknown moment 'begun'; expected one of before"),
    (lambda _, trip: trip.on(Trip.approval, "calling", die), ValueError, 'step "approval" only waits'),
    (lambda _, trip: trip.on(Trip.ship, "before", die, undo=True), ValueError, 'step "ship" has no undo'),
    (lambda _, trip: trip.on(Trip.ship, "before", die, attempt=0), TypeError, "attempt must be a number from 1, not 0"),
    (lambda _, trip: trip.on(Trip.ship, "before", None), TypeError, "pass a function, not None"),
    (lambda _, trip: trip.signal("charge", "x"), ValueError, 'trip has no wait "charge" for a signal; it has approval'),
    (lambda _, trip: trip.signal(Trip.approval, 7), InvalidRequest, "str"),
    (lambda _, trip: trip.retry(), Conflict, "the saga is PENDING"),
]


@pytest.mark.parametrize(("act", "error", "text"), REFUSED)
def test_bad_input_is_refused_with_the_names_that_exist(
    act: Callable[[World, Any], object], error: type[Exception], text: str
) -> None:
    with World(Trip, Tree) as world:
        trip = world.start(Trip, Order())
        with pytest.raises(error, match=text):
            act(world, trip)
        world.advance()
    assert trip.status == "WAITING"


def test_worlds_that_cannot_be() -> None:
    class Other(Saga[Order], name="trip"):
        @step
        def only(self) -> None: ...

    with pytest.raises(TypeError, match=r"pass the saga classes, such as World\(Trip\)"):
        World()
    with pytest.raises(ValueError, match='two types are named "trip"'):
        World(Trip, Other)
    with pytest.raises(TypeError, match="settle: must be a timedelta"):
        World(Trip, settle=3)  # type: ignore[arg-type]


def test_a_message_that_comes_back_to_a_saga_that_has_gone_on_reaches_no_moment() -> None:
    world = World(Trip)
    trip = world.start(Trip, Order())
    trip.on(Trip.charge, "after", die)
    trip.on(Trip.charge, "before", lambda: LOG.append("again"), attempt=2)
    world.advance(HOUR)
    with pytest.raises(AssertionError, match='charge was never "before" in attempt 2'), world:
        pass
    assert (trip.status, LOG) == ("WAITING", [])


class Waiting(Saga[Order], name="waiting"):
    """Its waits have no code, so the functions that begin them are others than a step's."""

    @children(Leaf)
    def leaves(self, request: Order) -> list[Order]:
        return [request]

    pause = sleep(timedelta(days=1))
    last = wait_for(str, timeout=timedelta(days=1))

    @step
    def end(self, last: str) -> str:
        return last


@pytest.mark.parametrize("wait", ["pause", "last"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_whoever_begins_a_wait_can_die(wait: str, moment: Any) -> None:
    with World(Waiting) as world:
        saga = world.start(Waiting, Order())
        saga.on(wait, moment, die)
        world.advance(timedelta(days=1, hours=1))
        assert saga.outcome.steps["last"] == "WAITING"
        saga.signal(Waiting.last, "yes")
        world.play()
    assert saga.outcome.result == "yes"
    actions = [(entry.action, entry.step) for entry in saga.outcome.audit]
    assert [actions.count(("WaitStarted", name)) for name in ("pause", "last")] == [1, 1]


def test_no_worker_dies_in_a_call_of_the_test() -> None:
    class Twice(Saga[Order], name="twice"):
        first = wait_for(str, timeout=timedelta(days=1))
        second = wait_for(str, timeout=timedelta(days=1))

    with World(Twice) as world:
        saga = world.start(Twice, Order())
        saga.on(Twice.second, "after", die)
        world.advance()
        with pytest.raises(RuntimeError, match='second reached "after" in a call of the test itself'):
            saga.signal(Twice.first, "yes")


def test_a_second_start_with_the_same_key_keeps_the_failures_of_the_first() -> None:
    with World(Purchase) as world:
        ada = world.start(Purchase, Order(), key="k", fail={"take": Rejected("no")})
        world.start(Purchase, Order(), key="k")
        world.play()
    assert ada.status == "COMPENSATED"
