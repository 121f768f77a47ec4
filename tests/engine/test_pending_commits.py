"""The outcome of an attempt as a message carries it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sagas.errors import InvalidRequest
from sagas.messaging.message import Message, parse_record
from sagas.messaging.pending_commit import PendingCommit

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
