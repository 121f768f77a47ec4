"""A saga's own deadline is kept: no step begins after it, and nothing puts off the supervisor's look at it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sagas import CircuitBreaker, Context, Exhausted, Retry, Saga, children, sleep, step
from sagas.core.text import epoch, iso
from sagas.engine.attempt.course import Chain
from sagas.engine.engine import settings_from
from sagas.errors import Cancelled
from tests.support.bench import Bench, Death, Make, once
from tests.support.engine import Engine
from tests.support.sagas import FAIL, LOG, PARK, Answered, Order, Parcel, Single, act

HOUR = 3_600.0


class Waiting(Answered[Parcel], name="waiting-child"):
    """Waits for a person."""


class Asking(Saga[Order], name="asking", timeout=timedelta(hours=1)):
    """Its child waits for longer than it has time."""

    @children(Waiting)
    def asked(self, ctx: Context) -> list[Parcel]:
        return [Parcel(1)]

    @step
    def close(self, asked: list[str], ctx: Context) -> None: ...


class InLine(Single[Order], name="in-line", timeout=timedelta(hours=1)):
    """One step, whose message may wait in line."""


class Held(Saga[Order], name="held", timeout=timedelta(hours=1)):
    """One step, which a circuit breaker holds back for longer than the saga has time."""

    @step(circuit_breaker=CircuitBreaker(failure_threshold=1, open_for=7_200))
    def book(self, ctx: Context) -> None:
        act("book", ctx)


class Patient(Answered[Order], name="patient", timeout=timedelta(hours=1), stale_after=timedelta(minutes=50)):
    """Waits for as long as it has time; its silence is no stall for long."""


class Stuck(Single[Order], name="stuck-in-time", timeout=timedelta(hours=1), retry=PARK):
    """Its step waits for an operator."""


class Settled(Single[Order], name="settled", retry=PARK):
    """Likewise, for as long as it takes."""


def settled(b: Bench, name: str) -> str:
    """A saga that is DEAD_LETTERED, and settled as it is."""
    FAIL["call"] = RuntimeError("broken")
    saga_id = b.start(name)
    b.deliver(name, "call")
    b.engine.operations.resolve(name, saga_id, "the customer was called", "", (), "ada")
    assert b.status(saga_id) == "DEAD_LETTERED"
    return saga_id


def look_every_minute(b: Bench, until: float) -> None:
    """Have the supervisor come once a minute until then."""
    while b.clock.now() < until:
        b.clock.advance(60)
        b.recover()


def due(b: Bench, saga_id: str) -> float:
    return epoch(b.stack.control(saga_id)["due"]["S"])


def test_a_parent_whose_children_take_longer_ends_in_time(bench: Make) -> None:
    b = bench(Asking, Waiting)
    deadline = b.clock.now() + HOUR
    saga_id = b.start("asking")
    b.run()
    assert b.status(saga_id) == "WAITING"
    look_every_minute(b, deadline + 60)
    b.run()
    assert b.status(saga_id) == "COMPENSATED"
    assert b.show(saga_id)["error"]["type"] == "SagaTimedOut"


def test_one_that_waits_in_line_ends_in_time(bench: Make) -> None:
    b = bench(InLine)
    deadline = b.clock.now() + HOUR
    saga_id = b.start("in-line")
    look_every_minute(b, deadline + 60)
    b.run()
    assert b.status(saga_id) == "COMPENSATED"


def test_one_behind_a_circuit_breaker_ends_in_time(bench: Make) -> None:
    b = bench(Held)
    FAIL["book"] = RuntimeError("down")
    b.start("held")
    b.deliver("held", "book")
    FAIL.clear()
    deadline = b.clock.now() + HOUR
    saga_id = b.start("held")
    b.lose_messages()
    look_every_minute(b, deadline + 60)
    b.run()
    assert b.status(saga_id) == "COMPENSATED"


def test_a_signal_whose_sender_died_does_not_put_it_off(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Patient)
    deadline = b.clock.now() + HOUR
    saga_id = b.start("patient")
    b.run()
    b.clock.advance(HOUR - 600)
    once(monkeypatch, type(b.engine.signals), "_take")
    with pytest.raises(Death):
        b.engine.signals.send("patient", saga_id, "answer", "yes", "ada")
    assert due(b, saga_id) <= deadline


def test_resuming_its_type_does_not_put_it_off(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Patient)
    deadline = b.clock.now() + HOUR
    b.engine.pausing.pause("patient", "ada", starts=True)
    saga_id = b.start("patient")
    b.engine.signals.send("patient", saga_id, "answer", "yes", "ada")
    b.run()
    assert b.state(saga_id).paused
    b.clock.advance(HOUR - 600)
    b.engine.pausing.resume("patient", "ada")
    assert not b.state(saga_id).paused
    assert due(b, saga_id) <= deadline


def test_one_that_was_settled_while_it_waits_for_an_operator_ends_in_time(bench: Make) -> None:
    b = bench(Stuck)
    deadline = b.clock.now() + HOUR
    saga_id = settled(b, "stuck-in-time")
    look_every_minute(b, deadline + 60)
    b.run()
    assert b.status(saga_id) == "COMPENSATED"


def test_without_a_deadline_it_is_never_overdue_and_still_listed(bench: Make) -> None:
    b = bench(Settled)
    saga_id = settled(b, "settled")
    b.clock.advance(50_000)
    assert b.engine.recovery.run(60.0).overdue == 0.0
    found = b.engine.finder.run("recover", 60.0)
    assert (found.found, found.overdue) == (0, 0.0)
    (listed,) = b.engine.reader.list(["settled"], "DEAD_LETTERED", 20, None)["sagas"]
    assert listed["saga_id"] == saga_id
    FAIL.clear()
    b.engine.operations.retry("settled", saga_id, "after all", "ada")
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def test_one_that_was_settled_earlier_is_overdue_once(bench: Make) -> None:
    b = bench(Settled)
    saga_id = settled(b, "settled")
    key = {"saga_id": {"S": saga_id}}
    then = {":then": {"S": iso(b.clock.now() + 120)}}
    b.stack.dynamodb.update_item(
        TableName=b.stack.sagas_table, Key=key, UpdateExpression="SET due = :then", ExpressionAttributeValues=then
    )
    b.clock.advance(50_000)
    assert b.engine.recovery.run(60.0).overdue > 0.0
    assert b.engine.recovery.run(60.0).overdue == 0.0


SECONDS = timedelta(seconds=8)
CLOCK: list[Callable[[float], None]] = []
_ONCE = Retry.constant(max_retries=0, delay=0.0)


def take(name: str, ctx: Context, seconds: float = 0.0) -> str:
    """Have the effect, after so long."""
    CLOCK[0](seconds)
    act(name, ctx)
    return name


def hurried(pivot: int | None, retry: Retry = _ONCE) -> type[Saga[Order]]:
    """A saga of three steps with eight seconds, whose first step takes twelve. ``pivot``: the position of its pivot."""

    class Hurried(Saga[Order], name="hurried", timeout=SECONDS, retry=retry):
        @step(timeout=30, pivot=pivot == 0)
        def one(self, request: Order, ctx: Context) -> str:
            return take("one", ctx, 12)

        if pivot != 0:

            @one.compensate
            def undo_one(self, ctx: Context) -> None:
                act("undo_one", ctx)

        @step(pivot=pivot == 1)
        def two(self, ctx: Context) -> str:
            return take("two", ctx)

        @step(pivot=pivot == 2)
        def three(self, ctx: Context) -> str:
            return take("three", ctx)

    return Hurried


Hurry = Callable[..., Bench]


@pytest.fixture
def hurry(bench: Make, monkeypatch: pytest.MonkeyPatch) -> Hurry:
    """Makes a bench whose sagas' steps take time."""

    def made(*sagas: type[Saga[Any]], chained: bool = False) -> Bench:
        b = bench(*sagas, lifetime=100.0, carry=False)
        monkeypatch.setattr(f"{__name__}.CLOCK", [b.clock.advance])
        if chained:
            chain, settings = Chain.parse("*"), settings_from(b.stack.environment)
            b.engine = Engine(b.engine.registry, settings, b.stack.routes, clock=b.clock, carry=False, chain=chain)
        return b

    return made


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("pivot", [None, 0, 1, 2])
def test_no_step_begins_after_it_unless_a_pivot_holds(hurry: Hurry, pivot: int | None, chained: bool) -> None:
    b = hurry(hurried(pivot), chained=chained)
    saga_id = b.start("hurried")
    b.run()
    if pivot == 0:
        assert (b.status(saga_id), LOG) == ("COMPLETED", ["one:1", "two:1", "three:1"])
        assert b.actions(saga_id)[1:3] == ["StepCompleted", "SagaTimedOut"]
    else:
        assert (b.status(saga_id), LOG) == ("COMPENSATED", ["one:1", "undo_one:1"])
        assert b.actions(saga_id)[1:4] == ["StepCompleted", "SagaTimedOut", "CompensationStarted"]
        assert b.show(saga_id)["error"]["type"] == "SagaTimedOut"


def test_the_result_of_the_last_step_counts(hurry: Hurry) -> None:
    class Alone(Saga[Order], name="alone", timeout=SECONDS):
        @step(timeout=30)
        def only(self, ctx: Context) -> str:
            return take("only", ctx, 12)

    b = hurry(Alone)
    saga_id = b.start("alone")
    b.run()
    assert (b.status(saga_id), b.show(saga_id)["result"]) == ("COMPLETED", "only")


@pytest.mark.parametrize("policy", [Exhausted.COMPENSATE, Exhausted.FAIL, Exhausted.DEAD_LETTER])
def test_what_fails_after_it_is_not_retried(hurry: Hurry, policy: Exhausted) -> None:
    b = hurry(hurried(None, Retry.constant(max_retries=5, delay=0.0, on_exhausted=policy)))
    saga_id = b.start("hurried")
    FAIL["one"] = RuntimeError("down")
    b.run()
    assert (b.status(saga_id), LOG) == ("COMPENSATED", ["one:1"])
    assert b.show(saga_id)["error"]["type"] == "SagaTimedOut"


@pytest.mark.parametrize("pivot", [None, 0])
def test_a_message_that_comes_after_it_calls_nothing(hurry: Hurry, pivot: int | None) -> None:
    b = hurry(hurried(pivot))
    saga_id = b.start("hurried")
    CLOCK[0](9)
    b.run()
    assert (b.status(saga_id), LOG) == ("COMPENSATED", [])
    assert b.step(saga_id, 0)["attempts"] == 0


@pytest.mark.parametrize("pivot", [None, 0])
def test_code_is_not_called_if_it_passes_after_the_claim(
    hurry: Hurry, pivot: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = hurry(hurried(pivot))
    saga_id = b.start("hurried")
    entries = b.engine.journal.entries

    def slow(*arguments: Any) -> Any:
        CLOCK[0](9)
        return entries(*arguments)

    monkeypatch.setattr(b.engine.journal, "entries", slow)
    b.run()
    assert (b.status(saga_id), LOG) == ("COMPENSATED", [])
    assert b.step(saga_id, 0)["attempts"] == 0
    assert b.actions(saga_id)[1:3] == ["StepPostponed", "SagaTimedOut"]
    assert b.entry(saga_id, "StepPostponed")["details"]["because"] == "late"


def test_a_step_learns_of_it(hurry: Hurry) -> None:
    seen = list[object]()

    class Looking(Saga[Order], name="looking-at-it", timeout=SECONDS):
        @step(timeout=30)
        def look(self, ctx: Context) -> None:
            seen.append(ctx.cancelled)
            CLOCK[0](9)
            seen.append(ctx.cancelled)
            try:
                ctx.raise_if_cancelled()
            except Cancelled as error:
                seen.append(str(error))
                raise

    b = hurry(Looking)
    saga_id = b.start("looking-at-it")
    b.run()
    assert seen == [False, True, f"the deadline of saga {saga_id} has passed"]
    assert (b.status(saga_id), b.step(saga_id, 0)["attempts"]) == ("COMPENSATED", 1)


def test_a_wait_without_code_does_not_begin_after_it(hurry: Hurry) -> None:
    class Resting(Saga[Order], name="resting", timeout=SECONDS):
        @step(timeout=30)
        def one(self, ctx: Context) -> str:
            return take("one", ctx, 12)

        nap = sleep(timedelta(days=1))

    b = hurry(Resting)
    saga_id = b.start("resting")
    b.run()
    assert (b.status(saga_id), b.actions(saga_id).count("WaitStarted")) == ("COMPENSATED", 0)


def test_a_parent_past_it_hands_out_no_further_child(hurry: Hurry) -> None:
    class Slow(Saga[Parcel], name="slow-child"):
        @step(timeout=30)
        def work(self, ctx: Context) -> str:
            return take("work", ctx, 12)

    class Family(Saga[Order], name="family", timeout=SECONDS):
        @children(Slow, concurrency=1)
        def work(self, ctx: Context) -> list[Parcel]:
            return [Parcel(1), Parcel(2), Parcel(3)]

    b = hurry(Family, Slow)
    saga_id = b.start("family")
    b.run()
    assert (b.status(saga_id), LOG) == ("COMPENSATED", ["work:1"])


def test_a_step_that_runs_is_left_alone_and_looked_at_rarely(hurry: Hurry) -> None:
    looked = list[tuple[list[str], float]]()

    class Steady(Saga[Order], name="steady", timeout=SECONDS):
        @step(timeout=60)
        def one(self, ctx: Context) -> None:
            CLOCK[0](9)
            looked.append((b.recover(), due(b, saga_id) - b.clock.now()))

    b = hurry(Steady)
    saga_id = b.start("steady")
    b.run()
    ((recovered, later),) = looked
    assert recovered == []
    assert later > 60
    assert b.status(saga_id) == "COMPLETED"


@pytest.mark.parametrize(("ends", "error"), [("cancel", "Cancelled"), ("deadline", "SagaTimedOut")])
def test_a_wait_that_was_stopped_says_why(bench: Make, ends: str, error: str) -> None:
    b = bench(Patient)
    saga_id = b.start("patient")
    b.run()
    if ends == "cancel":
        b.engine.operations.cancel("patient", saga_id, "ada")
    else:
        b.clock.advance(HOUR)
        b.recover()
    b.run()
    assert (b.step(saga_id, 0)["status"], b.step(saga_id, 0)["error"]["type"]) == ("FAILED", error)
