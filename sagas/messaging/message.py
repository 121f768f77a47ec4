"""The message that takes a saga to its next step: its body, what it carries, and its SQS record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Struct

from sagas.core.events import FACTS, Fact, Reports
from sagas.core.text import epoch, iso, sendable
from sagas.errors import FORMAT, InvalidRequest, Problem, check_format
from sagas.paths import Place

_Header = Annotated[str, msgspec.Meta(max_length=512)]


class Trace(msgspec.Struct, frozen=True):
    """The trace of a saga. An invalid trace context is ignored, and never makes a message fail.

    Args:
        saga: the ``traceparent`` of the saga's start, which is the parent of all its spans.
        state: the ``tracestate`` of the saga's start.
        sent: the ``traceparent`` of the span that sent this message; empty before it is sent.
    """

    saga: _Header
    state: _Header = ""
    sent: _Header = ""

    @property
    def carrier(self) -> dict[str, str]:
        """The trace headers of the saga's start."""
        return {"traceparent": self.saga, "tracestate": self.state}


def trace_in(details: object) -> Trace | None:
    """Read the trace from the details of a first entry; ``None`` if there is none."""
    try:
        return msgspec.convert(details, Trace)
    except msgspec.ValidationError:
        return None


def trace_of(headers: Mapping[str, str]) -> Trace | None:
    """Return the trace that starts with the span in these headers; ``None`` if there is none."""
    return Trace(headers["traceparent"], headers.get("tracestate", "")) if "traceparent" in headers else None


Count = Annotated[int, msgspec.Meta(ge=1, le=10**15)]
"""A limit far above any real count, and within the range of DynamoDB's numbers."""
_REQUIRED: dict[str, dict[str, type[Any]]] = {
    "WaitStarted": {"until": str},
    "StepSkipped": {"reason": str},
    "StepPostponed": {"message": str, "since": str, "looks": int},
    "CompensationPostponed": {"message": str, "since": str, "looks": int},
    "ChildrenStarted": {"children": int, "types": list},
}
"""The details that each action must have, with their types."""


class PendingCommit(msgspec.Struct, frozen=True):
    """An attempt's report, and the claim under which it may be committed.

    Args:
        action: the fact's name.
        attempt: the number of the execution.
        token: the claim's fencing token.
        seq: the last committed entry at the time of the claim.
        owner: the claim's nonce.
        details: the entry's details, as JSON builtins.
        trace_id: the trace id of the invocation that made the attempt.
        payload: a step's result, or the requests of its children, as JSON text.
    """

    action: str
    attempt: Count
    token: Count
    seq: Count
    owner: str
    details: dict[str, Any]
    trace_id: str = ""
    payload: str | None = None


class _Error(msgspec.Struct):
    type: str
    message: str


class _Failure(msgspec.Struct):
    """The details that a failure must have."""

    error: _Error
    next_attempt_at: str = iso(0)


def problems_of(pending: PendingCommit, undo: bool) -> list[Problem]:
    """Return the problems of a received report."""
    action = pending.action
    kind = FACTS.get(pending.action, Fact)
    failed = kind.reports is (Reports.UNDO_FAILED if undo else Reports.STEP_FAILED)
    succeeded = kind.reports is (Reports.UNDO_SUCCEEDED if undo else Reports.STEP_SUCCEEDED)
    fits = {
        "action": failed or succeeded,
        "payload": is_json(pending.payload) if kind.has_payload else pending.payload is None,
        "details": _is_failure(pending.details) if failed else _is_complete(action, pending.details),
    }
    return [Problem(f"$.commit.{name}", f"does not fit {action}") for name, fit in fits.items() if not fit]


def is_json(text: str | None) -> bool:
    """Whether a text is a single JSON value."""
    try:
        msgspec.json.decode(text or "", type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return True


def _is_complete(action: str, details: dict[str, Any]) -> bool:
    """Whether details have valid times, and everything that the fact needs except its failure."""
    required = _REQUIRED.get(action, {})
    try:
        for name in ("until", "since", "next_attempt_at"):
            if name in details or name in required:
                epoch(details[name])
        float(details.get("after", 0.0))
    except (KeyError, TypeError, ValueError, OverflowError):
        return False
    return "error" not in details and all(isinstance(details.get(name), kind) for name, kind in required.items())


def _is_failure(details: dict[str, Any]) -> bool:
    try:
        epoch(msgspec.convert(details, _Failure).next_attempt_at)
    except (ValueError, OverflowError, RecursionError):
        return False
    return True


CARRY_LIMIT = 16 * 1024
"""Maximum bytes of payload text in one message. Payloads above about this size are in S3 and not in the journal."""
MOST_CARRIED = 200
"""Maximum results in one message, including hashes without a payload."""


class CarriedInput(msgspec.Struct, frozen=True, array_like=True):
    """A saga's request, or a step's result. The journal is authoritative, so the hash must match it.

    Args:
        seq: the number of the journal entry.
        hash: the hash of payload and salt, in base64url.
        salt: the salt of the journal entry, in base64url; empty without a payload.
        payload: the JSON text; ``None`` if it must be read from the journal.
        hidden: the paths to the hidden parts of the payload.
    """

    seq: Count
    hash: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
    salt: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,64}\Z")] = ""
    payload: str | None = None
    hidden: tuple[Place, ...] = ()


def fitting(inputs: Iterable[CarriedInput], limit: int = CARRY_LIMIT) -> tuple[CarriedInput, ...]:
    """Return the inputs for a message: all hashes, and as many payloads as fit.

    The largest payloads are dropped first. Of equally large payloads, the older is dropped first. ``limit`` is in bytes
    of payload text and paths. The result is in order of ``seq``, and empty if there are more than ``MOST_CARRIED``
    inputs.
    """
    carried = sorted(inputs, key=lambda carried_input: carried_input.seq)
    if len(carried) > MOST_CARRIED:
        return ()
    texts = (("".join(map("".join, each.hidden)), each.payload or "") for each in carried)
    sizes = [sum(len(text.encode()) for text in both) for both in texts]
    total = sum(sizes)
    for place in sorted(range(len(carried)), key=lambda place: -sizes[place]):
        if total <= limit:
            break
        carried[place] = CarriedInput(carried[place].seq, carried[place].hash)
        total -= sizes[place]
    return tuple(carried)


def problems_in(inputs: Sequence[CarriedInput]) -> list[Problem]:
    """Return the problems of received inputs. The types of their fields have been checked before."""
    seqs = [carried.seq for carried in inputs]
    problems = [Problem("$.inputs", "not in the order of seq")] if any(a >= b for a, b in pairwise(seqs)) else []
    for place, carried in enumerate(inputs):
        if carried.payload is not None and not is_json(carried.payload):
            problems.append(Problem(f"$.inputs[{place}][3]", "not JSON"))
    return problems


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
        source: the ARN of the queue that delivered the message; else empty.
        receives: how often SQS has delivered the message.
        sent_at: epoch seconds at which the message entered its queue; 0 if unknown.
        pending_commit: the outcome of an attempt that is not committed yet.
        inputs: results that the step can take, or their hashes, in order of ``seq``.
        chained: whether the message now names a later step than the step that it was sent for; not in the body.
        trace: the saga's trace, if the saga is traced.
        codeless: whether the work needs no user code, such as the end of a wait. This selects the queue; not in the
            body.
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
    source: str = ""

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
        receives = max(count, 1)
        sent_at = sent_ms / 1000
    except (AttributeError, TypeError, ValueError, ArithmeticError):
        problem = Problem("attributes", "must have the number of receives and the time of sending")
        raise InvalidRequest("the record does not have the attributes of SQS", [problem]) from None
    place = body.saga_id, body.saga, body.step, body.index, body.undo, body.dispatch
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
        source=str(record.get("eventSourceARN", "")),
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
