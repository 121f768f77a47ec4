"""Every way a step can fail, on real queues and functions."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest

from sagas.testing import run
from tests.e2e.api import Api
from tests.e2e.stack import PACE, Stack, poll
from tests.e2e.trials.sagas import Compensating, Trial

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
FULL = os.environ.get("SAGAS_PROOF") == "full"
_TICK = 0.5
"""Seconds from one look of the supervisor to the next, where a test has it look."""


class Trials:
    """The stack on trial, its API, and what was executed."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.api = Api(stack)
        self.sqs = stack.client("sqs")
        self._dynamodb = stack.client("dynamodb")
        self._client = stack.saga_client()

    def executed(self, saga: dict[str, Any]) -> list[str]:
        """What was executed, by name and attempt."""
        answer = self._dynamodb.query(
            TableName=self.stack.description["outputs"]["TrialsTable"],
            KeyConditionExpression="saga_id = :id",
            ExpressionAttributeValues={":id": {"S": saga["saga_id"]}},
            ConsistentRead=True,
        )
        return sorted(item["what"]["S"] for item in answer["Items"])

    def dead_letters(self, name: str, saga: dict[str, Any]) -> list[dict[str, Any]]:
        """The saga's messages in the dead-letter queue."""
        url = self.stack.description["dead_letter_queues"][name]
        found = self.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0, MessageAttributeNames=["All"]
        )
        of = saga["saga_id"]
        return [m for m in found.get("Messages", []) if m["MessageAttributes"]["saga_id"]["StringValue"] == of]

    def dead_lettered(self, executions: int = 2) -> tuple[dict[str, Any], dict[str, Any]]:
        """Run a saga into the dead-letter queue; return it and its dead letter."""
        saga = self.api.start("waiting", {"mood": "fail", "executions": executions})
        saga = self.api.wait(saga, "DEAD_LETTERED")
        (letter,) = poll("the dead letter", lambda: self.dead_letters("waiting", saga))
        return saga, letter

    def tick(self, stale_after: float = 20) -> None:
        """Have the supervisor recover once."""
        self._client.recover(stale_after)


@pytest.fixture
def on(trials: Stack) -> Trials:
    return Trials(trials)


def test_retries_follow_the_formula_and_then_it_is_undone(on: Trials) -> None:
    saga = on.api.run("compensating", {"mood": "fail"}, skips=True)
    assert (saga["status"], saga["error"]["step"]) == ("COMPENSATED", "act")
    assert on.executed(saga) == [f"act:{n}" for n in range(1, 7)] + ["begin:1", "undo_begin:1"]
    assert saga["steps"][1]["attempts"] == 6
    failed = [entry for entry in on.api.audit(saga) if entry["action"] == "StepFailed"]
    assert [entry["attempt"] for entry in failed] == [1, 2, 3, 4, 5, 6]
    assert all(entry["details"]["error"] == {"type": "RuntimeError", "message": "as was asked for"} for entry in failed)


def test_a_retry_may_succeed(on: Trials) -> None:
    saga = on.api.run("compensating", {"mood": "fail", "executions": 2}, skips=True)
    assert saga["status"] == "COMPLETED"
    assert on.executed(saga) == ["act:1", "act:2", "act:3", "begin:1"]


def test_rejected_is_undone_at_once(on: Trials) -> None:
    saga = on.api.run("waiting", {"mood": "reject"})
    assert saga["status"] == "COMPENSATED"
    assert on.executed(saga) == ["act:1", "begin:1", "undo_begin:1"]


def test_a_failed_undo_waits_for_a_person_and_can_be_retried(on: Trials) -> None:
    saga = on.api.run("compensating", {"mood": "stubborn", "executions": 2}, skips=True)
    assert saga["status"] == "COMPLETED"  # the act of a stubborn trial succeeds once its executions are through
    saga = on.api.run("compensating", {"mood": "stubborn", "executions": 6}, skips=True)
    assert saga["status"] == "COMPENSATION_FAILED"
    assert saga["error"]["step"] == "act"
    failed = next(entry for entry in on.api.audit(saga) if entry["action"] == "CompensationFailed")
    assert {"error", "attempts", "trace_id", "stack_trace"} <= failed["details"].keys()
    path = f"/sagas/compensating/{saga['saga_id']}"
    assert on.api.call("POST", f"{path}/retry", {"reason": "again"})[0] == 202
    on.api.wait(saga, "COMPENSATION_FAILED")
    assert on.executed(saga)[-4:] == [f"undo_begin:{n}" for n in range(1, 5)]
    assert on.api.call("POST", f"{path}/resolve", {"action": "refunded by hand"})[0] == 422
    resolution = {"reason": "done by hand", "action": "refunded", "steps": ["begin"]}
    status, settled, _ = on.api.call("POST", f"{path}/resolve", resolution)
    assert (status, settled["steps"][0]["status"]) == (200, "COMPENSATED")
    assert settled["resolution"]["reason"] == "done by hand"
    listed = on.api.call("GET", "/attention?type=compensating&limit=100")[1]["sagas"]
    assert saga["saga_id"] not in [one["saga_id"] for one in listed]
    status, settled, _ = on.api.call("POST", f"{path}/resolve", resolution | {"reason": "done in the shop"})
    assert (status, settled["resolution"]["reason"]) == (200, "done in the shop")
    assert settled["steps"][0]["status"] == "COMPENSATED"


def test_dead_letters_carry_their_saga_and_wait(on: Trials) -> None:
    saga, letter = on.dead_lettered()
    named = {name: value["StringValue"] for name, value in letter["MessageAttributes"].items()}
    assert named == {"saga": "waiting", "saga_id": saga["saga_id"], "step": "act"}
    listed = on.api.call("GET", "/attention?type=waiting&limit=100")[1]["sagas"]
    assert saga["saga_id"] in [one["saga_id"] for one in listed]
    assert on.executed(saga) == ["act:1", "act:2", "begin:1"]


def test_a_dead_letter_moved_back_resumes_the_saga_once(on: Trials) -> None:
    saga, letter = on.dead_lettered()
    queue = on.stack.description["queues"]["waiting"]["act"]
    attributes = {
        name: {"DataType": "String", "StringValue": value["StringValue"]}
        for name, value in letter["MessageAttributes"].items()
    }
    for _ in range(2):
        on.sqs.send_message(QueueUrl=queue, MessageBody=letter["Body"], MessageAttributes=attributes)
    assert on.api.wait(saga, "COMPLETED")["steps"][1]["attempts"] == 3
    assert on.executed(saga) == ["act:1", "act:2", "act:3", "begin:1"]
    assert on.api.actions(saga).count("SagaRetried") == 1


def test_all_dead_letters_are_moved_back_by_sqs_itself(on: Trials) -> None:
    """As by *Start DLQ redrive* in its console, which names no queue to move them to."""
    sagas = [on.dead_lettered()[0] for _ in range(2)]
    url = on.stack.description["dead_letter_queues"]["waiting"]
    arn = on.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    assert on.sqs.start_message_move_task(SourceArn=arn)["TaskHandle"]
    for saga in sagas:
        assert on.api.wait(saga, "COMPLETED")["steps"][1]["attempts"] == 3
        assert on.api.actions(saga).count("SagaRetried") == 1
        assert on.dead_letters("waiting", saga) == []


def test_an_operator_retries_a_dead_lettered_saga(on: Trials) -> None:
    saga, _ = on.dead_lettered()
    status, _, _ = on.api.call("POST", f"/sagas/waiting/{saga['saga_id']}/retry", {"reason": "fixed it"})
    assert status == 202
    on.api.wait(saga, "COMPLETED")
    redriven = next(entry for entry in on.api.audit(saga) if entry["action"] == "SagaRetried")
    assert redriven["details"]["reason"] == "fixed it"
    status, answer, _ = on.api.call("POST", f"/sagas/waiting/{saga['saga_id']}/retry", {})
    assert status == 409
    assert "COMPLETED" in answer["error"]["message"]


def test_an_operator_gives_a_dead_lettered_saga_up(on: Trials) -> None:
    saga, _ = on.dead_lettered()
    status, _, _ = on.api.call("POST", f"/sagas/waiting/{saga['saga_id']}/compensate", {"reason": "not worth it"})
    assert status == 202
    assert on.api.wait(saga, "COMPENSATED")["steps"][0]["status"] == "COMPENSATED"


def test_an_open_circuit_postpones_and_uses_up_nothing(on: Trials) -> None:
    saga = on.api.run("breaking", {"mood": "fail", "executions": 3})
    assert saga["status"] == "COMPLETED"
    assert on.executed(saga) == ["act:1", "act:2", "act:3", "act:4", "begin:1"]
    assert on.dead_letters("breaking", saga) == []


def test_a_process_that_dies_or_runs_into_its_timeout_counts_as_an_attempt(on: Trials) -> None:
    def ended(saga: dict[str, Any], stale_after: float) -> Callable[[], bool]:
        def check() -> bool:
            on.tick(stale_after)
            return on.api.show(saga)["status"] in ("COMPLETED", "COMPENSATED")

        return check

    def after_death(saga: dict[str, Any], attempt: int) -> None:
        """Wait until an attempt has ended its process, and go to when that counts as a stall."""
        poll(f"attempt {attempt}", lambda: f"act:{attempt}" in on.executed(saga), 60)
        on.stack.skip(25)

    recovers = on.api.start("dying", {"mood": "exit", "executions": 1})
    after_death(recovers, 1)
    poll("the one that dies once", ended(recovers, 20), 60, _TICK)
    never = on.api.start("dying", {"mood": "exit"})
    for attempt in (1, 2):
        after_death(never, attempt)
    poll("the one that dies for good", ended(never, 20), 90, _TICK)
    hangs = on.api.start("dying", {"mood": "hang", "executions": 1})
    poll("the one that hangs once", ended(hangs, 10), 90, _TICK)
    assert on.api.show(hangs)["status"] == "COMPLETED"
    assert on.executed(hangs) == ["act:1", "act:2", "begin:1"]
    assert on.api.show(recovers)["status"] == "COMPLETED"
    assert on.executed(recovers) == ["act:1", "act:2", "begin:1"]
    gone = on.api.show(never)
    assert (gone["status"], gone["error"]["type"]) == ("COMPENSATED", "Lost")
    assert gone["in_doubt"] == ["act"]
    assert on.executed(never) == ["act:1", "act:2", "begin:1", "undo_begin:1"]


def test_a_result_after_the_timeout_is_refused(on: Trials) -> None:
    late = on.api.start("dying", {"mood": "dawdle", "executions": 1})
    never = on.api.start("dying", {"mood": "dawdle"})
    assert on.api.wait(late, "COMPLETED")["steps"][1]["attempts"] == 2
    failed = next(entry for entry in on.api.audit(late) if entry["action"] == "StepFailed")
    assert (failed["details"]["error"]["type"], failed["details"]["outcome_unknown"]) == ("TimedOut", True)
    gone = on.api.wait(never, "COMPENSATED")
    assert (gone["error"]["type"], gone["in_doubt"]) == ("TimedOut", ["act"])
    assert on.executed(never) == ["act:1", "act:2", "begin:1", "undo_begin:1"]


@pytest.mark.parametrize(("mood", "executions"), [("unanswered", 99), ("several", 99), ("remember", 2)])
def test_the_trail_is_that_of_run(on: Trials, monkeypatch: pytest.MonkeyPatch, mood: str, executions: int) -> None:
    monkeypatch.setenv("TRIALS_TABLE", "trials")
    saga = on.api.run("compensating", {"mood": mood, "executions": executions}, skips=True)
    rehearsed = run(Compensating, Trial(mood, executions), clients={"dynamodb": MagicMock()})

    def trail(entries: Any) -> list[tuple[Any, ...]]:
        shown = [(entry["details"].get("error"), entry["details"].get("outcome_unknown")) for entry in entries]
        kept = ("action", "step", "attempt", "status")
        return [(*(entry[name] for name in kept), *more) for entry, more in zip(entries, shown, strict=True)]

    assert trail(on.api.audit(saga)) == trail(rehearsed.audit)
    assert (saga["status"], saga["in_doubt"]) == (rehearsed.status, list(rehearsed.in_doubt))


def test_five_deliveries_at_once_execute_once(on: Trials) -> None:
    saga = on.api.run("compensating", {"mood": "calm"})
    body = {"saga_id": saga["saga_id"], "saga": "compensating", "step": "act", "index": 1, "undo": False, "dispatch": 2}
    queue = on.stack.description["queues"]["compensating"]["act"]
    senders = [
        threading.Thread(target=on.sqs.send_message, kwargs={"QueueUrl": queue, "MessageBody": json.dumps(body)})
        for _ in range(5)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()

    def drained() -> bool:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        counts = on.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
        return all(int(counts[name]) == 0 for name in names)

    assert poll("late messages to be dropped", drained)
    assert on.executed(saga) == ["act:1", "begin:1"]
    assert on.api.show(saga)["status"] == "COMPLETED"


def test_cancel_undoes_what_was_done(on: Trials) -> None:
    saga, _ = on.dead_lettered()
    path = f"/sagas/waiting/{saga['saga_id']}"
    status, _, _ = on.api.call("DELETE", path)
    assert status in (200, 202)
    assert on.api.wait(saga, "CANCELLED")["steps"][0]["status"] == "COMPENSATED"
    assert on.api.call("DELETE", path)[0] == 200
    done = on.api.run("compensating", {"mood": "calm"})
    assert on.api.call("DELETE", f"/sagas/compensating/{done['saga_id']}")[0] == 409


def worker_of(on: Trials, saga: dict[str, Any], attempt: int) -> int:
    """Wait until an attempt is at work; return its process id."""

    def pid() -> int:
        noted = [what for what in on.executed(saga) if what.startswith("act by ") and what.endswith(f":{attempt}")]
        return int(noted[0].removeprefix("act by ").partition(":")[0]) if noted else 0

    return poll("the step to be at work", pid)


@pytest.mark.embedded("it kills a function's process, which must run on this machine")
def test_a_killed_worker_is_noticed_as_soon_as_its_lease_is_over(on: Trials) -> None:
    saga = on.api.start("holding", {"executions": 1})
    os.kill(worker_of(on, saga, 1), signal.SIGKILL)

    on.stack.skip(5)

    def recovered() -> bool:
        on.tick(5)
        return on.api.show(saga)["status"] == "COMPLETED"

    assert poll("the saga to be recovered", recovered, 40, _TICK)
    assert on.api.show(saga)["steps"][1]["attempts"] == 2
    assert "StepLost" in on.api.actions(saga)


_SILENCE = 11.0
"""Seconds, a little less than those after which a queue has the message of a worker that died."""


@pytest.mark.embedded("it kills a function's process, which must run on this machine")
@pytest.mark.parametrize("name", ["brief", "holding"])
def test_a_killed_worker_is_noticed_by_its_queue(on: Trials, name: str) -> None:
    """Without the supervisor: when the function's time is over, or its lease if that is shorter."""

    def taken() -> float:
        saga = on.api.start(name, {"executions": 1})
        os.kill(worker_of(on, saga, 1), signal.SIGKILL)
        killed = time.monotonic()
        on.stack.skip(_SILENCE)
        worker_of(on, saga, 2)
        seconds = time.monotonic() - killed + _SILENCE
        assert on.api.wait(saga, "COMPLETED")["steps"][1]["attempts"] == 2
        assert "StepLost" in on.api.actions(saga)
        return seconds

    for _ in range(12 if FULL else 3):
        # A queue that notices late is late each time; a machine that stands still for seconds, on its disk, once.
        assert any(taken() < 15 * PACE for _ in range(3))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_crowd_before_a_narrow_step_waits_in_line(on: Trials) -> None:
    """Most are silent for longer than what counts as a stall: none may be undone, or be sent anew more than once."""
    sagas = [on.api.start("crowded", {}) for _ in range(1_000 if FULL else 80)]

    def through() -> bool:
        on.tick(5)
        return on.api.show(sagas[-1])["status"] == "COMPLETED"

    poll("the last to be through", through, 600, _TICK)
    for saga in sagas:
        ended = on.api.wait(saga)
        assert (ended["status"], [step["attempts"] for step in ended["steps"]]) == ("COMPLETED", [1, 1])
        assert on.api.actions(saga).count("MessageResent") <= 1


def test_a_step_of_many_lease_lengths_keeps_its_lease_and_hears_of_a_cancel(on: Trials) -> None:
    saga = on.api.start("holding", {})
    worker_of(on, saga, 1)
    begun = time.monotonic()

    def held_for_long() -> bool:
        on.tick(1)
        return time.monotonic() - begun > 6

    assert poll("three lease lengths to pass", held_for_long, every=_TICK)
    assert on.api.actions(saga) == ["SagaStarted", "StepCompleted"]
    status, _, _ = on.api.call("DELETE", f"/sagas/holding/{saga['saga_id']}")
    assert status == 202
    asked = time.monotonic()
    assert on.api.wait(saga, "CANCELLED")["steps"][1]["attempts"] == 1
    assert time.monotonic() - asked < 8 * PACE
