"""Which objects are orphans. Whatever is in doubt is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from sagas.authoring.context import object_key
from sagas.core.states import SagaStatus
from sagas.engine.sweep.references import unnamed
from sagas.errors import InvalidRequest
from sagas.store.index.summaries import SagaSummaries, SagaSummary
from sagas.store.journal.journal import Journal
from sagas.store.journal.objects import Listed

_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_UNDONE = frozenset({SagaStatus.COMPENSATED, SagaStatus.CANCELLED, SagaStatus.COMPENSATION_FAILED})
"""Over, and meant to leave nothing behind. A COMPLETED saga owns what it made, and so does a FAILED one, of which
nothing was undone: who wants that cleared away has it compensated."""

_SHARE = 0.5
"""Of a page's objects. Sagas mostly succeed, so most objects are owned. Where most are not, something else is wrong."""
_FEW = 20
"""Objects on a page below which a share says nothing."""

_SAMPLE = {"orphans": 30, "unreferenced": 20, "unknown": 15, "foreign": 15, "errors": 20}
"""How many keys of each kind a report shows: 100 in all."""

_READ = 100
"""Journal entries that are read at a time: what one request takes. More would not be held at once."""

COUNTS: tuple[str, ...] = (
    "listed", "young", "kept", "orphans", "unreferenced", "unknown", "foreign",
    "deleted", "archived", "handled", "gone", "left", "errors",
)  # fmt: skip
"""What a report counts. Every object that was listed is of one kind: young, kept, orphans, unreferenced, unknown or
foreign; every orphan and every unreferenced one came to one end: deleted, handled, gone, left or errors."""


class Kind(StrEnum):
    """What an object is to a sweep."""

    YOUNG = "young"
    KEPT = "kept"
    ORPHAN = "orphans"
    UNREFERENCED = "unreferenced"
    UNKNOWN = "unknown"
    FOREIGN = "foreign"


@dataclass(slots=True)
class SweepReport:
    """What the sweep of one saga type saw and did.

    Args:
        saga: the saga type.
        prefix: what was swept.
        dry_run: nothing was touched.
        action: ``delete``, ``archive``, ``report``, or ``on_orphans`` where the class has its own.
        bucket: the bucket's name.
        listed: objects seen; each is of one of the kinds that follow.
        young: younger than ``min_age``, whosever they are.
        kept: they belong to their sagas.
        orphans: those of sagas that are over and undone.
        unreferenced: those of COMPLETED sagas which neither request nor results name.
        unknown: of sagas that do not exist here; never touched.
        foreign: whose key no saga of this type made; never touched.
        deleted: orphans and unreferenced ones deleted, those archived before included.
        archived: those copied to the archive.
        handled: those handed to ``on_orphans``, which returned.
        gone: those that another sweep had removed meanwhile.
        left: those that were only to be reported.
        errors: those left because S3 or ``on_orphans`` failed.
        sample: some of the keys, by kind; 100 at most.
        finished: the end of the prefix was reached.
        start_after: the key after which the next run goes on.
        stopped: why the sweep stopped before it touched a page; one that touches nothing only says so and goes on.
        error: what ended it early.
    """

    saga: str
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
        """Count an object, and keep its key as an example if its saga is not known to need it."""
        self.listed += 1
        setattr(self, kind.value, getattr(self, kind.value) + 1)
        if kind not in (Kind.KEPT, Kind.YOUNG):
            self._show(kind.value, key)

    def counts(self) -> dict[str, int]:
        """What was counted, by name."""
        return {name: getattr(self, name) for name in COUNTS}

    def fail(self, errors: Mapping[str, str]) -> None:
        """Count orphans that could not be dealt with, by key, with the reason."""
        self.errors += len(errors)
        for key, reason in errors.items():
            self._show("errors", f"{key}: {reason}")

    def _show(self, kind: str, key: str) -> None:
        shown = self.sample.setdefault(kind, [])
        if len(shown) < _SAMPLE[kind]:
            shown.append(key)


def saga_id_of(key: str, prefix: str) -> str | None:
    """Return the saga's id in a key that :func:`object_key` made under ``prefix``; ``None`` for any other key."""
    saga_id, _, filename = key.removeprefix(prefix).partition("/")
    try:
        ours = _ID.fullmatch(saga_id) is not None and object_key(prefix, saga_id, filename) == key
    except InvalidRequest:
        return None
    return saga_id if ours else None


def kind_of(saga: str, summary: SagaSummary | None) -> Kind:
    """Tell what the old objects of a saga are to a sweep."""
    if summary is None:
        return Kind.UNKNOWN
    if summary.saga != saga:
        return Kind.FOREIGN
    undone = summary.status in _UNDONE and not summary.attention
    return Kind.ORPHAN if undone else Kind.KEPT


def _may_have_more(summary: SagaSummary, before: float) -> bool:
    """Whether a saga may have stored more than it names: it has succeeded, and nothing acts for it any more."""
    succeeded = summary.status is SagaStatus.COMPLETED and summary.settled_at < before
    return succeeded and bool(summary.results) and not summary.attention


def too_many(orphans: int, listed: int) -> bool:
    """Whether so many of a page's objects are orphans that something else must be wrong."""
    return listed >= _FEW and orphans > _SHARE * listed


class Verdict(NamedTuple):
    """An object and what it is."""

    listed: Listed
    kind: Kind


@dataclass(frozen=True, slots=True)
class Judge:
    """Tells orphans from other objects.

    Args:
        saga: the saga type that is swept.
        prefix: of its objects.
        summaries: asked about each saga once, and about those of old objects only.
        entries: asked what COMPLETED sagas have stored; ``None`` leaves their objects alone.
    """

    saga: str
    prefix: str
    summaries: SagaSummaries
    entries: Journal | None = None

    def judge(
        self, listed: Sequence[Listed], before: float, in_time: Callable[[], bool] = lambda: True
    ) -> list[Verdict]:
        """Return what the objects of a page are, in their order; the last ones are missing when the time is up.
        ``before``: epoch seconds; an object that is no older is young, whosever it is, and what a saga that is over
        stored is not looked into before its end, too, is as old."""
        owners = [saga_id_of(one.key, self.prefix) for one in listed]
        asked = {owner for one, owner in zip(listed, owners, strict=True) if owner and one.modified_at < before}
        found = self.summaries.of(asked) if asked else {}
        verdicts, files = list[Verdict](), dict[str, list[str]]()
        for one, owner in zip(listed, owners, strict=True):
            if owner is None or one.modified_at >= before:
                verdicts.append(Verdict(one, Kind.FOREIGN if owner is None else Kind.YOUNG))
                continue
            summary = found.get(owner)
            kind = kind_of(self.saga, summary)
            verdicts.append(Verdict(one, kind))
            if kind is Kind.KEPT and summary is not None and _may_have_more(summary, before):
                files.setdefault(owner, []).append(one.key)
        if self.entries is None or not files:
            return verdicts
        unnamed_keys, undecided = self._unnamed(self.entries, files, found, in_time)
        decided = owners.index(undecided) if undecided else len(verdicts)
        return [
            Verdict(one, Kind.UNREFERENCED if one.key in unnamed_keys else kind) for one, kind in verdicts[:decided]
        ]

    def _unnamed(
        self,
        store: Journal,
        files: Mapping[str, Sequence[str]],
        found: Mapping[str, SagaSummary],
        in_time: Callable[[], bool],
    ) -> tuple[set[str], str]:
        """The keys that their sagas do not name, and the first saga for which there was no time.

        Where an entry is missing nothing is known to be unnamed.
        """
        keys = set[str]()
        for some in _by_the_hundred({saga_id: found[saga_id].results for saga_id in files}):
            if not in_time():
                return keys, next(iter(some))
            read = store.entries_of((saga_id, seq) for saga_id, seqs in some.items() for seq in seqs)
            for saga_id, seqs in some.items():
                if not in_time():
                    return keys, saga_id
                entries = read.get(saga_id, {})
                if len(entries) == len(seqs):
                    folder = f"{self.prefix}{saga_id}/"
                    names = {key.removeprefix(folder) for key in files[saga_id]}
                    keys |= {folder + name for name in unnamed(saga_id, names, list(entries.values()), store.load)}
        return keys, ""


def _by_the_hundred(sagas: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, tuple[int, ...]]]:
    """The sagas, in their order, in groups of about a hundred entries each."""
    group, size = dict[str, tuple[int, ...]](), 0
    for saga_id, seqs in sagas.items():
        if group and size + len(seqs) > _READ:
            yield group
            group, size = {}, 0
        group[saga_id] = seqs
        size += len(seqs)
    if group:
        yield group
