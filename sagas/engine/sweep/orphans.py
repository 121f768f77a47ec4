"""Decides which objects are orphans. Objects in doubt are kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, field

from sagas.authoring.context import object_key
from sagas.core.states import SagaStatus
from sagas.engine.sweep.references import unnamed
from sagas.errors import InvalidRequest
from sagas.store.index.summaries import SagaSummaries, SagaSummary
from sagas.store.journal.journal import Journal
from sagas.store.journal.objects import Listed

_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_UNDONE = frozenset({SagaStatus.COMPENSATED, SagaStatus.CANCELLED, SagaStatus.COMPENSATION_FAILED})
"""Statuses of ended sagas that should leave nothing behind. COMPLETED sagas own their objects, and so do FAILED sagas,
because nothing was undone. Compensating a saga lets sweeps delete its objects."""

_SHARE = 0.5
"""Largest plausible share of orphans on a page. Most sagas succeed, so most objects should be owned."""
_FEW = 20
"""If a page has fewer objects, its share of orphans says nothing."""

_SAMPLE = {"orphans": 30, "unreferenced": 20, "unknown": 15, "foreign": 15, "errors": 20}
"""The number of keys of each kind that a report lists, 100 in all."""

_READ = 100
"""The number of journal entries that are read and held at a time, which is the limit of one request."""

COUNTS: tuple[str, ...] = (
    "listed", "young", "kept", "orphans", "unreferenced", "unknown", "foreign",
    "deleted", "archived", "handled", "gone", "left", "errors",
)  # fmt: skip
"""The counters of a report. Each listed object is of one kind: young, kept, orphans, unreferenced, unknown or foreign.
Each orphan and each unreferenced object has one outcome: deleted, handled, gone, left or errors."""


class Kind(StrEnum):
    """How a sweep classifies an object."""

    YOUNG = "young"
    KEPT = "kept"
    ORPHAN = "orphans"
    UNREFERENCED = "unreferenced"
    UNKNOWN = "unknown"
    FOREIGN = "foreign"


class SweepReport(Struct):
    """Result of sweeping one saga type.

    Args:
        type: the saga type.
        prefix: the prefix that was swept.
        dry_run: whether the sweep had to change nothing.
        action: ``delete``, ``archive``, ``report``, or ``on_orphans`` if the class defines it.
        bucket: the bucket's name.
        listed: objects that were listed. Each of them is of one of the next six kinds.
        young: objects younger than ``min_age``, whatever their saga.
        kept: objects that belong to their sagas.
        orphans: objects of sagas that have ended and were undone.
        unreferenced: objects of COMPLETED sagas that neither the request nor the results name.
        unknown: objects of sagas that this service does not have; never touched.
        foreign: objects whose key no saga of this type has made; never touched.
        deleted: orphans and unreferenced objects that were deleted, including archived ones.
        archived: objects copied to the archive.
        handled: objects that were passed to ``on_orphans``, if it returned.
        gone: objects that another sweep had removed before.
        left: orphans and unreferenced objects that were only reported.
        errors: objects that remain because S3 or ``on_orphans`` failed.
        sample: some keys by kind, at most 100.
        finished: whether the end of the prefix was reached.
        start_after: the key after which the next run continues.
        stopped: why the sweep stopped before it changed a page. A sweep that changes nothing only records the reason,
            and continues.
        error: the error that ended the sweep early.
    """

    type: str
    prefix: str
    dry_run: bool = False
    action: str = ""
    bucket: str = ""
    listed: int = 0
    young: int = 0
    kept: int = 0
    orphans: int = 0
    unreferenced: int = 0
    unknown: int = 0
    foreign: int = 0
    deleted: int = 0
    archived: int = 0
    handled: int = 0
    gone: int = 0
    left: int = 0
    errors: int = 0
    sample: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    finished: bool = False
    start_after: str = ""
    stopped: str = ""
    error: str = ""

    def count(self, kind: Kind, key: str) -> None:
        """Count an object. Add an object's key to the sample unless the object is young or kept."""
        self.listed += 1
        setattr(self, kind.value, getattr(self, kind.value) + 1)
        if kind not in (Kind.KEPT, Kind.YOUNG):
            self._show(kind.value, key)

    def counts(self) -> dict[str, int]:
        """Return all counters by name."""
        return {name: getattr(self, name) for name in COUNTS}

    def fail(self, errors: Mapping[str, str]) -> None:
        """Count objects that could not be handled. ``errors``: reasons by key."""
        self.errors += len(errors)
        for key, reason in errors.items():
            self._show("errors", f"{key}: {reason}")

    def _show(self, kind: str, key: str) -> None:
        keys = self.sample.setdefault(kind, [])
        if len(keys) < _SAMPLE[kind]:
            keys.append(key)


def saga_id_of(key: str, prefix: str) -> str | None:
    """Return the saga's id if :func:`object_key` has made the key under ``prefix``; ``None`` for any other key."""
    saga_id, _, filename = key.removeprefix(prefix).partition("/")
    try:
        ours = _ID.fullmatch(saga_id) is not None and object_key(prefix, saga_id, filename) == key
    except InvalidRequest:
        return None
    return saga_id if ours else None


def kind_of(saga: str, summary: SagaSummary | None) -> Kind:
    """Classify objects of a saga that are not young."""
    if summary is None:
        return Kind.UNKNOWN
    if summary.saga != saga:
        return Kind.FOREIGN
    undone = summary.status in _UNDONE and not summary.attention
    return Kind.ORPHAN if undone else Kind.KEPT


def _may_have_more(summary: SagaSummary, before: float) -> bool:
    """Whether a saga may have unreferenced objects: it has succeeded, and nothing acts for it any more."""
    succeeded = summary.status is SagaStatus.COMPLETED and summary.settled_at < before
    return succeeded and bool(summary.results) and not summary.attention


def too_many(orphans: int, listed: int) -> bool:
    """Whether a page has so many orphans that the cause must be a mistake."""
    return listed >= _FEW and orphans > _SHARE * listed


class Verdict(NamedTuple):
    """An object and its kind."""

    listed: Listed
    kind: Kind


class Judge(Struct, frozen=True):
    """Classifies objects.

    Args:
        saga: the saga type that is swept.
        prefix: the prefix of the type's objects.
        summaries: the sagas' statuses. A status is read once, and only if the saga has objects that are not young.
        entries: the stored results of COMPLETED sagas. If ``None``, all their objects are kept.
    """

    saga: str
    prefix: str
    summaries: SagaSummaries
    entries: Journal | None = None

    def judge(
        self, listed: Sequence[Listed], before: float, in_time: Callable[[], bool] = lambda: True
    ) -> list[Verdict]:
        """Classify the objects of a page, in their order. If time runs out, the last ones are missing. Objects modified
        after ``before`` (epoch seconds) are young. References are checked only for sagas that ended earlier."""
        owners = [saga_id_of(item.key, self.prefix) for item in listed]
        saga_ids = {owner for item, owner in zip(listed, owners, strict=True) if owner and item.modified_at < before}
        summaries = self.summaries.of(saga_ids) if saga_ids else {}
        verdicts = list[Verdict]()
        files = dict[str, list[str]]()
        for item, owner in zip(listed, owners, strict=True):
            if owner is None or item.modified_at >= before:
                verdicts.append(Verdict(item, Kind.FOREIGN if owner is None else Kind.YOUNG))
                continue
            summary = summaries.get(owner)
            kind = kind_of(self.saga, summary)
            verdicts.append(Verdict(item, kind))
            if kind is Kind.KEPT and summary is not None and _may_have_more(summary, before):
                files.setdefault(owner, []).append(item.key)
        if self.entries is None or not files:
            return verdicts
        unnamed_keys, undecided = self._unnamed(self.entries, files, summaries, in_time)
        decided = owners.index(undecided) if undecided else len(verdicts)
        return [
            Verdict(item, Kind.UNREFERENCED if item.key in unnamed_keys else kind) for item, kind in verdicts[:decided]
        ]

    def _unnamed(
        self,
        store: Journal,
        files: Mapping[str, Sequence[str]],
        summaries: Mapping[str, SagaSummary],
        in_time: Callable[[], bool],
    ) -> tuple[set[str], str]:
        """Return the keys that their sagas do not name, and the first saga that was not checked in time.

        If a saga lacks an entry, all its keys count as named.
        """
        keys = set[str]()
        for group in _by_the_hundred({saga_id: summaries[saga_id].results for saga_id in files}):
            if not in_time():
                return keys, next(iter(group))
            stored = store.entries_of((saga_id, seq) for saga_id, seqs in group.items() for seq in seqs)
            for saga_id, seqs in group.items():
                if not in_time():
                    return keys, saga_id
                entries = stored.get(saga_id, {})
                if len(entries) == len(seqs):
                    folder = f"{self.prefix}{saga_id}/"
                    names = {key.removeprefix(folder) for key in files[saga_id]}
                    keys |= {folder + name for name in unnamed(saga_id, names, list(entries.values()), store.load)}
        return keys, ""


def _by_the_hundred(sagas: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield the sagas in their order, in groups of up to a hundred entries."""
    group = dict[str, tuple[int, ...]]()
    size = 0
    for saga_id, seqs in sagas.items():
        if group and size + len(seqs) > _READ:
            yield group
            group = {}
            size = 0
        group[saga_id] = seqs
        size += len(seqs)
    if group:
        yield group
