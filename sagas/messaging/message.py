"""The message that carries a saga to its next step, and how it is read back from a queue's record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from sagas.errors import InvalidRequest, Problem
from sagas.messaging.pending_commit import PendingCommit, pending_commit_of, problems_of

_FIELDS: dict[str, type] = {"saga_id": str, "saga": str, "step": str, "index": int, "undo": bool, "dispatch": int}
_OPTIONAL: dict[str, type] = {"hops": int, "correlation_id": str}
_LONGEST_NAME = 256
_LARGEST_NUMBER = 10**15
"""Far beyond any count, and well within what DynamoDB's numbers hold."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a saga.

    Args:
        saga_id: the saga's id.
        saga: the saga type's name.
        step: the step's name.
        index: the step's position.
        undo: whether the step's undo is meant.
        dispatch: the number of the message within its saga.
        hops: how often it was copied to wait longer.
        correlation_id: of the saga.
        message_id: SQS's id; empty on the way out.
        receipt: SQS's receipt handle; empty on the way out.
        receives: how often SQS delivered it.
        sent_at: epoch seconds at which it entered its queue; 0 if unknown.
        pending_commit: the outcome of an attempt that is still to be committed.
    """

    saga_id: str
    saga: str
    step: str
    index: int
    undo: bool
    dispatch: int
    hops: int = 0
    correlation_id: str = ""
    message_id: str = ""
    receipt: str = ""
    receives: int = 1
    sent_at: float = 0.0
    pending_commit: PendingCommit | None = None

    @property
    def body(self) -> str:
        """The message's body, as JSON."""
        names = (*_FIELDS, "hops", "correlation_id")
        fields = {name: getattr(self, name) for name in names}
        carried = {"commit": asdict(self.pending_commit)} if self.pending_commit else {}
        return json.dumps(fields | carried, separators=(",", ":"))


def _problems(body: Mapping[str, Any]) -> list[Problem]:
    found = [problem for name, kind in (_FIELDS | _OPTIONAL).items() for problem in _unfit(body, name, kind)]
    if not found and not _UUID.fullmatch(body["saga_id"]):
        found.append(Problem("$.saga_id", "not a UUID"))
    if not found and "commit" in body:
        found += problems_of(body["commit"], body["undo"])
    return found


def _unfit(body: Mapping[str, Any], name: str, kind: type) -> Iterator[Problem]:
    value = body.get(name)
    if name not in body:
        if name in _FIELDS:
            yield Problem(f"$.{name}", "missing")
    elif type(value) is not kind:
        yield Problem(f"$.{name}", f"must be of type {kind.__name__}")
    elif isinstance(value, str) and not (len(value) <= _LONGEST_NAME and value.isprintable()):
        yield Problem(f"$.{name}", "not a name")
    elif type(value) is int and not int(name == "dispatch") <= value <= _LARGEST_NUMBER:
        yield Problem(f"$.{name}", "too small" if value < 1 else "too large")


def parse_record(record: Mapping[str, Any]) -> Message:
    """Read the message from a record of an SQS event.

    Raises:
        InvalidRequest: it is not a message of ours; ``problems`` names the fields.
    """
    try:
        body = json.loads(record["body"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise InvalidRequest("the message's body is not JSON", [Problem("$", "not JSON")]) from None
    if not isinstance(body, dict):
        raise InvalidRequest("the message's body is not an object", [Problem("$", "not an object")])
    fields = cast("dict[str, Any]", body)
    problems = _problems(fields)
    if problems:
        raise InvalidRequest("the message lacks: " + ", ".join(p.path for p in problems), problems)
    receives, sent_at = _delivery(record)
    return Message(
        **{name: fields[name] for name in _FIELDS},
        hops=fields.get("hops", 0),
        correlation_id=fields.get("correlation_id") or fields["saga_id"],
        message_id=str(record.get("messageId", "")),
        receipt=str(record.get("receiptHandle", "")),
        receives=receives,
        sent_at=sent_at,
        pending_commit=pending_commit_of(fields["commit"]) if "commit" in fields else None,
    )


def _delivery(record: Mapping[str, Any]) -> tuple[int, float]:
    """How often the record was delivered, and when it was sent."""
    attributes: Any = record.get("attributes") or {}
    try:
        receives, sent = (int(attributes.get(name, 0)) for name in ("ApproximateReceiveCount", "SentTimestamp"))
        return max(receives, 1), sent / 1000
    except (AttributeError, TypeError, ValueError, ArithmeticError):
        problem = Problem("attributes", "must hold the count of receives and the time of sending")
        raise InvalidRequest("the record's attributes are not SQS's", [problem]) from None
