"""The message that carries a saga to its next step, and how it is read back from a queue's record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from sagas.core.text import sendable
from sagas.errors import InvalidRequest, Problem
from sagas.formats import FORMAT, check_format
from sagas.messaging.message.carried import MOST_CARRIED, CarriedInput, problems_in
from sagas.messaging.message.pending_commit import Count, PendingCommit, problems_of
from sagas.messaging.message.redriving import told_in
from sagas.messaging.message.trace import Trace

_Uuid = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")]
_Name = Annotated[str, Meta(max_length=256)]
_Inputs = Annotated[tuple[CarriedInput, ...], Meta(max_length=MOST_CARRIED)]
_Index = Annotated[int, Meta(ge=0, le=10**15)]


class _Body(msgspec.Struct, frozen=True):
    """A message's body. What is added to it needs a default; what is unknown in it is passed over."""

    saga_id: _Uuid
    saga: _Name
    step: _Name
    index: _Index
    undo: bool
    dispatch: Count
    hops: _Index = 0
    correlation_id: _Name = ""
    format: Count = FORMAT
    commit: PendingCommit | msgspec.UnsetType = msgspec.UNSET
    inputs: _Inputs | msgspec.UnsetType = msgspec.UNSET
    trace: Trace | msgspec.UnsetType = msgspec.UNSET


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Body).decode


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
        inputs: results that the step may take, or their hashes, in order of ``seq``.
        chained: it was sent for another step or undo than it names, from which its saga has gone on since; never sent.
        trace: the saga's, where it is traced.
        codeless: what it asks for takes no code of the saga's, as the end of a wait; never sent: it says where to.
        redriven_by: who moved it back from the dead letters, by ARN, as its attributes say; empty if they do not.
        note: why, likewise.
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
    inputs: tuple[CarriedInput, ...] = ()
    chained: bool = False
    trace: Trace | None = None
    codeless: bool = False
    redriven_by: str = ""
    note: str = ""

    @property
    def body(self) -> str:
        """The message's body, as JSON."""
        place = self.saga_id, self.saga, self.step, self.index, self.undo, self.dispatch
        more = self.pending_commit or msgspec.UNSET, self.inputs or msgspec.UNSET, self.trace or msgspec.UNSET
        body = _Body(*place, self.hops, self.correlation_id, FORMAT, *more)
        try:
            return sendable(_encode(body).decode())
        except UnicodeEncodeError:  # an exception's text may hold half a character, as file names do
            return json.dumps(msgspec.to_builtins(body), separators=(",", ":"))


def parse_record(record: Mapping[str, Any]) -> Message:
    """Read the message from a record of an SQS event."""
    try:
        body = _decode(record.get("body", ""))
    except (TypeError, ValueError, RecursionError):
        body = _read_slowly(record.get("body", ""))
    check_format(body.format, "a message")
    names = {"saga": body.saga, "step": body.step, "correlation_id": body.correlation_id}
    problems = [Problem(f"$.{field}", "not a name") for field, name in names.items() if not name.isprintable()]
    if body.commit:
        problems += problems_of(body.commit, body.undo)
    problems += problems_in(body.inputs or ())
    if problems:
        raise _refusal(problems)
    attributes: Any = record.get("attributes") or {}
    try:
        counted, sent = (int(attributes.get(name, 0)) for name in ("ApproximateReceiveCount", "SentTimestamp"))
        receives, sent_at = max(counted, 1), sent / 1000
    except (AttributeError, TypeError, ValueError, ArithmeticError):
        problem = Problem("attributes", "must hold the count of receives and the time of sending")
        raise InvalidRequest("the record's attributes are not SQS's", [problem]) from None
    place = body.saga_id, body.saga, body.step, body.index, body.undo, body.dispatch
    redriven_by, note = told_in(record)
    return Message(
        *place,
        hops=body.hops,
        correlation_id=body.correlation_id or body.saga_id,
        message_id=str(record.get("messageId", "")),
        receipt=str(record.get("receiptHandle", "")),
        receives=receives,
        sent_at=sent_at,
        pending_commit=body.commit or None,
        inputs=body.inputs or (),
        trace=body.trace or None,
        redriven_by=redriven_by,
        note=note,
    )


def _read_slowly(text: Any) -> _Body:
    """Read what msgspec refuses: to name all that is wrong, or because an error's text has half a character in it."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise InvalidRequest("the message's body is not JSON", [Problem("$", "not JSON")]) from None
    if not isinstance(found, dict):
        raise InvalidRequest("the message's body is not an object", [Problem("$", "not an object")])
    fields = cast("dict[str, Any]", found)
    check_format(fields.get("format"), "a message")
    problems = list[Problem]()
    for field in msgspec.structs.fields(_Body):  # one by one: of a whole, msgspec names the first problem only
        path = f"$.{field.name}"
        if field.name in fields:
            try:
                msgspec.convert(fields[field.name], field.type)
            except (ValueError, RecursionError) as error:
                said, _, inner = str(error).partition(" - at `$")
                problems.append(Problem(path + inner.removesuffix("`"), said))
        elif field.required:
            problems.append(Problem(path, "missing"))
    if problems:
        raise _refusal(problems)
    return msgspec.convert(fields, _Body)


def _refusal(problems: list[Problem]) -> InvalidRequest:
    return InvalidRequest("the message lacks: " + ", ".join(problem.path for problem in problems), problems)
