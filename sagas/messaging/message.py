"""The message that carries a saga to its next step, and how it is read back from a queue's record."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from sagas.errors import InvalidRequest, Problem
from sagas.messaging.report import Report, problems_of, report_of

__all__ = ["Message", "parse_record"]

_FIELDS: dict[str, type] = {"saga_id": str, "saga": str, "step": str, "index": int, "undo": bool, "dispatch": int}
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
        report: the outcome of an attempt that is still to be committed.
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
    report: Report | None = None

    @property
    def body(self) -> str:
        """The message's body, as JSON."""
        names = (*_FIELDS, "hops", "correlation_id")
        fields = {name: getattr(self, name) for name in names}
        carried = {"commit": asdict(self.report)} if self.report else {}
        return json.dumps(fields | carried, separators=(",", ":"))


def _problems(body: Mapping[str, Any]) -> list[Problem]:
    found: list[Problem] = []
    for name, kind in _FIELDS.items():
        value = body.get(name)
        if type(value) is not kind:
            found.append(Problem(f"$.{name}", "missing" if name not in body else f"must be of type {kind.__name__}"))
    if not found and (body["index"] < 0 or body["dispatch"] < 1):
        found.append(Problem("$.index" if body["index"] < 0 else "$.dispatch", "too small"))
    if not found and not _UUID.fullmatch(body["saga_id"]):
        found.append(Problem("$.saga_id", "not a UUID"))
    if type(body.get("hops", 0)) is not int:
        found.append(Problem("$.hops", "must be of type int"))
    if not found and "commit" in body:
        found += problems_of(body["commit"], body["undo"])
    return found


def parse_record(record: Mapping[str, Any]) -> Message:
    """Read the message from a record of an SQS event.

    Raises:
        InvalidRequest: it is not a message of ours; ``problems`` names the fields.
    """
    try:
        body = json.loads(record["body"])
    except (KeyError, TypeError, ValueError):
        raise InvalidRequest("the message's body is not JSON", [Problem("$", "not JSON")]) from None
    if not isinstance(body, dict):
        raise InvalidRequest("the message's body is not an object", [Problem("$", "not an object")])
    fields = cast("dict[str, Any]", body)
    problems = _problems(fields)
    if problems:
        raise InvalidRequest("the message lacks: " + ", ".join(p.path for p in problems), problems)
    attributes: Mapping[str, Any] = record.get("attributes") or {}
    return Message(
        **{name: fields[name] for name in _FIELDS},
        hops=fields.get("hops", 0),
        correlation_id=str(fields.get("correlation_id") or fields["saga_id"]),
        message_id=str(record.get("messageId", "")),
        receipt=str(record.get("receiptHandle", "")),
        receives=int(attributes.get("ApproximateReceiveCount", 1)),
        sent_at=int(attributes.get("SentTimestamp", 0)) / 1000,
        report=report_of(fields["commit"]) if "commit" in fields else None,
    )
