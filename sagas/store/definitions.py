"""What operators decided about saga types: whether they take new sagas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sagas.core.times import epoch, iso
from sagas.store.faults import translated
from sagas.store.tables import Tables

__all__ = ["Activity", "Definitions"]

_GOOD_FOR = 5.0
"""Seconds for which an answer is kept: a start costs no read of its own."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Whether a saga type takes new sagas, and who decided so. ``changed_at`` in epoch seconds, 0 for never."""

    active: bool = True
    reason: str = ""
    changed_by: str = ""
    changed_at: float = 0.0


class Definitions:
    """The activity of each saga type, cached for a few seconds."""

    def __init__(self, tables: Tables, now: Callable[[], float]) -> None:
        self._tables = tables
        self._now = now
        self._cache: dict[str, tuple[float, Activity]] = {}

    def get(self, name: str, *, fresh: bool = False) -> Activity:
        """Return a saga type's activity; active when nobody decided otherwise.

        Args:
            name: the saga type.
            fresh: ask the table even if the answer is known.
        """
        known = self._cache.get(name)
        if known and not fresh and self._now() - known[0] < _GOOD_FOR:
            return known[1]
        activity = self._read(name)
        self._cache[name] = (self._now(), activity)
        return activity

    def _read(self, name: str) -> Activity:
        model = self._tables.definition
        with translated():
            try:
                item = model.get(_key(name), consistent_read=True)
            except model.DoesNotExist:
                return Activity()
        changed_at = epoch(item.changed_at) if item.changed_at else 0.0
        return Activity(bool(item.active), item.reason or "", item.changed_by or "", changed_at)

    def put(self, name: str, activity: Activity) -> None:
        """Store a saga type's activity."""
        item = self._tables.definition(
            saga_id=_key(name),
            active=activity.active,
            reason=activity.reason or None,
            changed_by=activity.changed_by or None,
            changed_at=iso(activity.changed_at),
        )
        with translated():
            item.save()
        self._cache.pop(name, None)


def _key(name: str) -> str:
    return f"definition#{name}"
