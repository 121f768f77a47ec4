"""A saga's own deadline is kept, whatever else puts off when the supervisor looks at it next."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sagas import CircuitBreaker, Context, Saga, children, step
from sagas.core.text import epoch, iso
from tests.support.bench import Bench, Death, Make, once
from tests.support.sagas import FAIL, PARK, Answered, Order, Parcel, Single, act

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
