"""What the API answers about sagas, as types: what makes the answers, the client and the API's description of itself
all take them from here. ``overviews`` has the answers about types, breakers and numbers, ``reports`` the supervisor's.

Times are ISO 8601 in UTC; ``None`` means it has not happened. Nothing here loads more than a client needs.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from sagas.core.states import SagaStatus, StepStatus
from sagas.store.journal.chain import Wrong

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Id = Annotated[str, Meta(extra_json_schema={"format": "uuid"})]
_SagaStatus = Annotated[str, Meta(extra_json_schema={"enum": list(SagaStatus)})]
_StepStatus = Annotated[str, Meta(extra_json_schema={"enum": list(StepStatus)})]
_Wrong = Annotated[str, Meta(extra_json_schema={"enum": list(Wrong)})]
WAITS_FOR = ("signal", "time", "children", "paused", "breaker", "backoff", "lease", "queue")
Count = Annotated[int, Meta(ge=0)]
_Ordinal = Annotated[int, Meta(ge=1)]


class ErrorView(TypedDict):
    """An error by its kind and its text."""

    type: str
    message: str


class SagaErrorView(ErrorView):
    """The error that ended the forward way, and the step it is of."""

    step: str | None


class ChildErrorView(TypedDict):
    """A child that failed, and why, if that is known."""

    position: Count
    saga_id: Id
    status: _SagaStatus
    error: ErrorView | None


class ChildrenView(TypedDict):
    """The children of a step: how many there are to be, were started, are COMPLETED, and ended otherwise.

    ``finished`` is the share of them that is over, from 0 to 1; ``failures`` are the first ten that failed; ``href``
    lists them.
    """

    total: Count
    started: Count
    completed: Count
    failed: Count
    finished: Annotated[float, Meta(ge=0, le=1)]
    failures: list[ChildErrorView]
    href: str


class ParentView(TypedDict):
    """The saga whose child this is, its step, and which child of the step, from 0."""

    type: str
    saga_id: Id
    step: str
    position: Count


class FaultView(ErrorView):
    """What went wrong with a saga, and at which step: of its undo where ``undo`` is true. At most 200 characters of the
    message."""

    step: str | None
    undo: bool


class StepView(TypedDict):
    """One step of a saga. ``next_attempt_at`` is known while it waits between two attempts. While it waits,
    ``waiting_for`` says for what (a retry: it said itself that it is not yet time, and ``message`` why), and
    ``waits_until`` until when at most. ``took`` is how many seconds the last attempt of the step itself ran, without
    waits before it and without its undo. ``children`` is there
    where the step has some, and ``pivot`` where it is the saga's pivot.
    """

    name: str
    status: _StepStatus
    attempts: Count
    undo_attempts: Count
    started_at: Time | None
    ended_at: Time | None
    result: Any
    error: ErrorView | None
    next_attempt_at: Time | None
    waiting_for: Annotated[str, Meta(extra_json_schema={"enum": ["signal", "time", "children", "retry"]})] | None
    waits_until: Time | None
    message: str | None
    children: NotRequired[ChildrenView]
    took: Annotated[float, Meta(ge=0)] | None
    pivot: NotRequired[bool]


class ProgressView(TypedDict):
    """How far the current step says it is: ``fraction`` from 0 to 1, and when it said so."""

    step: str
    fraction: Annotated[float, Meta(ge=0, le=1)]
    message: str
    at: Time


class ResolutionView(TypedDict):
    """How a saga was settled by hand: by whom, why, what was done, and the steps whose undo was done by hand."""

    by: str
    at: Time
    reason: str
    action: str
    steps: list[str]


class WaitingBehindView(TypedDict):
    """The circuit breaker that a saga waits for: the step's, and when its open period ends or has ended. From then on
    one saga after the other is let through, until one succeeds.
    """

    step: str
    open_until: Time


class WaitingView(TypedDict):
    """What a saga that is not over waits for, and until when, where that is known.

    ``signal``, ``time``, ``children``: its step does, until its time is over. ``paused``: ``pause`` says why.
    ``breaker``: its step's circuit breaker is open. ``backoff``: its next attempt is due then. ``lease``: a worker
    runs it, until then unless it sends another heartbeat. ``queue``: its message is on its way to a worker.
    """

    kind: Annotated[str, Meta(extra_json_schema={"enum": list(WAITS_FOR)})]
    until: Time | None


class PauseView(TypedDict):
    """A pause of a saga type, of its step ``step``, or of the saga ``saga_id``: since when, by whom and why.

    ``starts_only``: new sagas are refused, and those in flight go on. ``starts``: new sagas are accepted, and wait.
    ``undos``: undos wait, too. ``until`` is null for one that lasts until an operator resumes. ``by`` is
    ``auto_disable`` where the library paused the type.
    """

    step: str | None
    saga_id: Id | None
    starts_only: bool
    starts: bool
    undos: bool
    at: Time | None
    by: str | None
    reason: str | None
    until: Time | None


class LeaseView(TypedDict):
    """Who is at work on a saga: since when, until when without another heartbeat, and when the last one was, if there
    are any.
    """

    claimed_at: Time | None
    expires_at: Time
    heartbeat_at: Time | None


class LinksView(TypedDict):
    """Paths on the API's host, the stage included."""

    self: str


class LeftOutView(TypedDict):
    """A request or result that is null in this answer, though there is one.

    ``path`` is where it would be (``$.steps[2].result``), ``entry`` the number of the audit entry that has it,
    ``object`` its key in the payload bucket if it is there, ``bytes`` its size, if known. ``why``: ``too_large`` where
    a function's answer takes no more, ``not_asked_for`` in the answer to an operation, ``unreadable`` where it is gone
    or was changed.
    """

    path: str
    entry: _Ordinal
    object: str | None
    bytes: Count | None
    why: Annotated[str, Meta(extra_json_schema={"enum": ["too_large", "not_asked_for", "unreadable"]})]


class Summary(TypedDict):
    """What lists show of a saga.

    ``paused``: a pause has it wait before its next step, or will. ``fault``: the error that ended the forward way, or
    of the undo that failed for good. ``why`` is there while the saga needs a person, ``lease`` while a worker has it,
    ``parent`` where it has one, ``past_pivot`` once it only goes forward: the name of its pivot, which has completed,
    or may have.
    """

    saga_id: Id
    type: str
    version: str
    status: _SagaStatus
    in_doubt: list[str]
    recovery_attempts: Count
    cancel_requested_at: Time | None
    paused: bool
    fault: FaultView | None
    created_at: Time
    updated_at: Time
    ended_at: Time | None
    links: LinksView
    why: NotRequired[str]
    parent: NotRequired[ParentView]
    lease: NotRequired[LeaseView]
    past_pivot: NotRequired[str]


class NamedObjectView(TypedDict):
    """An object in S3 that a result of a purged saga named."""

    bucket: str
    key: str


class SagaView(Summary):
    """A saga with its request and its steps in order.

    ``result`` is present once it is COMPLETED. At its ``deadline`` the saga is cancelled, unless it has ended; past its
    pivot it goes on the attention list instead. ``error`` is the one that ended the forward way. ``breaker`` is present
    while the saga waits for one. ``waiting`` is null if the saga has ended or waits for an operator. ``pause`` is
    present while the saga is ``paused``. ``redacted`` lists the paths where ``***`` replaces a hidden value.

    ``purged_at`` and ``purge_reason`` are present if the saga was purged. Then request, results and errors are null.
    ``objects`` has the first objects in S3 that the results named, and ``more_objects`` counts the others; the sweep of
    the type looks after them. ``left_out`` lists a request or result that this answer lacks.
    """

    request: Any
    steps: Annotated[list[StepView], Meta(min_length=1)]
    error: SagaErrorView | None
    progress: ProgressView | None
    breaker: WaitingBehindView | None
    waiting: WaitingView | None
    resolution: ResolutionView | None
    correlation_id: str
    result: Any
    deadline: Time | None
    pause: NotRequired[PauseView]
    redacted: NotRequired[list[str]]
    purged_at: NotRequired[Time]
    purge_reason: NotRequired[str]
    objects: NotRequired[list[NamedObjectView]]
    more_objects: NotRequired[Count]
    left_out: NotRequired[list[LeftOutView]]


class Page(TypedDict):
    """Part of a list; ``cursor`` asks for the next part, ``None`` ends it."""

    sagas: list[Summary]
    cursor: str | None


class IncidentView(TypedDict):
    """Sagas that need an operator for the same: their ``type``, the ``step`` in trouble and the type of its error, if
    it has one. They came onto the list from ``first_seen`` to ``last_seen``."""

    type: str
    step: str
    error_type: str | None
    count: Count
    first_seen: Time
    last_seen: Time


class IncidentList(TypedDict):
    """Incidents, the one that has lasted longest first. ``at_least``: there are more sagas than were looked at."""

    incidents: list[IncidentView]
    at_least: bool


class AuditEntry(TypedDict):
    """One committed change of a saga. ``seq`` counts from 1 without gaps; ``status`` is the saga's after it."""

    saga_id: Id
    seq: _Ordinal
    at: Time
    type: str
    action: str
    step: str | None
    attempt: _Ordinal | None
    status: _SagaStatus
    actor: str
    correlation_id: str
    trace_id: str | None
    details: dict[str, Any]


class CallbackView(TypedDict):
    """The saga that took a value by a callback URL; nothing of it that the URL does not tell, but its status."""

    type: str
    saga_id: Id
    step: str
    status: _SagaStatus


class AuditPage(TypedDict):
    """Part of an audit trail; ``cursor`` asks for the next part, ``None`` ends it."""

    entries: list[AuditEntry]
    cursor: str | None


class BadEntryView(TypedDict):
    """The first entry that is not what was written: ``what`` is wrong with it, and a sentence for people.

    ``cut off``: it and all behind it are gone.
    """

    seq: _Ordinal
    what: _Wrong
    message: str


class VerificationView(TypedDict):
    """Whether a saga's audit trail is what was written.

    ``entries`` were looked at. ``purged_at`` is there when the saga was purged: then only its trail of actions is left
    to verify.
    """

    saga_id: Id
    verified: bool
    entries: Count
    broken: BadEntryView | None
    purged_at: NotRequired[Time]


class ProblemView(TypedDict):
    """One thing wrong with an input: where (``$.keys[0]``), and what."""

    path: str
    message: str


class RefusalView(TypedDict):
    """Why a call was refused; ``details`` lists the problems of an input that does not fit."""

    code: str
    message: str
    details: list[ProblemView] | None


class ErrorAnswer(TypedDict):
    """The answer to a call that was refused or failed."""

    error: RefusalView
