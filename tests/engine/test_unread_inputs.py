"""Inputs that cannot be read for a while: nothing is called, nothing is counted, and the saga continues by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from sagas.authoring.policies import CircuitBreaker
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.client.read.advice import advice
from sagas.engine.supervise.recovery import RecoveryFilter
from sagas.errors import Conflict, Denied, NotYet, Unavailable
from tests.engine.outages import DONE, REQUEST, arrive_at_once
from tests.support.bench import Bench
from tests.support.sagas import FAIL, LOG, Order, Trip

Make = Callable[..., Bench]
OUT = Unavailable("S3 GetObject: SlowDown")
DENIED = Denied("KMS Decrypt: AccessDeniedException", "kms:Decrypt on arn:aws:kms:eu-central-1:1:key/k")


class Unread:
    """A journal whose entries cannot be read, while ``error`` is set."""

    def __init__(self, bench: Bench, patch: pytest.MonkeyPatch, error: Unavailable | None = OUT) -> None:
        self.error, self._read = error, bench.engine.journal.entries
        patch.setattr(bench.engine.journal, "entries", self.entries)

    def entries(self, *arguments: Any) -> Any:
        if self.error is not None:
            raise self.error
        return self._read(*arguments)


def look(b: Bench, saga: str, name: str, seconds: float = 300.0, times: int = 1) -> None:
    """Let time pass, and deliver the step's message, so often."""
    for _ in range(times):
        b.clock.advance(seconds)
        b.deliver(saga, name)


@pytest.fixture(autouse=True)
def arriving_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    arrive_at_once(monkeypatch)


@pytest.fixture
def trip(bench: Make) -> Bench:
    return bench(Trip, carry=False)


@pytest.mark.parametrize("error", [OUT, DENIED, Denied("KMS Decrypt: DisabledException")])
def test_an_outage_of_an_hour_costs_nothing(trip: Bench, monkeypatch: pytest.MonkeyPatch, error: Unavailable) -> None:
    saga_id = trip.start("trip", REQUEST)
    unread = Unread(trip, monkeypatch, error)
    trip.deliver("trip", "book")
    looks = [trip.clock.now()]
    for _ in range(25):
        trip.clock.advance(trip.state(saga_id).not_before - trip.clock.now() + 0.01)
        trip.deliver("trip", "book")
        looks.append(trip.clock.now())
    apart = [after - before for before, after in pairwise(looks)]
    assert max(apart) <= 305  # five minutes, and the tries of a look
    assert looks[-1] - looks[0] > 3_600
    state = trip.state(saga_id)
    assert (state.status, state.steps[0].attempts.made, state.recovery.attempts, state.attention) == (
        "RUNNING",
        0,
        0,
        0,
    )
    assert trip.actions(saga_id) == ["SagaStarted", "StepPostponed"]
    unread.error = None
    trip.run()
    assert (trip.status(saga_id), LOG) == ("COMPLETED", DONE)
    assert trip.actions(saga_id) == ["SagaStarted", "StepPostponed", *["StepCompleted"] * 3]
    assert trip.state(saga_id).unread is None


def test_a_missing_right_is_listed_at_once_and_taken_off_before_the_code_runs(
    trip: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    saga_id = trip.start("trip", REQUEST)
    unread = Unread(trip, monkeypatch, DENIED)
    trip.deliver("trip", "book")
    view = trip.show(saga_id)
    reason = f"step book was not called: its inputs cannot be read (the right {DENIED.right} is missing)"
    assert (view["attention"]["code"], view["attention"]["reason"]) == ("no_right", reason)
    assert (view["waiting"]["kind"], view["waiting"]["message"]) == ("inputs", reason)
    (listed,) = trip.engine.reader.attention(None, 10, None)["sagas"]
    assert listed["saga_id"] == saga_id
    assert listed["attention"] == view["attention"]
    assert any(
        line.startswith(f"S{reason[1:]}. No attempt is counted") for line in advice(cast("Any", view), trip.clock.now())
    )
    (incident,) = trip.engine.reader.incidents(None)["incidents"]
    assert (incident["code"], incident["count"]) == ("no_right", 1)
    with pytest.raises(Conflict, match="nothing to resolve"):
        trip.engine.operations.resolve("trip", saga_id, "seen", "", (), "ada")
    with pytest.raises(Conflict, match="until its inputs can be read"):
        trip.engine.operations.retry("trip", saga_id, "", "ada")
    unread.error = None
    trip.deliver("trip", "book")  # too early
    trip.engine.recovery.run(60.0, requested=RecoveryFilter(saga_id=saga_id))
    trip.deliver("trip", "book")
    trip.run()
    assert trip.engine.reader.attention(None, 10, None)["sagas"] == []
    assert trip.status(saga_id) == "COMPLETED"


def test_an_outage_is_listed_after_a_quarter_of_an_hour(trip: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    saga_id = trip.start("trip", REQUEST)
    unread = Unread(trip, monkeypatch)
    trip.deliver("trip", "book")
    first = trip.clock.now()
    look(trip, "trip", "book", times=2)
    assert trip.show(saga_id)["attention"] is None
    assert trip.show(saga_id)["waiting"]["kind"] == "inputs"
    look(trip, "trip", "book", times=2)
    attention = trip.show(saga_id)["attention"]
    assert (attention["code"], str(OUT) in attention["reason"]) == ("inputs_unreachable", True)
    since = trip.state(saga_id).unread
    assert since is not None
    assert first - 2 <= since.since <= first
    unread.error = None
    trip.run()
    assert trip.status(saga_id) == "COMPLETED"


def test_it_is_off_the_list_before_its_code_runs(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[Any]()

    class Looking(Saga[Order], name="looking"):
        @step
        def read(self, request: Order) -> None:
            seen.append(b.engine.reader.attention(None, 10, None)["sagas"])

    b = bench(Looking, carry=False)
    b.start("looking", REQUEST)
    unread = Unread(b, monkeypatch, DENIED)
    b.deliver("looking", "read")
    assert b.engine.reader.attention(None, 10, None)["sagas"]
    unread.error = None
    look(b, "looking", "read")
    assert seen == [[]]


def test_an_undo_waits_as_a_step_does(trip: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    FAIL["tell"] = RuntimeError("nobody listens")
    saga_id = trip.start("trip", REQUEST)
    for name in ("book", "pay", "tell"):
        trip.deliver("trip", name)
    assert trip.state(saga_id).undoing
    unread = Unread(trip, monkeypatch)
    trip.deliver("trip", "pay")
    look(trip, "trip", "pay", times=12)
    state = trip.state(saga_id)
    assert (state.status, state.steps[1].undo_attempts.made, state.recovery.attempts) == ("COMPENSATING", 0, 0)
    view = trip.show(saga_id)
    assert view["attention"]["code"] == "inputs_unreachable"
    assert view["attention"]["reason"].startswith("the undo of step pay was not called")
    assert trip.actions(saga_id).count("CompensationPostponed") == 1
    unread.error = None
    trip.run()
    assert (trip.status(saga_id), LOG[-2:]) == ("COMPENSATED", ["refund:1", "unbook:1"])


def test_the_deadline_of_the_saga_applies(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    class Hurried(Saga[Order], name="hurried", timeout=timedelta(minutes=20)):
        @step
        def book(self) -> str:
            LOG.append("book")
            return "b"

        @book.compensate
        def unbook(self) -> None:
            LOG.append("unbook")

        @step
        def read(self, request: Order) -> None:
            LOG.append("read")

    b = bench(Hurried, carry=False)
    saga_id = b.start("hurried", REQUEST)
    b.deliver("hurried", "book")
    Unread(b, monkeypatch)
    b.deliver("hurried", "read")
    for _ in range(5):
        look(b, "hurried", "read")
        b.recover()
    b.run()
    assert (b.status(saga_id), LOG) == ("COMPENSATED", ["book", "unbook"])


class Polling(Saga[Order], name="polling"):
    """A step that polls, with a timeout of a minute."""

    @step(within=timedelta(minutes=10), circuit_breaker=CircuitBreaker(failure_threshold=1))
    def poll(self, request: Order) -> str:
        LOG.append("poll")
        if len(LOG) < 3:
            raise NotYet(60, "the bank")
        return "done"


def test_a_step_that_polls_goes_on_polling_and_the_time_does_not_count(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench(Polling, carry=False)
    saga_id = b.start("polling", REQUEST)
    b.deliver("polling", "poll")
    unread = Unread(b, monkeypatch)
    look(b, "polling", "poll", times=12)
    assert (b.state(saga_id).status, b.state(saga_id).steps[0].attempts.made) == ("WAITING", 1)
    assert all(state.closed for state in b.engine.breakers.states().values())
    unread.error = None
    look(b, "polling", "poll", times=2)
    assert (b.status(saga_id), LOG) == ("COMPLETED", ["poll"] * 3)


def test_a_lost_message_is_no_stall_and_no_event(trip: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    saga_id = trip.start("trip", REQUEST)
    Unread(trip, monkeypatch)
    trip.deliver("trip", "book")
    for _ in range(12):
        trip.lose_messages()
        trip.clock.advance(3_700)
        trip.recover()
    state = trip.state(saga_id)
    assert (state.recovery.attempts, state.attention, state.status) == (0, 0.0, "RUNNING")
    assert state.unread is not None
