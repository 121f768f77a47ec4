"""What the supervisor answers: the reports of its tasks. See ``answers``."""

from __future__ import annotations

from typing import TypedDict

from sagas.engine.read.answers import Count, Id, Time


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


class PurgeView(TypedDict):
    """What one run of purges did.

    ``untouched`` are kept longer by now, or something is at work on them; ``failed`` could not be purged (the log says
    why); for ``left`` there was no time.
    """

    purged: int
    untouched: int
    failed: int
    left: int


class BrokenTrailView(TypedDict):
    """A saga whose audit trail is not what was written."""

    type: str
    saga_id: Id


class SampleView(TypedDict):
    """What verifying a sample of audit trails found; ``failed`` ones could not be looked at."""

    verified: int
    failed: int
    broken: list[BrokenTrailView]


class SweepRoundView(TypedDict):
    """How the sweep of a saga type by its schedule stands: the round that is under way, or the last one.

    ``action`` is what happens to orphans; ``counts`` are those of a sweep, as far as the round has come; ``stopped``
    says why a part of it does not go on. ``began_at`` and ``finished_at`` are null before the first round began, or
    ended.
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
    """What a sweep of one saga type saw and did; its fields are those of ``sagas.engine.sweep.orphans.SweepReport``."""

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
