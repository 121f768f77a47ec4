"""The outcome of an attempt as a message carries it."""

from __future__ import annotations

import ast
import inspect
import json
from typing import Any

import pytest
from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.states import Attempts, SagaStatus, StepState
from sagas.engine.attempt import attempt, failures
from sagas.engine.attempt.failures import pending_fact, with_pending
from sagas.errors import InvalidRequest
from sagas.messaging.message import Message, PendingCommit, parse_record
from sagas.store.journal.entries import details_of
from tests.store.states import NOW, lease, saga

REPORT = PendingCommit("StepFailed", 1, 2, 1, "owner", {"error": {"type": "E", "message": "m"}})
MESSAGE = Message("019aa5cd-4f25-7b02-8d6c-3f21d2a4c951", "trip", "book", 0, False, 1, hops=1, pending_commit=REPORT)


def parsed(message: Message, **wrong: Any) -> Message:
    """What is read back, after fields of the report were replaced."""
    body = json.loads(message.body)
    body["commit"] |= wrong
    return parse_record({"body": json.dumps(body)})


def test_a_report_survives_its_journey() -> None:
    assert parsed(MESSAGE).pending_commit == REPORT
    done = PendingCommit("StepCompleted", 3, 9, 4, "owner", {}, "trace", '"caf\\u00e9"')
    assert parsed(replace(MESSAGE, pending_commit=done)).pending_commit == done
    undone = PendingCommit("StepCompensated", 1, 9, 4, "owner", {})
    assert parsed(replace(MESSAGE, pending_commit=undone, undo=True)).pending_commit == undone


_FAILURE = ev.Failure("Boom", "caf\u00e9")
OUTCOMES: list[tuple[ev.Fact, str | None]] = [
    (ev.StepCompleted(0, 3), '{"a":1}'),
    (ev.StepSkipped(0, 3, "large() is false"), None),
    (ev.WaitStarted(0, 3, NOW + 60), None),
    (ev.StepPostponed(0, 3, "not yet", 5.0, NOW + 5, NOW, 2), None),
    (ev.StepPostponed(0, 3, "denied", 5.0, NOW + 5, NOW, because=ev.INPUTS, code="no_right", key="k"), None),
    (ev.ChildrenStarted(0, 3, 2, ("kid", "cat")), '[{"a":1},{"a":2}]'),
    (ev.StepFailed(0, 3, _FAILURE, retry_at=NOW + 7, outcome_unknown=True), None),
    (ev.StepFailed(0, 3, _FAILURE, permanent=True, rejected=True, excused=True), None),
    (ev.StepDeadLettered(0, ev.DeadLetterCause.TYPE_CHANGED, failure=_FAILURE), None),
    (ev.StepCompensated(0, 3), None),
    (ev.CompensationAttemptFailed(0, 3, _FAILURE, NOW + 7), None),
    (ev.CompensationFailed(0, 3, _FAILURE), None),
    (ev.CompensationPostponed(0, 3, "not yet", 5.0, NOW + 5, NOW, 2), None),
]


@pytest.mark.parametrize(("fact", "payload"), OUTCOMES)
def test_every_outcome_waits_in_its_queue_and_counts_afterwards(fact: ev.Fact, payload: str | None) -> None:
    undo = fact.action.startswith("Compensation") or fact.action == "StepCompensated"
    status = SagaStatus.COMPENSATING if undo else SagaStatus.RUNNING
    step = StepState("book", attempts=Attempts(3), undo_attempts=Attempts(3))
    held = saga(status, steps=(step,), lease=lease(), token=4, seq=9)
    assert held.lease is not None
    pending = PendingCommit(fact.action, 3, 4, 9, held.lease.owner, details_of(fact), "trace", payload)
    message = with_pending(Message(held.saga_id, "trip", "book", 0, undo, 1), pending)
    assert message is not None
    received = parse_record({"body": message.body})
    assert received.pending_commit is not None
    assert received.pending_commit.payload == payload
    assert pending_fact(held, received, received.pending_commit) == fact


def test_these_are_all_outcomes_that_an_attempt_has() -> None:
    made = {
        node.attr
        for module in (attempt, failures)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Attribute) and node.attr in ev.FACTS
    }
    assert made == {fact.action for fact, _ in OUTCOMES}


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
        {"action": "ChildrenStarted", "details": {"children": 1, "types": ["kid"]}},
        {"action": "ChildrenStarted", "details": {"children": "1", "types": ["kid"]}, "payload": "[1]"},
        {"action": "ChildrenStarted", "details": {"children": 1}, "payload": "[1]"},
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
