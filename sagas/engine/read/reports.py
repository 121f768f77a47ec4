"""The reports of the supervisor's tasks. See ``answers``."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from sagas.engine.read.answers import Count, Id, Status, Time


class DueSagaView(TypedDict):
    """A saga that is due for recovery. ``attempts``: how often it has stalled since its last progress."""

    saga_id: Id
    type: str
    status: Status
    attempts: Count
    due_since: Time


class RecoveryView(TypedDict):
    """The result of one run that recovered stalled sagas.

    ``given_up`` sagas had stalled too often: they are undone, or wait for an operator. ``untouched`` sagas had not
    stalled. ``failed`` sagas could not be recovered; the log says why. There was no time
    for the ``remaining`` ones. ``saga_ids`` lists up to 100 of the recovered sagas. In a dry run, nothing is
    recovered, and ``due`` lists the sagas that are due, the longest overdue first.
    """

    recovered: int
    given_up: int
    untouched: int
    failed: int
    remaining: int
    saga_ids: list[str]
    due: NotRequired[list[DueSagaView]]


class PurgeView(TypedDict):
    """The result of one run of purges.

    ``untouched`` sagas have a longer retention now, or a worker holds them. ``failed`` sagas could not be purged; the
    log says why. There was no time for the ``remaining`` sagas.
    """

    purged: int
    untouched: int
    failed: int
    remaining: int


class BrokenTrailView(TypedDict):
    """A saga whose audit trail differs from what was written."""

    type: str
    saga_id: Id


class SampleView(TypedDict):
    """The result of verifying a sample of audit trails. The ``failed`` audit trails could not be read."""

    verified: int
    failed: int
    broken: list[BrokenTrailView]


class SweepRoundView(TypedDict):
    """The scheduled sweep of a saga type: its current or last round.

    ``action`` is what the sweep does with orphans. ``counts`` has its figures so far. ``stopped`` says why a part of
    the round has stopped. ``began_at`` is null until the first round begins, ``finished_at`` until it ends.
    """

    type: str
    prefix: str
    action: str
    round: Count
    began_at: Time | None
    finished_at: Time | None
    under_way: bool
    counts: dict[str, int]
    stopped: str


class SweepView(TypedDict):
    """The result of a sweep of one saga type. Its fields are those of ``sagas.engine.sweep.orphans.SweepReport``."""

    type: str
    prefix: str
    dry_run: bool
    action: str
    bucket: str
    listed: int
    young: int
    kept: int
    orphans: int
    unreferenced: int
    unknown: int
    foreign: int
    deleted: int
    archived: int
    handled: int
    gone: int
    left: int
    errors: int
    sample: dict[str, list[str]]
    finished: bool
    start_after: str
    stopped: str
    error: str
