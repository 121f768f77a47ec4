"""The API's answers about saga types, circuit breakers, numbers of sagas, and the overview. See ``answers``."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from sagas.authoring.policies import Exhausted
from sagas.engine.read.answers import Count, Id, PauseView, Status, Time

_BreakerState = Annotated[str, Meta(title="BreakerState", extra_json_schema={"enum": ["closed", "open", "half-open"]})]
_Policy = Annotated[str, Meta(title="WhenExhausted", extra_json_schema={"enum": list(Exhausted)})]


class TypeStepView(TypedDict):
    """A step of a saga type. ``timeout`` is in seconds. New sagas skip a ``retired`` step. Once the ``pivot`` has
    completed, nothing is undone.

    ``signal`` is present if the step waits for a signal: the JSON Schema of its value. ``children`` is present if the
    step starts sagas: the names of their types.
    """

    name: str
    undo: str | None
    max_retries: Count
    on_exhausted: _Policy
    timeout: Annotated[float, Meta(gt=0)]
    retired: bool
    pivot: bool
    signal: NotRequired[dict[str, Any]]
    children: NotRequired[list[str]]


class TypeView(TypedDict):
    """A saga type: its steps, the JSON Schema of its request, and its pauses.

    ``active`` says whether new sagas are accepted. ``paused`` says whether the whole type is paused, and ``reason``
    why. ``pauses`` lists all pauses: of the type, of its steps and of its sagas. ``failures`` counts the failed sagas
    in a row if the type declares ``auto_disable``. ``cancellable`` says whether callers may cancel. ``find_by`` has the
    names of the search keys, and their paths in the request.
    """

    type: str
    version: str
    description: str
    active: bool
    paused: bool
    reason: str | None
    failures: Count
    pauses: list[PauseView]
    cancellable: bool
    find_by: dict[str, str]
    request: dict[str, Any]
    steps: list[TypeStepView]


class TypeList(TypedDict):
    """All deployed saga types."""

    types: list[TypeView]


class InFlightGroup(TypedDict):
    """Sagas in flight that have the same ``blueprint`` and position.

    ``steps`` has one letter per step, for its status: P (PENDING), R (RUNNING), T (RETRYING), W (WAITING), C
    (COMPLETED), S (SKIPPED), F (FAILED), U (COMPENSATING), B (COMPENSATED) and X (COMPENSATION_FAILED). ``cursor`` is
    the number of the current step, from 0. ``oldest`` is the start of the oldest saga, and ``examples`` are up to three
    ids of the oldest.
    """

    blueprint: str
    status: Status
    cursor: Count
    steps: str
    count: Count
    oldest: Time
    examples: list[Id]


class InFlightView(TypedDict):
    """``groups`` of a type's sagas that are in flight or need an operator, and the ``blueprints`` that they were
    started with, by name. ``deployed`` names the blueprint of the release that answers, which the first page has, too.
    ``undeployed`` are types that are not deployed, and have sagas in flight. No other answer lists these types.

    A blueprint without ``request`` replaces a blueprint that is missing or was altered. ``cursor`` fetches the next
    page, which may have more sagas of the same groups.
    """

    blueprints: dict[str, dict[str, Any]]
    deployed: str | None
    groups: list[InFlightGroup]
    undeployed: list[str]
    cursor: str | None


class BreakerErrorView(TypedDict):
    """The error that a circuit breaker counted last, and the entry of the saga's audit trail with this error.

    ``message`` is ``None`` while the breaker is closed, and if the entry no longer has it, because the saga was purged.
    """

    type: str
    message: str | None
    at: Time
    saga_id: str
    seq: Count


class OpenBreakerView(TypedDict):
    """The circuit breaker of a step. ``failures`` counts failures in a row or, if the breaker is not closed, the
    failures that opened it."""

    type: str
    step: str
    state: _BreakerState
    failures: Count
    open_until: Time | None
    last_error: BreakerErrorView | None


class BreakerView(OpenBreakerView):
    """The circuit breaker of a step.

    ``failures`` counts failures in a row or, if the breaker is not closed, the failures that opened it. ``waiting``
    counts the sagas that wait for it, among the thousand sagas in flight that are due first. ``more_waiting``: there
    may be more.
    """

    waiting: Count
    more_waiting: bool


class BreakerList(TypedDict):
    """The circuit breakers of all steps that declare one."""

    breakers: list[BreakerView]


class TypeAttentionView(TypedDict):
    """How many sagas of a type are on the attention list. ``continuing`` of them continue on their own, without an
    operator. ``at_least``: there may be more."""

    type: str
    count: Count
    continuing: Count
    at_least: bool


class AttentionCountView(TypedDict):
    """How many sagas are on the attention list, and how many of each type. ``tag`` is another text once the list has
    changed."""

    count: Count
    at_least: bool
    types: list[TypeAttentionView]
    tag: str


class OpenCountView(TypedDict):
    """How many sagas of the service are in flight and need no operator.

    ``due`` are those that the supervisor looks at, now or later. ``waiting`` are those in a long wait; ``tag`` is
    another text once other sagas wait. ``paused`` are those that a pause has stopped. ``at_least``: there may be more.
    """

    due: Count
    waiting: Count
    paused: Count
    at_least: bool
    tag: str


class OverdueSagaView(TypedDict):
    """A saga that should have been recovered. It has been due since ``due_since``. ``lease_expires_at`` is when the
    lease of its worker expires; null if no worker holds it."""

    type: str
    saga_id: Id
    seq: Count
    status: Status
    due_since: Time
    lease_expires_at: Time | None


class OverdueView(TypedDict):
    """How many sagas have been due for two minutes, and some of them, the longest overdue first."""

    count: Count
    at_least: bool
    sagas: list[OverdueSagaView]


class TypePauseView(PauseView):
    """A pause of a saga type, of the step ``step`` or of the saga ``saga_id``: since when, by whom, and why. See
    ``PauseView``."""

    type: str


class LeftoverView(TypedDict):
    """How many messages in the dead-letter queue of a type no saga needs, about."""

    type: str
    count: Count


class LeftOutCountView(TypedDict):
    """How many entries of each list are left out because the overview would be too large."""

    types: Count
    overdue: Count
    breakers: Count
    pauses: Count
    messages: Count


class OverviewView(TypedDict):
    """What an operator has to know first, as the supervisor found it at the time ``at``. A run of the supervisor writes
    it if something has changed, and otherwise every ten minutes.

    ``breakers`` are those that are not closed. ``messages`` are dead letters that no saga needs: each run counts those
    of one type, and of the types that it found some for before. ``left_out`` counts what the lists leave out.
    """

    at: Time
    attention: AttentionCountView
    open: OpenCountView
    overdue: OverdueView
    breakers: list[OpenBreakerView]
    pauses: list[TypePauseView]
    messages: list[LeftoverView]
    left_out: LeftOutCountView


class TypeStats(TypedDict):
    """The number of sagas of a type per status: sagas in flight now, and sagas that ended after ``since``.

    ``at_least`` names the figures that are lower bounds: statuses, and fields of this object. Starts and ends per
    minute are averages over the last five minutes.
    """

    type: str
    paused: bool
    statuses: dict[str, Count]
    in_flight: Count
    attention: Count
    started_per_minute: Annotated[float, Meta(ge=0)]
    ended_per_minute: Annotated[float, Meta(ge=0)]
    oldest_in_flight: Time | None
    at_least: list[str]


class QueueStats(TypedDict):
    """The approximate number of messages in the queue of these steps; ``None`` if the queue cannot be read."""

    type: str
    steps: list[str]
    messages: Count | None


class StatsView(TypedDict):
    """The numbers of sagas at the time ``at``. Ended sagas count if they ended after ``since``. ``approximate`` says
    which figures are approximate, and why."""

    at: Time
    since: Time
    types: list[TypeStats]
    queues: list[QueueStats]
    breakers: list[BreakerView]
    approximate: list[str]
