"""The store goes away while steps finish: what they did is committed later, and nothing known is done twice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest

from sagas.authoring.context import Context
from sagas.authoring.policies import Retry
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.core.commands import Discard, FailDelivery, Postpone
from sagas.engine.attempt.attempt import PAUSES
from sagas.engine.attempt.course import COMMIT_RESERVE
from sagas.errors import Ambiguous, Unavailable
from tests.engine.outages import DONE, REQUEST, Begin, Outage, arrive_at_once, carried, lost_at
from tests.support.bench import Bench
from tests.support.sagas import FAIL, LOG, Order, Stubborn, Trip

Make = Callable[..., Bench]


class Copious(Saga[Order], name="copious"):
    """Its step returns a large result."""

    characters = 0

    @step
    def fill(self, ctx: Context) -> str:
        LOG.append(f"fill:{ctx.attempt}")
        return "x" * self.characters


class Lonely(Saga[Order], name="lonely"):
    """One step, and a look at whether it was cancelled."""

    @step
    def look(self, ctx: Context) -> bool:
        LOG.append(f"look:{ctx.attempt}")
        return ctx.cancelled


def test_an_outcome_waits_in_its_queue_and_is_committed_later(bench: Make, outage: Begin) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    message = lost_at(b, gone, "book")
    assert message.pending_commit is not None
    pending = message.pending_commit
    assert (pending.action, pending.payload, message.dispatch) == ("StepCompleted", '{"number":1}', 1)
    assert b.clock.slept == list(PAUSES)
    waits = [b.deliver("trip", "book") for _ in range(4)]
    delays = [outcome.until - b.clock.now() for outcome in waits if isinstance(outcome, Postpone)]
    assert len(delays) == 4
    assert delays == sorted(delays)
    assert delays[0] < delays[-1] <= 30
    b.clock.advance(3_600)
    gone.lasting = False
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert DONE == LOG
    assert b.actions(saga_id) == ["SagaStarted", *["StepCompleted"] * 3]
    assert b.show(saga_id)["steps"][0]["result"] == {"number": 1}


@pytest.mark.parametrize("name", ["book", "pay", "tell"])
@pytest.mark.parametrize("after", [False, True])
def test_every_step_survives_an_outage(bench: Make, outage: Begin, name: str, after: bool) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    for earlier in ("book", "pay", "tell")[: ["book", "pay", "tell"].index(name)]:
        b.deliver("trip", earlier)
    gone = outage(b, error=Ambiguous("no answer"), after=after)
    lost_at(b, gone, name)
    gone.lasting = False
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert DONE == LOG
    assert b.actions(saga_id) == ["SagaStarted", *["StepCompleted"] * 3]


def test_a_short_outage_is_sat_out(bench: Make, outage: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    sleep = b.clock.sleep

    def over(seconds: float) -> None:
        gone.lasting = False
        sleep(seconds)

    monkeypatch.setattr(b.clock, "sleep", over)
    b.run()
    assert gone.failed == 1
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert DONE == LOG


class Unread:
    """A journal whose entries cannot be read, so many times."""

    def __init__(self, bench: Bench, patch: pytest.MonkeyPatch, times: int) -> None:
        self.left = times
        self._read = bench.engine.journal.entries
        patch.setattr(bench.engine.journal, "entries", self.entries)

    def entries(self, *arguments: Any) -> Any:
        if self.left:
            self.left -= 1
            raise Unavailable("DynamoDB is out of reach")
        return self._read(*arguments)


def test_a_short_outage_while_inputs_are_read_costs_no_attempt(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip, carry=False)
    saga_id = b.start("trip", REQUEST)
    Unread(b, monkeypatch, len(PAUSES))
    b.run()
    assert b.clock.slept == list(PAUSES)
    assert [step["attempts"] for step in b.show(saga_id)["steps"]] == [1, 1, 1]
    assert DONE == LOG


def test_a_longer_one_costs_no_attempt_either(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip, carry=False)
    saga_id = b.start("trip", REQUEST)
    arrive_at_once(monkeypatch)
    Unread(b, monkeypatch, len(PAUSES) + 1)
    b.run()
    saga = b.show(saga_id)
    assert (saga["status"], saga["steps"][0]["attempts"]) == ("COMPLETED", 1)
    assert DONE == LOG
    assert b.actions(saga_id)[:3] == ["SagaStarted", "StepPostponed", "StepCompleted"]
    assert b.state(saga_id).unread is None


def test_inputs_are_not_waited_for_beyond_the_lease(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    class Brief(Saga[Order], name="brief", lock_expiry=timedelta(seconds=1)):
        @step(timeout=30, retry=Retry.constant(max_retries=0, delay=0.0))
        def read(self, request: Order) -> None:
            LOG.append("read")

    b = bench(Brief, carry=False)
    saga_id = b.start("brief", REQUEST)
    arrive_at_once(monkeypatch)
    Unread(b, monkeypatch, len(PAUSES))
    b.run()
    assert b.clock.slept[:2] == [PAUSES[0]]
    assert (b.show(saga_id)["status"], LOG) == ("COMPLETED", ["read"])


def test_without_time_left_there_is_one_try(bench: Make, outage: Begin) -> None:
    b = bench(Trip, lifetime=COMMIT_RESERVE)
    b.start("trip", REQUEST)
    gone = outage(b)
    assert lost_at(b, gone, "book").pending_commit is not None
    assert b.clock.slept == []


def test_a_failure_is_an_outcome_too(bench: Make, outage: Begin) -> None:
    b = bench(Trip)
    FAIL["book"] = 1
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    message = lost_at(b, gone, "book")
    assert message.pending_commit is not None
    assert message.pending_commit.details["error"] == {"type": "RuntimeError", "message": "book fails"}
    gone.lasting = False
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["book:1", "book:2", "pay:1", "tell:1"]
    assert b.actions(saga_id)[:3] == ["SagaStarted", "StepFailed", "StepCompleted"]


def test_the_last_failure_leads_to_undoing(bench: Make, outage: Begin) -> None:
    b = bench(Trip)
    FAIL["pay"] = RuntimeError("declined")
    saga_id = b.start("trip", REQUEST)
    b.deliver("trip", "book")
    gone = outage(b, 3)
    lost_at(b, gone, "pay")
    gone.lasting = False
    b.run()
    assert b.show(saga_id)["status"] == "COMPENSATED"
    assert LOG == ["book:1", "pay:1", "pay:2", "pay:3", "unbook:1"]
    assert "stack_trace" in [e for e in b.stack.entries(saga_id) if e["action"] == "StepFailed"][-1]["details"]


def test_an_exhausted_step_dies_with_its_outcome_and_lives_again_when_redriven(bench: Make, outage: Begin) -> None:
    b = bench(Stubborn)
    FAIL["second"] = 2
    saga_id = b.start("stubborn", REQUEST)
    b.deliver("stubborn", "first")
    gone = outage(b, 2)
    assert b.deliver("stubborn", "second") == Discard()
    gone.lasting = False
    assert isinstance(b.deliver("stubborn", "second"), FailDelivery)
    assert b.show(saga_id)["status"] == "DEAD_LETTERED"
    b.engine.queues.send(carried(b, "stubborn", "second"))
    records = [b.stack.receive("stubborn", "second")[0] for _ in range(2)]
    b.clock.advance(1)
    for record in records:
        record["attributes"]["SentTimestamp"] = str(round(b.clock.now() * 1000))
        b.handle("stubborn", "second", record)
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["first:1", "second:1", "second:2", "second:3"]


def test_an_undo_is_committed_later(bench: Make, outage: Begin) -> None:
    b = bench(Trip)
    FAIL["tell"] = RuntimeError("nobody listens")
    saga_id = b.start("trip", REQUEST)
    b.deliver("trip", "book")
    b.deliver("trip", "pay")
    b.deliver("trip", "tell")
    assert b.state(saga_id).undoing
    gone = outage(b)
    message = lost_at(b, gone, "pay")
    assert message.pending_commit is not None
    assert (message.pending_commit.action, message.undo) == ("StepCompensated", True)
    gone.lasting = False
    b.run()
    assert b.show(saga_id)["status"] == "COMPENSATED"
    assert LOG[-2:] == ["refund:1", "unbook:1"]


def test_a_failed_undo_is_committed_later(bench: Make, outage: Begin) -> None:
    b = bench(Trip)
    FAIL.update(tell=RuntimeError("nobody listens"), refund=1)
    saga_id = b.start("trip", REQUEST)
    for name in ("book", "pay", "tell"):
        b.deliver("trip", name)
    gone = outage(b)
    message = lost_at(b, gone, "pay")
    assert message.pending_commit is not None
    assert message.pending_commit.action == "CompensationAttemptFailed"
    gone.lasting = False
    b.run()
    assert b.show(saga_id)["status"] == "COMPENSATED"
    assert LOG[-3:] == ["refund:1", "refund:2", "unbook:1"]


def test_without_sqs_either_the_step_runs_again_under_its_key(bench: Make, outage: Begin) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    gone.of(b.engine.queues, "send")
    with pytest.raises(Unavailable):
        b.deliver("trip", "book")
    gone.lasting = False
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["book:1", "book:2", "pay:1", "tell:1"]
    assert b.actions(saga_id)[:3] == ["SagaStarted", "StepLost", "StepCompleted"]


@pytest.mark.parametrize("characters", [900_000, 1_100_000])
def test_only_what_is_too_large_for_a_message_runs_again(
    bench: Make, outage: Begin, monkeypatch: pytest.MonkeyPatch, characters: int
) -> None:
    monkeypatch.setattr(Copious, "characters", characters)
    fits = characters < 1_000_000
    b = bench(Copious)
    saga_id = b.start("copious", REQUEST)
    gone = outage(b)
    with nullcontext() if fits else pytest.raises(Unavailable):
        b.deliver("copious", "fill")
    gone.lasting = False
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert (["fill:1"] if fits else ["fill:1", "fill:2"]) == LOG


def test_an_outage_does_not_fail_a_step_that_looks_for_a_cancel(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Lonely)
    saga_id = b.start("lonely", REQUEST)
    gone = Outage(monkeypatch, b, Unavailable("DynamoDB is out of reach"), lasting=True)
    gone.of(b.engine.control, "get")
    b.run()
    assert gone.failed == 1
    gone.lasting = False
    assert b.show(saga_id)["steps"][0]["result"] is False
