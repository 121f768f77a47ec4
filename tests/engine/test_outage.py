"""The store goes away while steps finish: what they did is committed later, and nothing known is done twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from sagas.authoring.context import Context
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.engine.attempt import PAUSES, ROOM
from sagas.engine.outcome import Done, Failed, Later
from sagas.errors import Ambiguous, InvalidRequest, Unavailable
from sagas.messaging.message import Message, parse_record
from sagas.messaging.report import Report
from tests.support.bench import Bench, Death
from tests.support.sagas import FAIL, LOG, Order, Stubborn, Trip

Make = Callable[..., Bench]
REQUEST = {"item": "train"}
DONE = ["book:1", "pay:1", "tell:1"]


class Copious(Saga[Order], name="copious"):
    """Its step returns more than a message should carry."""

    @step
    def fill(self, ctx: Context) -> str:
        LOG.append(f"fill:{ctx.attempt}")
        return "x" * 300_000


class Lonely(Saga[Order], name="lonely"):
    """One step, and a look at whether it was cancelled."""

    @step
    def look(self, ctx: Context) -> bool:
        LOG.append(f"look:{ctx.attempt}")
        return ctx.cancelled


@dataclass
class Outage:
    """Requests by these names fail while it lasts. ``after``: their effect happens, but no answer comes."""

    patch: pytest.MonkeyPatch
    bench: Bench
    error: Unavailable
    after: bool = False
    lasting: bool = False
    failed: int = 0

    def of(self, target: Any, *names: str) -> None:
        for name in names:
            self._break(target, name)

    def _break(self, target: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(target, name)

        def failing(*arguments: Any, **keywords: Any) -> Any:
            if not self.lasting:
                return original(*arguments, **keywords)
            self.failed += 1
            if self.after:
                original(*arguments, **keywords)
            raise self.error

        self.patch.setattr(target, name, failing)

    def begins_after(self, target: Any, name: str, calls: int) -> None:
        """Have it begin with so many calls of a method, however the last of them ends."""
        original: Callable[..., Any] = getattr(target, name)
        left = [calls]

        def counted(*arguments: Any, **keywords: Any) -> Any:
            left[0] -= 1
            try:
                return original(*arguments, **keywords)
            finally:
                self.lasting = self.lasting or left[0] == 0

        self.patch.setattr(target, name, counted)


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outage]:
    """Have a bench's store fail once user code has run, so many times from now on."""

    def make(bench: Bench, runs: int = 1, *, error: Unavailable | None = None, after: bool = False) -> Outage:
        found = Outage(monkeypatch, bench, error or Unavailable("DynamoDB is out of reach"), after)
        found.of(bench.deployment.control, "get", "claim", "claim_step", "claim_undo", "commit", "finish")
        found.of(bench.deployment.journal, "put", "entries")
        found.begins_after(bench.deployment.tools.runner, "run", runs)
        return found

    return make


Begin = Callable[..., Outage]


def carried(bench: Bench, saga: str, name: str) -> Message:
    """The message that waits in a step's queue; it stays there."""
    (record,) = bench.stack.receive(saga, name)
    url = bench.stack.queues[saga][name]
    bench.stack.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=record["receiptHandle"], VisibilityTimeout=0)
    return parse_record(record)


def lost_at(bench: Bench, outage: Outage, name: str) -> Message:
    """Deliver a step's message, whose commit fails; return what waits in its queue then."""
    assert bench.deliver("trip", name) == Done()
    assert outage.lasting
    return carried(bench, "trip", name)


def test_an_outcome_waits_in_its_queue_and_is_committed_later(bench: Make, outage: Begin) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    message = lost_at(b, gone, "book")
    assert message.report is not None
    assert (message.report.action, message.report.payload, message.dispatch) == ("StepCompleted", '{"number":1}', 1)
    assert b.clock.slept == list(PAUSES)
    waits = [b.deliver("trip", "book") for _ in range(4)]
    delays = [outcome.until - b.clock.now() for outcome in waits if isinstance(outcome, Later)]
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


def test_without_time_left_there_is_one_try(bench: Make, outage: Begin) -> None:
    b = bench(Trip, lifetime=ROOM)
    b.start("trip", REQUEST)
    gone = outage(b)
    assert lost_at(b, gone, "book").report is not None
    assert b.clock.slept == []


def test_a_failure_is_an_outcome_too(bench: Make, outage: Begin) -> None:
    b = bench(Trip)
    FAIL["book"] = 1
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    message = lost_at(b, gone, "book")
    assert message.report is not None
    assert message.report.details["error"] == {"type": "RuntimeError", "message": "book fails"}
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
    assert b.deliver("stubborn", "second") == Done()
    gone.lasting = False
    assert isinstance(b.deliver("stubborn", "second"), Failed)
    assert b.show(saga_id)["status"] == "DEAD_LETTERED"
    b.deployment.queues.send(carried(b, "stubborn", "second"))
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
    assert message.report is not None
    assert (message.report.action, message.undo) == ("StepCompensated", True)
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
    assert message.report is not None
    assert message.report.action == "CompensationAttemptFailed"
    gone.lasting = False
    b.run()
    assert b.show(saga_id)["status"] == "COMPENSATED"
    assert LOG[-3:] == ["refund:1", "refund:2", "unbook:1"]


def test_what_was_taken_over_meanwhile_is_dropped(bench: Make, outage: Begin) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    lost_at(b, gone, "book")
    gone.lasting = False
    b.clock.advance(600)
    assert b.recover() == [saga_id]
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["book:1", "book:2", "pay:1", "tell:1"]
    assert b.actions(saga_id) == ["SagaStarted", "StepLost", *["StepCompleted"] * 3]


def test_a_lost_outcome_loses_no_saga(bench: Make, outage: Begin) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    lost_at(b, gone, "book")
    b.lose_messages()
    gone.lasting = False
    b.clock.advance(600)
    assert b.recover() == [saga_id]
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["book:1", "book:2", "pay:1", "tell:1"]


def test_a_cancel_meanwhile_undoes_what_was_done(bench: Make, outage: Begin) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    lost_at(b, gone, "book")
    gone.lasting = False
    b.deployment.operations.cancel("trip", saga_id, "somebody")
    b.run()
    assert b.show(saga_id)["status"] == "CANCELLED"
    assert LOG == ["book:1", "unbook:1"]
    assert b.actions(saga_id)[1:4] == ["StepCompleted", "CancelRequested", "CompensationStarted"]


def test_an_outcome_delivered_twice_is_committed_once(bench: Make, outage: Begin) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    message = lost_at(b, gone, "book")
    b.deployment.queues.send(message)
    gone.lasting = False
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert DONE == LOG
    assert b.actions(saga_id) == ["SagaStarted", *["StepCompleted"] * 3]


def test_two_deliveries_at_once_agree(bench: Make, outage: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    message = lost_at(b, gone, "book")
    b.deployment.queues.send(message)
    gone.lasting = False
    other = b.deploy()
    commit = b.deployment.control.commit

    def meanwhile(*arguments: Any) -> None:
        monkeypatch.setattr(b.deployment.control, "commit", commit)
        b.deliver("trip", "book", other)
        commit(*arguments)

    monkeypatch.setattr(b.deployment.control, "commit", meanwhile)
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert DONE == LOG
    assert b.actions(saga_id) == ["SagaStarted", *["StepCompleted"] * 3]


def test_a_death_in_the_middle_of_committing_it_later(bench: Make, outage: Begin, monkeypatch: Any) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    lost_at(b, gone, "book")
    gone.lasting = False
    original = b.deployment.control.commit

    def dying(*arguments: Any) -> None:
        monkeypatch.setattr(b.deployment.control, "commit", original)
        raise Death

    monkeypatch.setattr(b.deployment.control, "commit", dying)
    with pytest.raises(Death):
        b.deliver("trip", "book")
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert DONE == LOG


def test_without_sqs_either_the_step_runs_again_under_its_key(bench: Make, outage: Begin) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    gone.of(b.deployment.queues, "send")
    with pytest.raises(Unavailable):
        b.deliver("trip", "book")
    gone.lasting = False
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["book:1", "book:2", "pay:1", "tell:1"]
    assert b.actions(saga_id)[:3] == ["SagaStarted", "StepLost", "StepCompleted"]


def test_what_is_too_large_for_a_message_runs_again(bench: Make, outage: Begin) -> None:
    b = bench(Copious)
    saga_id = b.start("copious", REQUEST)
    gone = outage(b)
    with pytest.raises(Unavailable):
        b.deliver("copious", "fill")
    gone.lasting = False
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["fill:1", "fill:2"]


def test_an_outage_does_not_fail_a_step_that_looks_for_a_cancel(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Lonely)
    saga_id = b.start("lonely", REQUEST)
    gone = Outage(monkeypatch, b, Unavailable("DynamoDB is out of reach"), lasting=True)
    gone.of(b.deployment.control, "get")
    b.run()
    assert gone.failed == 1
    gone.lasting = False
    assert b.show(saga_id)["steps"][0]["result"] is False


REPORT = Report("StepFailed", 1, 2, 1, "owner", {"error": {"type": "E", "message": "m"}})
MESSAGE = Message("019aa5cd-4f25-7b02-8d6c-3f21d2a4c951", "trip", "book", 0, False, 1, hops=1, report=REPORT)


def parsed(message: Message, **wrong: Any) -> Message:
    """What is read back, after fields of the report were replaced."""
    body = json.loads(message.body)
    body["commit"] |= wrong
    return parse_record({"body": json.dumps(body)})


def test_a_report_survives_its_journey() -> None:
    assert parsed(MESSAGE).report == REPORT
    done = Report("StepCompleted", 3, 9, 4, "owner", {}, "trace", '"caf\\u00e9"')
    assert parsed(replace(MESSAGE, report=done)).report == done
    undone = Report("StepCompensated", 1, 9, 4, "owner", {})
    assert parsed(replace(MESSAGE, report=undone, undo=True)).report == undone


@pytest.mark.parametrize(
    "wrong",
    [
        {"action": "SagaFailed"},
        {"action": "StepLost"},
        {"action": "StepCompensated", "details": {}},
        {"action": "StepCompleted", "details": {}},
        {"action": "StepCompleted", "details": {}, "payload": "{"},
        {"action": "StepCompleted", "details": {}, "payload": 7},
        {"action": "StepCompleted", "payload": "7"},
        {"payload": "7"},
        {"attempt": 0},
        {"attempt": True},
        {"token": "2"},
        {"seq": None},
        {"owner": 5},
        {"details": []},
        {"details": {}},
        {"details": {"error": "E"}},
        {"details": {"error": {"type": "E"}}},
        {"details": {"error": {"type": "E", "message": "m"}, "next_attempt_at": "soon"}},
        {"details": {"error": {"type": "E", "message": "m"}, "next_attempt_at": 5}},
    ],
)
def test_a_report_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parsed(MESSAGE, **wrong)
    assert all(problem.path.startswith("$.commit.") for problem in refused.value.problems)


def test_a_report_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        parse_record({"body": json.dumps(json.loads(MESSAGE.body) | {"commit": [1]})})
