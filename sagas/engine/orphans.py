"""Which objects are orphans. Whatever is in doubt is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from sagas.authoring.context import object_key
from sagas.core.states import SagaStatus
from sagas.errors import InvalidRequest
from sagas.store.checkpoints import SagaSummary
from sagas.store.objects import Listed

_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_UNDONE = frozenset({SagaStatus.COMPENSATED, SagaStatus.CANCELLED, SagaStatus.COMPENSATION_FAILED})
"""Over, and meant to leave nothing behind. A COMPLETED saga owns what it made, and so does a FAILED one, of which
nothing was undone: who wants that cleared away has it compensated."""

_SHARE = 0.5
"""Of a page's objects. Sagas mostly succeed, so most objects are owned. Where most are not, something else is wrong."""
_FEW = 20
"""Objects on a page below which a share says nothing."""

_SAMPLE = {"orphans": 40, "unknown": 20, "foreign": 20, "errors": 20}
"""How many keys of each kind a report shows: 100 in all."""


class SummaryStore(Protocol):
    """How sagas stand; see ``sagas.store.checkpoints.SagaSummaries``."""

    def of(self, saga_ids: Iterable[str]) -> dict[str, SagaSummary]: ...


class Kind(StrEnum):
    """What an object is to a sweep."""

    KEPT = "kept"
    ORPHAN = "orphans"
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
        listed: objects seen.
        orphans: those of sagas that are over and undone, and older than ``min_age``.
        deleted: orphans deleted, those archived before included.
        archived: orphans copied under ``archive/``.
        handled: orphans handed to ``on_orphans``, which returned.
        unknown: objects of sagas that do not exist here; never touched.
        foreign: objects whose key no saga of this type made; never touched.
        errors: orphans left because S3 or ``on_orphans`` failed.
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
    orphans: int = 0
    deleted: int = 0
    archived: int = 0
    handled: int = 0
    unknown: int = 0
    foreign: int = 0
    errors: int = 0
    sample: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    finished: bool = False
    start_after: str = ""
    stopped: str = ""
    error: str = ""

    def count(self, kind: Kind, key: str) -> None:
        """Count an object, and keep its key as an example."""
        if kind is not Kind.KEPT:
            setattr(self, kind.value, getattr(self, kind.value) + 1)
            self._show(kind.value, key)

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
    """Tell what the old objects of a saga are to a sweep.

    Args:
        saga: the type that is swept.
        summary: of the saga whose id is in the key; ``None`` if it does not exist.
    """
    if summary is None:
        return Kind.UNKNOWN
    if summary.saga != saga:
        return Kind.FOREIGN
    undone = summary.status in _UNDONE and not summary.attention
    return Kind.ORPHAN if undone else Kind.KEPT


def too_many(orphans: int, listed: int) -> bool:
    """Whether so many of a page's objects are orphans that something else must be wrong."""
    return listed >= _FEW and orphans > _SHARE * listed


def inspect(report: SweepReport, listed: Sequence[Listed], before: float, summaries: SummaryStore) -> list[Listed]:
    """Return the orphans among the objects of a page, and count what the page has.

    Args:
        report: takes the counts, and names saga type and prefix.
        listed: the objects.
        before: epoch seconds; an object that is no older is left out, whosever it is.
        summaries: asked about each saga once, and about those of old objects only.

    Raises:
        Unavailable: the table is out of reach.
    """
    owners = {one.key: saga_id_of(one.key, report.prefix) for one in listed}
    old = [one for one in listed if owners[one.key] is None or one.modified_at < before]
    asked = {owner for one in old if (owner := owners[one.key])}
    found = summaries.of(asked) if asked else {}
    orphans: list[Listed] = []
    for one in old:
        owner = owners[one.key]
        kind = kind_of(report.saga, found.get(owner)) if owner else Kind.FOREIGN
        report.count(kind, one.key)
        orphans += [one] if kind is Kind.ORPHAN else []
    report.listed += len(listed)
    return orphans
