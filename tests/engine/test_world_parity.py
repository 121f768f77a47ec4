"""A script has the same outcome in a ``World`` and on queues and tables: deaths, cancels, signals, pauses, breakers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import force_setattr

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
from sagas.authoring.codec import encode
from sagas.authoring.definition.definition import definition_of
from sagas.core.commands import Discard, Postpone
from sagas.core.text import epoch
from sagas.engine.attempt.attempt import Attempt
from sagas.engine.committer import Committed
from sagas.messaging.message import Message
from sagas.messaging.queues import Queues
from sagas.testing import World, die
from sagas.testing.scripts import Died, Moment
from tests.support.aws import HandmadeStack
from tests.support.bench import Bench
from tests.support.databases import emulator, lead_nowhere
from tests.support.dynamodb import aws
from tests.support.sagas import Order

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LOG = list[str]()
STOCK = list[str]()
_SEND = Queues.send
_FAR = 4e9
"""Epoch seconds after all that these scripts wait for."""


def _in_memory(_: pytest.MonkeyPatch) -> HandmadeStack:
    return HandmadeStack(*TYPES, Leaf)


def _on_the_emulator(monkeypatch: pytest.MonkeyPatch) -> HandmadeStack:
    url = emulator().endpoint_url
    assert url is not None
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    return HandmadeStack(*TYPES, Leaf, prefix=f"t{uuid4().hex[:8]}", endpoint_url=url)


@pytest.fixture(params=[_in_memory, pytest.param(_on_the_emulator, marks=pytest.mark.slow)])
def deployed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Deployed]]:
    """Deploys the sagas, with the tables in memory, or all on the emulator of the local stack."""
    lead_nowhere(monkeypatch)
    monkeypatch.setattr(Queues, "send", _without_delay)
    if request.param is _in_memory:
        with aws():
            yield lambda: Deployed(_in_memory(monkeypatch))
    else:
        yield lambda: Deployed(_on_the_emulator(monkeypatch))


class Purchase(Saga[Order], name="purchase"):
    @step(retry=Retry.constant(max_retries=1, delay=5))
    def take(self, request: Order, ctx: Context) -> str:
        LOG.append(f"take {request.item} {ctx.attempt}")
        if request.count > 1 and ctx.attempt == 1:
            raise OSError("down")
        if not STOCK:
            raise Rejected("sold out")
        return STOCK.pop()

    @take.compensate(retry=Retry.constant(max_retries=1, delay=5))
    def put_back(self, take: str, ctx: Context) -> None:
        LOG.append(f"put_back {ctx.attempt}")
        STOCK.append(take)

    @step(retry=Retry.constant(max_retries=0, delay=0, on_exhausted=Exhausted.DEAD_LETTER))
    async def pay(self, request: Order, ctx: Context) -> str:
        LOG.append(f"pay {request.item} {ctx.attempt}")
        return "paid"

    approval = wait_for(str, timeout=3 * DAY)

    @step
    def ship(self, approval: str) -> str:
        LOG.append(f"ship {approval}")
        return approval


class Asking(Saga[Order], name="asking", timeout=10 * DAY):
    @step
    def poll(self, ctx: Context) -> int:
        LOG.append(f"poll {ctx.attempt}")
        if ctx.attempt < 3:
            raise NotYet(after=1800)
        return ctx.attempt

    @wait_for(str, timeout=DAY, on_timeout=Exhausted.CONTINUE)
    def answer(self) -> None:
        LOG.append("ask")

    pause = sleep(HOUR)

    @step
    def end(self, answer: str | None) -> str:
        return str(answer)


class Leaf(Saga[Order], name="leaf"):
    @step(retry=Retry.constant(max_retries=1, delay=1))
    def grow(self, request: Order) -> str:
        LOG.append(f"grow {request.item}")
        if request.item == "bad":
            raise Rejected("no sun")
        return request.item

    @grow.compensate
    def shrink(self, grow: str) -> None:
        LOG.append(f"shrink {grow}")


class Tree(Saga[Order], name="tree"):
    @children(Leaf)
    def leaves(self, request: Order) -> list[Order]:
        return [Order(item) for item in request.item.split()]

    last = wait_for(str, timeout=DAY)


class Guarded(Saga[Order], name="guarded"):
    @step(circuit_breaker=CircuitBreaker(failure_threshold=3, open_for=600))
    def call(self, request: Order) -> str:
        LOG.append("call")
        return "up"


class Row(Saga[Order], name="row"):
    """Its children run one after the other, since queues have no order."""

    @children(Leaf, concurrency=1)
    def leaves(self, request: Order) -> list[Order]:
        return [Order(item) for item in request.item.split()]


def many(request: Order) -> bool:
    return request.count > 1


class Branching(Saga[Order], name="branching"):
    """Its first and last steps, a wait and one in the middle are skipped, unless there are many."""

    @step(when=many)
    def reserve(self) -> None:
        LOG.append("reserve")

    @step
    def take(self, request: Order) -> str:
        LOG.append(f"take {request.item}")
        return request.item

    @step(when=many, undo_when="started")
    def wrap(self, take: str) -> str:
        LOG.append(f"wrap {take}")
        return take

    @wrap.compensate
    def unwrap(self, wrap: str | None) -> None:
        LOG.append(f"unwrap {wrap}")

    note = wait_for(str, timeout=DAY, when=many)

    @step
    def ship(self, request: Order, wrap: str | None, note: str | None) -> None:
        LOG.append(f"ship {wrap} {note}")
        if request.item == "bad":
            raise Rejected("no way")

    @step(when=many)
    def thank(self) -> None:
        LOG.append("thank")


TYPES = (Purchase, Asking, Tree, Row, Guarded, Branching)


class _SeenAttempt(Attempt):
    def __init__(self, seen: Callable[[Message, str], None], *given: Any) -> None:
        super().__init__(*given)
        self._seen = seen

    def run(self) -> Committed | None:
        self._seen(self._message, "before")
        committed = super().run()
        if committed is not None:
            self._seen(self._message, "after")
        return committed


class Deployed:
    """What scripts use of a ``World``, over queues and tables of a deployment under a clock that only it moves."""

    def __init__(self, stack: HandmadeStack) -> None:
        self.bench = Bench(stack=stack)
        self.planned = dict[Moment, Callable[[], object]]()
        self._numbers = dict[tuple[str, str, bool], int]()
        force_setattr(self.bench.engine.worker, "attempt", partial(_SeenAttempt, self._seen))
        called = self.bench.replace_call(self._call)
        self._called = called

    def start(self, saga: type[Saga[Order]], request: Order, *, key: str | None = None) -> OfDeployed:
        return OfDeployed(self, self.bench.start(definition_of(saga).name, encode(request, Order), key=key))

    def pause(self, saga: type[Saga[Any]], step: Any = None) -> None:
        self.bench.engine.pausing.pause(definition_of(saga).name, "test", step=step.name if step else "")

    def resume(self, saga: type[Saga[Any]], step: Any = None) -> None:
        self.bench.engine.pausing.resume(definition_of(saga).name, "test", step=step.name if step else "")

    def open_breaker(self, step: Any) -> None:
        self.bench.engine.breakers.open("guarded", step.name)

    def close_breaker(self, step: Any) -> None:
        self.bench.engine.breaker_operations.close("guarded", step.name, "test")

    def play(self) -> None:
        self._until(float("inf"))

    def advance(self, by: timedelta = timedelta(0)) -> None:
        until = self.bench.clock.now() + by.total_seconds()
        self._until(until)
        self.bench.clock.advance(max(0.0, until - self.bench.clock.now()))

    def _until(self, until: float) -> None:
        """Deliver what is due, in rounds, and look at sagas that are due; move the time to what is due next."""
        bench = self.bench
        for _ in range(300):
            busy = bench.end_waits()
            waits = list[float]()
            for place in bench.stack.steps():
                try:
                    end = bench.deliver(*place)
                except Died:
                    busy = True
                    continue
                if isinstance(end, Postpone):
                    waits.append(end.until)
                busy = busy or isinstance(end, Discard)
            if busy:
                continue
            listing = bench.engine.listing
            positions = [*listing.due(_FAR, 100), *listing.waits(_FAR, 100)]
            looks = [at for at in (epoch(position.sort) for position in positions) if at < _FAR]
            coming = min([*waits, *looks], default=float("inf"))
            if coming > max(until, bench.clock.now()) or coming > _FAR:
                return
            bench.clock.advance(max(0.0, coming - bench.clock.now()))
            if coming in looks:
                bench.engine.recovery.run(60.0)
        raise AssertionError("it does not end")

    def _seen(self, message: Message, name: str) -> None:
        state = self.bench.state(message.saga_id)
        place = message.saga_id, message.step, message.undo
        if name == "before":
            if state.dispatch != message.dispatch:
                return
            of = state.steps[message.index]
            self._numbers[place] = (of.undo_attempts if message.undo else of.attempts).made + 1
        self._reach(Moment(*place, name, self._numbers[place]))

    def _call(self, definition: Any, code: Any, undo: bool, payloads: Any, context: Any, *rest: Any) -> Any:
        moment = Moment(context.saga_id, code.name, undo, "calling", context.attempt)
        self._reach(moment)
        payload = self._called(definition, code, undo, payloads, context, *rest)
        self._reach(moment._replace(name="returned"))
        return payload

    def _reach(self, moment: Moment) -> None:
        self.planned.pop(moment, lambda: None)()


class OfDeployed:
    """What scripts use of a handle."""

    def __init__(self, deployed: Deployed, saga_id: str) -> None:
        self._deployed = deployed
        self.id = saga_id

    def on(self, step: Any, moment: str, do: Callable[[], object], *, attempt: int = 1, undo: bool = False) -> None:
        self._deployed.planned[Moment(self.id, step.name, undo, moment, attempt)] = do

    def signal(self, step: Any, value: Any) -> None:
        bench = self._deployed.bench
        bench.engine.signals.send(bench.state(self.id).saga, self.id, step.name, value, "test")

    def cancel(self, reason: str = "") -> None:
        bench = self._deployed.bench
        bench.engine.operations.cancel(bench.state(self.id).saga, self.id, "test", reason=reason)

    def retry(self, reason: str = "") -> None:
        bench = self._deployed.bench
        bench.engine.operations.retry(bench.state(self.id).saga, self.id, reason, "test")

    def compensate(self, reason: str = "", *, force: bool = False) -> None:
        bench = self._deployed.bench
        bench.engine.operations.compensate(bench.state(self.id).saga, self.id, reason, "test", force=force)

    @property
    def trail(self) -> Any:
        bench = self._deployed.bench
        return bench.engine.reader.audit(bench.state(self.id).saga, self.id, 100, 0)[0]

    @property
    def status(self) -> str:
        return self._deployed.bench.status(self.id)


Script = Callable[[Any], list[Any]]
SCRIPTS: dict[str, Script] = {}


def script(written: Script) -> Script:
    SCRIPTS[written.__name__] = written
    return written


def _dying(moment: str, step: Any, *, undo: bool = False) -> Script:
    """Return a script in which the worker of a step dies at a moment."""

    def dies(world: Any) -> list[Any]:
        saga = world.start(Purchase, Order("a"))
        saga.on(step, moment, die, undo=undo)
        world.advance(2 * HOUR)
        if undo:
            saga.cancel("n")
            world.advance(2 * HOUR)
        else:
            saga.signal(Purchase.approval, "yes")
        world.play()
        return [saga]

    return dies


for _moment in ("before", "calling", "returned", "after"):
    SCRIPTS[f"dies_{_moment}_in_a_step_with_a_retry"] = _dying(_moment, Purchase.take)
    SCRIPTS[f"dies_{_moment}_in_a_coroutine_without_one"] = _dying(_moment, Purchase.pay)
    SCRIPTS[f"dies_{_moment}_in_an_undo"] = _dying(_moment, Purchase.take, undo=True)


@script
def two_of_one_mug(world: Any) -> list[Any]:
    STOCK[:] = ["mug"]
    sagas = [world.start(Purchase, Order("a")), world.start(Purchase, Order("b"))]
    world.advance(HOUR)
    sagas[0].signal(Purchase.approval, "yes")
    world.play()
    return sagas


@script
def dies_twice(world: Any) -> list[Any]:
    saga = world.start(Purchase, Order("a"))
    saga.on(Purchase.take, "returned", die)
    saga.on(Purchase.take, "calling", die, attempt=2)
    world.play()
    return [saga]


@script
def dies_in_a_retry(world: Any) -> list[Any]:
    saga = world.start(Purchase, Order("a", 2))
    saga.on(Purchase.take, "after", die)
    world.play()
    return [saga]


@script
def cancelled_while_it_runs(world: Any) -> list[Any]:
    saga = world.start(Purchase, Order("a"))
    saga.on(Purchase.pay, "calling", saga.cancel)
    world.play()
    return [saga]


@script
def cancelled_before_it_runs(world: Any) -> list[Any]:
    saga = world.start(Purchase, Order("a"))
    saga.on(Purchase.pay, "before", saga.cancel)
    world.play()
    return [saga]


@script
def cancelled_between_two_attempts(world: Any) -> list[Any]:
    saga = world.start(Purchase, Order("a", 2))
    saga.on(Purchase.take, "after", saga.cancel)
    world.play()
    return [saga]


@script
def cancelled_while_it_waits(world: Any) -> list[Any]:
    saga = world.start(Purchase, Order("a"))
    world.advance(HOUR)
    saga.cancel("n")
    world.play()
    return [saga]


@script
def cancelled_while_it_polls(world: Any) -> list[Any]:
    saga = world.start(Asking, Order("a"))
    world.advance(timedelta(minutes=40))
    saga.cancel("n")
    world.play()
    return [saga]


@script
def waits_that_end_by_themselves(world: Any) -> list[Any]:
    sagas = [world.start(Purchase, Order("a")), world.start(Asking, Order("b"))]
    world.play()
    return sagas


@script
def answered_in_time(world: Any) -> list[Any]:
    saga = world.start(Asking, Order("a"))
    world.advance(2 * HOUR)
    saga.signal(Asking.answer, "yes")
    world.play()
    return [saga]


@script
def answered_before_it_asks(world: Any) -> list[Any]:
    saga = world.start(Purchase, Order("a"))
    saga.signal(Purchase.approval, "early")
    world.play()
    return [saga]


@script
def answered_by_a_worker_that_dies(world: Any) -> list[Any]:
    saga = world.start(Asking, Order("a"))
    saga.on(Asking.answer, "returned", die)
    world.advance(2 * HOUR)
    saga.signal(Asking.answer, "yes")
    world.play()
    return [saga]


@script
def an_operator_retries(world: Any) -> list[Any]:
    STOCK[:] = []
    saga = world.start(Purchase, Order("a"))
    saga.on(Purchase.take, "calling", lambda: STOCK.append("mug"))
    saga.on(Purchase.pay, "returned", die)
    world.advance(DAY)
    if saga.status == "DEAD_LETTERED":
        saga.retry("look again")
    world.play()
    return [saga]


@script
def an_operator_gives_up(world: Any) -> list[Any]:
    saga = world.start(Purchase, Order("a"))
    saga.on(Purchase.pay, "calling", die)
    world.advance(DAY)
    saga.compensate("never mind")
    world.play()
    return [saga]


@script
def a_type_is_paused_and_resumed(world: Any) -> list[Any]:
    saga = world.start(Purchase, Order("a"))
    world.pause(Purchase)
    world.advance(HOUR)
    world.resume(Purchase)
    world.play()
    return [saga]


@script
def a_step_is_paused_while_the_one_before_runs(world: Any) -> list[Any]:
    saga = world.start(Purchase, Order("a"))
    saga.on(Purchase.take, "returned", lambda: world.pause(Purchase, Purchase.pay))
    world.advance(HOUR)
    world.resume(Purchase, Purchase.pay)
    world.advance(HOUR)
    saga.signal(Purchase.approval, "yes")
    world.play()
    return [saga]


@script
def a_breaker_is_open_for_its_time(world: Any) -> list[Any]:
    world.open_breaker(Guarded.call)
    sagas = [world.start(Guarded, Order("a")), world.start(Guarded, Order("b"))]
    world.play()
    return sagas


@script
def a_breaker_is_closed_by_hand(world: Any) -> list[Any]:
    world.open_breaker(Guarded.call)
    saga = world.start(Guarded, Order("a"))
    world.advance(timedelta(seconds=5))
    world.close_breaker(Guarded.call)
    world.play()
    return [saga]


@script
def children_complete(world: Any) -> list[Any]:
    saga = world.start(Tree, Order("x y z"))
    world.advance(HOUR)
    saga.signal(Tree.last, "end")
    world.play()
    return [saga]


@script
def a_child_fails(world: Any) -> list[Any]:
    saga = world.start(Row, Order("x bad z"))
    world.play()
    return [saga]


@script
def a_parent_is_cancelled_behind_its_children(world: Any) -> list[Any]:
    saga = world.start(Tree, Order("x y"))
    world.advance(HOUR)
    saga.cancel("n")
    world.play()
    return [saga]


@script
def a_parent_dies_as_it_asks_for_children(world: Any) -> list[Any]:
    saga = world.start(Tree, Order("x y"))
    saga.on(Tree.leaves, "returned", die)
    world.play()
    return [saga]


@script
def one_key_twice(world: Any) -> list[Any]:
    sagas = [world.start(Purchase, Order("a"), key="k"), world.start(Purchase, Order("a"), key="k")]
    world.play()
    return sagas


@script
def steps_are_skipped(world: Any) -> list[Any]:
    sagas = [world.start(Branching, Order(*request)) for request in (("a", 1), ("bad", 1), ("bad", 2), ("b", 2))]
    world.advance(HOUR)
    for saga in sagas[2:]:
        saga.signal(Branching.note, "dear")
    world.play()
    return sagas


@script
def dies_at_a_step_that_is_skipped(world: Any) -> list[Any]:
    sagas = list[Any]()
    for moment in ("before", "after"):
        saga = world.start(Branching, Order("a"))
        saga.on(Branching.reserve, moment, die)
        sagas.append(saga)
    world.play()
    return sagas


@script
def dies_at_steps_around_a_skipped_one(world: Any) -> list[Any]:
    sagas = list[Any]()
    for at in (Branching.take, Branching.ship):
        for moment in ("before", "returned", "after"):
            saga = world.start(Branching, Order("a"))
            saga.on(at, moment, die)
            sagas.append(saga)
    world.play()
    return sagas


@script
def cancelled_before_a_skipped_step(world: Any) -> list[Any]:
    sagas = [world.start(Branching, Order("a")), world.start(Branching, Order("a"))]
    sagas[0].on(Branching.reserve, "before", sagas[0].cancel)
    sagas[1].on(Branching.take, "returned", sagas[1].cancel)
    world.play()
    return sagas


def told(handles: list[Any]) -> list[Any]:
    """What became of sagas: status and trail."""
    kept = ("seq", "action", "step", "attempt", "status")
    return [(handle.status, [tuple(entry[name] for name in kept) for entry in handle.trail]) for handle in handles]


class _Told:
    def __init__(self, handle: Any) -> None:
        outcome = handle.outcome
        self.status = outcome.status
        self.trail = outcome.audit


def _without_delay(queues: Queues, message: Message, delay: float = 0.0) -> None:
    _SEND(queues, message, 0.0)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_has_the_same_outcome(name: str, deployed: Callable[[], Deployed]) -> None:
    STOCK[:] = ["mug", "mug"]
    LOG.clear()
    with World(*TYPES) as world:
        simulated = told([_Told(handle) for handle in SCRIPTS[name](world)])
    effects = list(LOG)
    STOCK[:] = ["mug", "mug"]
    LOG.clear()
    assert simulated == told(SCRIPTS[name](deployed()))
    assert sorted(effects) == sorted(LOG)
