"""Whole sagas through the step handler, on moto."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.bench import Make
from tests.support.sagas import FAIL, LOG, REJECTED, Fatal, Stubborn, Trip

pytestmark = pytest.mark.usefixtures("clean")


def _statuses(saga: dict[str, Any]) -> list[str]:
    return [step["status"] for step in saga["steps"]]


def test_completes(deployed: Make) -> None:
    w = deployed(Trip)
    saga_id = w.start("trip", {"item": "train", "count": 2})
    w.run()
    saga = w.show(saga_id)
    assert saga["status"] == "COMPLETED"
    assert LOG == ["book:1", "pay:1", "tell:1"]
    assert [s["result"] for s in saga["steps"]] == [{"number": 2}, "paid 2", None]
    assert _statuses(saga) == ["COMPLETED"] * 3
    assert w.actions(saga_id) == ["SagaStarted", "StepCompleted", "StepCompleted", "StepCompleted"]
    assert [int(e["seq"]) for e in w.stack.entries(saga_id)] == [1, 2, 3, 4]
    assert w.stack.entries(saga_id)[-1]["status"] == "COMPLETED"


def test_failure_is_undone_in_reverse(deployed: Make) -> None:
    FAIL["tell"] = ValueError("nobody listens")
    w = deployed(Trip)
    saga_id = w.start("trip", {"item": "train"})
    w.run()
    saga = w.show(saga_id)
    assert saga["status"] == "COMPENSATED"
    assert LOG == ["book:1", "pay:1", "tell:1", "tell:2", "tell:3", "refund:1", "unbook:1"]
    assert _statuses(saga) == ["COMPENSATED", "COMPENSATED", "FAILED"]
    assert saga["error"] == {"step": "tell", "type": "ValueError", "message": "nobody listens"}
    assert saga["steps"][2]["attempts"] == 3


def test_retries_then_succeeds(deployed: Make) -> None:
    FAIL["pay"] = 2
    w = deployed(Trip)
    saga_id = w.start("trip", {"item": "train"})
    w.run()
    assert w.show(saga_id)["status"] == "COMPLETED"
    assert w.actions(saga_id).count("StepFailed") == 2


def test_rejected_undoes_at_once(deployed: Make) -> None:
    FAIL["pay"] = REJECTED
    w = deployed(Trip)
    saga_id = w.start("trip", {"item": "train"})
    w.run()
    assert w.show(saga_id)["status"] == "COMPENSATED"
    assert LOG == ["book:1", "pay:1", "unbook:1"]


def test_a_failed_step_has_the_trace_of_its_attempt(deployed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-6b0852a3-298e8cf3cc060f2daf1bb127;Sampled=1")
    FAIL["second"] = ValueError("no")
    w = deployed(Fatal)
    saga_id = w.start("fatal", {"item": "x"})
    w.run()
    assert [step["trace_id"] for step in w.show(saga_id)["steps"]] == [None, "1-6b0852a3-298e8cf3cc060f2daf1bb127"]


def test_failing_undo_stops_no_other(deployed: Make) -> None:
    FAIL["tell"] = ValueError("no")
    FAIL["refund"] = ValueError("never")
    w = deployed(Trip)
    saga_id = w.start("trip", {"item": "train"})
    w.run()
    saga = w.show(saga_id)
    assert saga["status"] == "COMPENSATION_FAILED"
    assert LOG[-4:] == ["refund:1", "refund:2", "refund:3", "unbook:1"]
    failed = next(e for e in w.stack.entries(saga_id) if e["action"] == "CompensationFailed")
    assert failed["details"]["error"]["type"] == "ValueError"
    assert int(failed["details"]["attempts"]) == 3
    assert "ValueError: never" in failed["details"]["stack_trace"]
    # The first attempt has it, too, as far as it fits; those between only the error.
    told = [e for e in w.stack.entries(saga_id) if e["action"] in ("StepFailed", "CompensationAttemptFailed")]
    traces = [(e["step"], int(e["attempt"]), e["details"].get("stack_trace", "")) for e in told]
    assert [(step, attempt) for step, attempt, trace in traces if trace] == [("tell", 1), ("tell", 3), ("pay", 1)]
    firsts = [trace for _, attempt, trace in traces if trace and attempt == 1]
    assert all(len(trace) <= 600 and trace.rstrip().endswith(("no", "never")) for trace in firsts)
    assert saga["error"]["step"] == "tell"


def test_exhausted_with_fail_undoes_nothing(deployed: Make) -> None:
    FAIL["second"] = ValueError("no")
    w = deployed(Fatal)
    saga_id = w.start("fatal", {"item": "x"})
    w.run()
    assert w.show(saga_id)["status"] == "FAILED"
    assert LOG == ["first:1", "second:1"]


def test_dead_letter_waits_and_is_redriven(deployed: Make) -> None:
    FAIL["second"] = ValueError("no")
    w = deployed(Stubborn)
    saga_id = w.start("stubborn", {"item": "x"})
    w.run()
    assert w.show(saga_id)["status"] == "DEAD_LETTERED"
    assert LOG == ["first:1", "second:1", "second:2"]
    sqs, dead = w.stack.sqs, w.stack.dead["stubborn"]
    letters = sqs.receive_message(QueueUrl=dead, MessageAttributeNames=["All"])["Messages"]
    assert len(letters) == 1
    assert letters[0]["MessageAttributes"]["saga_id"]["StringValue"] == saga_id
    FAIL.clear()
    source = w.stack.queues["stubborn"]["second"]
    sqs.send_message(QueueUrl=source, MessageBody=letters[0]["Body"])
    w.run()
    assert w.show(saga_id)["status"] == "COMPLETED"
    assert LOG[-1] == "second:3"
    assert "SagaRetried" in w.actions(saga_id)


@pytest.mark.parametrize("changed", [{"step": "pay"}, {"index": 1}, {"index": 7}, {"step": "pay", "index": 1}])
def test_a_message_that_does_not_fit_its_saga_runs_nothing(deployed: Make, changed: dict[str, Any]) -> None:
    w = deployed(Trip)
    saga_id = w.start("trip", {"item": "train"})
    (record,) = w.stack.receive("trip", "book")
    body = json.loads(record["body"]) | changed
    w.stack.sqs.send_message(QueueUrl=w.stack.queues["trip"]["pay"], MessageBody=json.dumps(body))
    w.invoke("trip", "pay")
    assert LOG == []
    assert w.actions(saga_id) == ["SagaStarted"]
    w.stack.sqs.change_message_visibility(
        QueueUrl=w.stack.queues["trip"]["book"], ReceiptHandle=record["receiptHandle"], VisibilityTimeout=0
    )
    w.run()
    assert w.show(saga_id)["status"] == "COMPLETED"
