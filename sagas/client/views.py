"""What the API and the supervisor answer, as types. Times are ISO 8601 in UTC; ``None`` means it has not happened."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class ErrorView(TypedDict):
    """An error by its kind and its text; ``step`` is named where the error is not listed under its step."""

    type: str
    message: str
    step: NotRequired[str | None]


class StepView(TypedDict):
    """One step of a saga. ``next_attempt_at`` is known while it waits between two attempts."""

    name: str
    status: str
    attempts: int
    undo_attempts: int
    started_at: str | None
    ended_at: str | None
    result: Any
    error: ErrorView | None
    next_attempt_at: str | None


class ProgressView(TypedDict):
    """How far the current step says it is: ``fraction`` from 0 to 1, and when it said so."""

    step: str
    fraction: float
    message: str
    at: str


class Summary(TypedDict):
    """What lists show of a saga. ``why`` is there while the saga needs a person."""

    saga_id: str
    name: str
    version: str
    status: str
    in_doubt: list[str]
    recovery_attempts: int
    cancel_requested_at: str | None
    created_at: str
    updated_at: str
    links: dict[str, str]
    why: NotRequired[str]


class SagaView(Summary):
    """A saga with its request and its steps in order. ``error`` is the one that ended the forward way."""

    request: Any
    steps: list[StepView]
    error: ErrorView | None
    progress: ProgressView | None
    resolution: dict[str, Any] | None
    correlation_id: str


class Page(TypedDict):
    """Part of a list; ``cursor`` asks for the next part, ``None`` ends it."""

    sagas: list[Summary]
    cursor: str | None


class AuditEntry(TypedDict):
    """One committed change of a saga. ``seq`` counts from 1 without gaps; ``status`` is the saga's after it."""

    saga_id: str
    seq: int
    at: str
    saga: str
    action: str
    step: str | None
    attempt: int | None
    status: str
    actor: str
    correlation_id: str
    trace_id: str | None
    details: dict[str, Any]


class DefinitionView(TypedDict):
    """A saga type: its steps, the JSON Schema of its request, and whether sagas of it may be started.

    ``failures`` counts its failed sagas in a row, where that is counted; ``disabled_until`` is there while too many of
    them have it disabled.
    """

    name: str
    version: str
    description: str
    active: bool
    reason: str | None
    changed_by: str | None
    changed_at: str | None
    failures: int
    disabled_until: str | None
    request: dict[str, Any]
    steps: list[dict[str, Any]]


class RecoveryView(TypedDict):
    """What one look at stalled sagas did.

    ``untouched`` were alive after all, ``failed`` could not be recovered (the log says why), for ``left`` there was no
    time. ``saga_ids`` names the recovered ones, 100 at most.
    """

    recovered: int
    untouched: int
    failed: int
    left: int
    saga_ids: list[str]


class SweepView(TypedDict):
    """What a sweep of one saga type saw and did; its fields are those of ``sagas.engine.orphans.SweepReport``."""

    saga: str
    prefix: str
    dry_run: bool
    action: str
    bucket: str
    listed: int
    orphans: int
    deleted: int
    archived: int
    handled: int
    unknown: int
    foreign: int
    errors: int
    sample: dict[str, list[str]]
    finished: bool
    start_after: str
    stopped: str
    error: str
