"""The API's answers about sagas, as types. The engine, the client and the OpenAPI document share these types.

``overviews`` has the answers about saga types, breakers and numbers of sagas, and ``reports`` those about the
supervisor's tasks. Times are ISO 8601 in UTC; ``None`` means that the event has not happened. The title of a choice is
its name in the OpenAPI document. This module imports only what a client needs.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from sagas.core.events import AttentionCode
from sagas.core.states import SagaStatus, StepStatus
from sagas.store.journal.chain import Wrong

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Id = Annotated[str, Meta(extra_json_schema={"format": "uuid"})]
Status = Annotated[str, Meta(title="SagaStatus", extra_json_schema={"enum": list(SagaStatus)})]
_StepStatus = Annotated[str, Meta(title="StepStatus", extra_json_schema={"enum": list(StepStatus)})]
_Wrong = Annotated[str, Meta(title="Mismatch", extra_json_schema={"enum": list(Wrong)})]
WAITS_FOR = ("signal", "time", "children", "paused", "breaker", "backoff", "lease", "queue", "release", "inputs")
_WaitingFor = Annotated[
    str, Meta(title="WaitingFor", extra_json_schema={"enum": ["signal", "time", "children", "retry"]})
]
_WaitKind = Annotated[str, Meta(title="WaitKind", extra_json_schema={"enum": list(WAITS_FOR)})]
_LeftOut = Annotated[
    str, Meta(title="LeftOutReason", extra_json_schema={"enum": ["too_large", "not_asked_for", "unreadable"]})
]
Count = Annotated[int, Meta(ge=0)]
_Ordinal = Annotated[int, Meta(ge=1)]


class ErrorView(TypedDict):
    """An error: its type and its message.

    ``***`` replaces hidden values in the message. In answers for which values are not read, a message of an earlier
    release that hid other values is replaced as a whole, by ``hidden: release 3 hides values of this saga``.
    """

    type: str
    message: str


class SagaErrorView(ErrorView):
    """The error that ended the saga's forward phase, and its step."""

    step: str | None


class ChildErrorView(TypedDict):
    """A child that failed, its label, and its error if one is recorded."""

    position: Count
    type: str
    saga_id: Id
    label: str | None
    updated_at: Time
    status: Status
    error: ErrorView | None


class ChildrenView(TypedDict):
    """The children of a step: how many are planned, were started, are COMPLETED, and have ended otherwise.

    ``finished`` is the share of children that have ended, from 0 to 1. ``failures`` lists the first ten failed
    children, and the URL ``href`` all children.
    """

    total: Count
    started: Count
    completed: Count
    failed: Count
    finished: Annotated[float, Meta(ge=0, le=1)]
    failures: list[ChildErrorView]
    href: str


class ParentView(TypedDict):
    """The parent of a saga: the step that started the saga, and the saga's position among the step's children."""

    type: str
    saga_id: Id
    step: str
    position: Count


class FailureView(SagaErrorView):
    """The error for which a saga needs an operator, and its step. ``undo``: whether the step's undo raised it."""

    undo: bool


class IncidentKey(TypedDict):
    """The key by which sagas that need an operator are grouped: the reason, the step, and the type of the error, if
    any.

    With the code ``does_not_fit``, the saga waits for a release, and continues by itself. ``error_type`` is then the
    release that has the step, like ``release 3``, and ``until`` is when the saga, or the first of them, will need an
    operator.
    """

    code: Annotated[str, Meta(title="AttentionCode", extra_json_schema={"enum": list(AttentionCode)})]
    step: str
    error_type: str | None
    until: NotRequired[Time]


class AttentionView(IncidentKey):
    """Why a saga needs an operator, since when, and the error that is the cause, if there is one."""

    reason: str
    since: Time
    error: FailureView | None


class StepView(TypedDict):
    """One step of a saga.

    ``next_attempt_at`` is present while the step waits between two attempts. ``waiting_for`` says what a step waits
    for, and ``waits_until`` is the latest end of the wait. If ``waiting_for`` is ``retry``, the step has postponed
    itself, and ``message`` says why. ``message`` also says why a step was SKIPPED. ``took`` is the number of seconds
    that the step's last attempt ran, without earlier waits and without its undo. ``children`` is present if the step
    has children, and ``pivot`` if it is the saga's pivot. ``trace_id`` is the X-Ray trace of the attempt with the
    ``error``.
    """

    name: str
    status: _StepStatus
    attempts: Count
    undo_attempts: Count
    started_at: Time | None
    ended_at: Time | None
    result: Any
    error: ErrorView | None
    trace_id: str | None
    next_attempt_at: Time | None
    waiting_for: _WaitingFor | None
    waits_until: Time | None
    message: str | None
    children: NotRequired[ChildrenView]
    took: Annotated[float, Meta(ge=0)] | None
    pivot: NotRequired[bool]


class ProgressView(TypedDict):
    """The progress that the current step has reported, and when. ``fraction`` is from 0 to 1."""

    step: str
    fraction: Annotated[float, Meta(ge=0, le=1)]
    message: str
    at: Time


class ResolutionView(TypedDict):
    """How a saga was resolved: by whom, why, the action taken, and the steps that were undone by hand."""

    by: str
    at: Time
    reason: str
    action: str
    steps: list[str]


class WaitingBehindView(TypedDict):
    """The circuit breaker that a saga waits for: its step, and the end of its open period. After that it admits one
    saga at a time, until a saga succeeds.
    """

    step: str
    open_until: Time


class WaitingView(TypedDict):
    """What a saga in flight waits for, and until when, if that is known.

    ``signal``, ``time``, ``children``: the step waits, ``until`` its timeout. ``paused``: ``pause`` says why.
    ``breaker``: the step's circuit breaker is open. ``backoff``: the next attempt comes at ``until``. ``lease``: a
    worker runs the saga, and its lease expires at ``until`` unless another heartbeat comes. ``queue``: the message is
    on its way to a worker. ``release``: the deployed code does not fit ``step``; ``message`` says why. At ``until``,
    the saga will need an operator. ``inputs``: what ``step`` takes cannot be read; ``message`` says why. At ``until``,
    the saga tries again.
    """

    kind: _WaitKind
    until: Time | None
    step: NotRequired[str]
    message: NotRequired[str]


class PauseView(TypedDict):
    """A pause of a saga type, of the step ``step`` or of the saga ``saga_id``: since when, by whom, and why.

    ``starts_only``: new sagas are refused, and sagas in flight continue. ``starts``: new sagas are accepted but wait.
    ``undos``: undos wait, too. ``until`` is null if the pause lasts until an operator ends it. ``by`` is
    ``auto_disable`` if the library paused the type.
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
    """The lease of the worker that runs a saga. It expires unless another heartbeat comes. ``heartbeat_at`` is the time
    of the last heartbeat, if the step sends any.
    """

    claimed_at: Time | None
    expires_at: Time
    heartbeat_at: Time | None


class LinksView(TypedDict):
    """Paths on the API's host, including the stage."""

    self: str


class LeftOutView(TypedDict):
    """A request or result that exists but is null in this answer.

    ``path`` is the place in the answer (``$.steps[2].result``), and ``entry`` the number of the audit entry. ``object``
    is the key in the payload bucket, if the value is there, and ``bytes`` the size, if known. ``reason``: ``too_large``
    if a Lambda function cannot return it, ``not_asked_for`` in the answer to an operation, ``unreadable`` if it is
    missing or changed.
    """

    path: str
    entry: _Ordinal
    object: str | None
    bytes: Count | None
    reason: _LeftOut


class Summary(TypedDict):
    """A saga in a list.

    ``label`` says what the saga is about: its search keys, like ``order o-17 · customer c-5``, in at most 100
    characters. It is null if the type hides one of them. ``key`` has the first 128 characters of the idempotency key.
    Both are null in the answer to an operation, and once the saga is purged.
    ``seq`` is the number of the saga's last audit entry. It names this state in a retry, an undo or a resolution.
    ``paused``: a pause stops the saga before its next step. ``error`` is the error that ended the saga's forward phase.
    Lists have the first 200 characters of its message. ``attention`` is null unless the saga needs an operator.
    ``lease`` is present while a worker holds the saga, and ``parent`` if the saga is a child. ``past_pivot`` is present
    once the saga can only go forward: it names the pivot, which has completed or may have completed.
    """

    saga_id: Id
    type: str
    label: str | None
    key: str | None
    version: str
    status: Status
    seq: _Ordinal
    in_doubt: list[str]
    recovery_attempts: Count
    cancel_requested_at: Time | None
    paused: bool
    error: SagaErrorView | None
    attention: AttentionView | None
    created_at: Time
    updated_at: Time
    ended_at: Time | None
    links: LinksView
    parent: NotRequired[ParentView]
    lease: NotRequired[LeaseView]
    past_pivot: NotRequired[str]


class NamedObjectView(TypedDict):
    """An S3 object that a result of a purged saga named."""

    bucket: str
    key: str


class SagaView(Summary):
    """A saga with its request and its steps in order.

    ``result`` is null until the saga is COMPLETED. If the saga has not ended by its ``deadline``, it is cancelled; past
    its pivot it goes on the attention list instead. ``breaker`` is null unless the saga waits for a breaker.
    ``waiting`` is null if the saga has ended or waits for an operator. ``pause`` is present while the saga is
    ``paused``. ``redacted`` lists the paths where ``***`` replaces a hidden value.

    ``purged_at`` and ``purge_reason`` are present if the saga was purged. Then request, results and errors are null.
    ``objects`` has the first S3 objects that the results named, and ``more_objects`` counts the others. The sweep of
    the type deletes all these objects. ``left_out`` lists the request and results that this answer does not contain.
    """

    request: Any
    steps: Annotated[list[StepView], Meta(min_length=1)]
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
    """Part of a list. ``cursor`` fetches the next part; ``None`` is the end."""

    sagas: list[Summary]
    cursor: str | None


class IncidentView(IncidentKey):
    """The sagas of a ``type`` that need an operator for the same reason. The first of them was added to the list at
    ``first_seen``, the last at ``last_seen``. ``at_least``: there may be more than ``count``."""

    type: str
    count: Count
    at_least: bool
    first_seen: Time
    last_seen: Time


class IncidentList(TypedDict):
    """Incidents, oldest first. ``at_least``: there are more incidents than these."""

    incidents: list[IncidentView]
    at_least: bool


class AuditEntry(TypedDict):
    """One committed change of a saga.

    ``seq`` counts from 1 without gaps; ``status`` is the saga's status after it. Texts in ``details`` are shown as
    those of errors are. Their ``redacted_by`` is the version of the type that wrote them, and a hash of what it hides.
    """

    saga_id: Id
    seq: _Ordinal
    at: Time
    type: str
    action: str
    step: str | None
    attempt: _Ordinal | None
    status: Status
    actor: str
    correlation_id: str
    trace_id: str | None
    details: dict[str, Any]


class CallbackView(TypedDict):
    """The saga that accepted a value from a callback URL. The URL contains all fields except the status."""

    type: str
    saga_id: Id
    step: str
    status: Status


class AuditPage(TypedDict):
    """Part of an audit trail. ``cursor`` fetches the next part; ``None`` is the end."""

    entries: list[AuditEntry]
    cursor: str | None


class BadEntryView(TypedDict):
    """The first entry that differs from what was written.

    ``what`` names the difference, and ``message`` describes it. ``cut off``: this entry and all later ones are missing.
    """

    seq: _Ordinal
    what: _Wrong
    message: str


class VerificationView(TypedDict):
    """Whether a saga's audit trail is unchanged.

    ``entries`` is the number of entries that were verified. ``purged_at`` is present if the saga was purged: then only
    its list of actions can be verified.
    """

    saga_id: Id
    verified: bool
    entries: Count
    broken: BadEntryView | None
    purged_at: NotRequired[Time]


class ProblemView(TypedDict):
    """One problem of an input: its place (``$.keys[0]``), and what is wrong."""

    path: str
    message: str


class RefusalView(TypedDict):
    """Why a call was refused; ``details`` lists the problems of an invalid input."""

    code: str
    message: str
    details: Annotated[list[ProblemView], Meta(min_length=1)] | None


class ErrorAnswer(TypedDict):
    """The answer to a call that was refused or failed.

    ``saga`` is present with the code ``state_changed``: the saga as it is now, without request and results.
    """

    error: RefusalView
    saga: NotRequired[SagaView]
