"""The message that takes a saga to its next step. It is read from an SQS record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Struct

from sagas.core.text import sendable
from sagas.errors import InvalidRequest, Problem
from sagas.formats import FORMAT, check_format
from sagas.messaging.message.carried import MOST_CARRIED, CarriedInput, problems_in
from sagas.messaging.message.pending_commit import Count, PendingCommit, problems_of
from sagas.messaging.message.redriving import redriver_of
from sagas.messaging.message.trace import Trace

_Uuid = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")]
_Name = Annotated[str, Meta(max_length=256)]
_Inputs = Annotated[tuple[CarriedInput, ...], Meta(max_length=MOST_CARRIED)]
_Index = Annotated[int, Meta(ge=0, le=10**15)]


class _Body(msgspec.Struct, frozen=True):
    """A message's body. New fields need a default. Unknown fields are ignored."""

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


class Message(Struct, frozen=True):
    """One message of a saga.

    Args:
        saga_id: the saga's id.
        saga: the saga type's name.
        step: the step's name.
        index: the step's position.
        undo: whether the message is for the step's undo.
        dispatch: the number of the message within its saga.
        hops: how often the message was copied to wait longer.
        correlation_id: the saga's correlation id.
        message_id: SQS's id; empty before the message is sent.
        receipt: SQS's receipt handle; empty before the message is sent.
        receives: how often SQS has delivered the message.
        sent_at: epoch seconds at which the message entered its queue; 0 if unknown.
        pending_commit: the outcome of an attempt that is not committed yet.
        inputs: results that the step can take, or their hashes, in order of ``seq``.
        chained: whether the message now names a later step than the step that it was sent for; not in the body.
        trace: the saga's trace, if the saga is traced.
        codeless: whether the work needs no user code, such as the end of a wait. This selects the queue; not in the
            body.
        redriven_by: the ARN of the caller who redrove the message, from its attributes; else empty.
        reason: the caller's reason, from its attributes; else empty.
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
    reason: str = ""

    @property
    def body(self) -> str:
        """The message's body, as JSON."""
        place = self.saga_id, self.saga, self.step, self.index, self.undo, self.dispatch
        more = self.pending_commit or msgspec.UNSET, self.inputs or msgspec.UNSET, self.trace or msgspec.UNSET
        body = _Body(*place, self.hops, self.correlation_id, FORMAT, *more)
        try:
            return sendable(_encode(body).decode())
        except UnicodeEncodeError:  # a text, such as a file name in an exception, can have half a surrogate pair
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
        count, sent_ms = (int(attributes.get(name, 0)) for name in ("ApproximateReceiveCount", "SentTimestamp"))
        receives, sent_at = max(count, 1), sent_ms / 1000
    except (AttributeError, TypeError, ValueError, ArithmeticError):
        problem = Problem("attributes", "must have the number of receives and the time of sending")
        raise InvalidRequest("the record does not have the attributes of SQS", [problem]) from None
    place = body.saga_id, body.saga, body.step, body.index, body.undo, body.dispatch
    redriven_by, reason = redriver_of(record)
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
        reason=reason,
    )


def _read_slowly(text: Any) -> _Body:
    """Read a body that msgspec refuses, because it may have half a surrogate pair, or to report all problems."""
    try:
        data = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise InvalidRequest("the message's body is not JSON", [Problem("$", "not JSON")]) from None
    if not isinstance(data, dict):
        raise InvalidRequest("the message's body is not an object", [Problem("$", "not an object")])
    fields = cast("dict[str, Any]", data)
    check_format(fields.get("format"), "a message")
    problems = list[Problem]()
    for field in msgspec.structs.fields(
        _Body
    ):  # one by one, because msgspec only reports the first problem of a struct
        path = f"$.{field.name}"
        if field.name in fields:
            try:
                msgspec.convert(fields[field.name], field.type)
            except (ValueError, RecursionError) as error:
                text, _, inner = str(error).partition(" - at `$")
                problems.append(Problem(path + inner.removesuffix("`"), text))
        elif field.required:
            problems.append(Problem(path, "missing"))
    if problems:
        raise _refusal(problems)
    return msgspec.convert(fields, _Body)


def _refusal(problems: list[Problem]) -> InvalidRequest:
    return InvalidRequest("the message is not valid: " + ", ".join(problem.path for problem in problems), problems)
