"""Whether saga types take new sagas: what operators decided, and what failures in a row did."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sagas.core.times import epoch, iso
from sagas.store.mapping import time_of
from sagas.store.outcomes import Refused
from sagas.store.tables import Tables

FOREVER = 253_370_764_800.0
"""Epoch seconds that never come, in the year 9999: starts are refused until an operator enables the type."""
_GOOD_FOR = 5.0
"""Seconds for which an answer is kept: a start costs no read of its own."""


@dataclass(frozen=True, slots=True, order=True)
class FailedSaga:
    """A saga that failed, and when (epoch seconds)."""

    at: float
    saga_id: str

    @property
    def text(self) -> str:
        """How it is stored: what sorts by time."""
        return f"{iso(self.at)} {self.saga_id}"

    @classmethod
    def parse(cls, text: str) -> FailedSaga:
        """Read what :attr:`text` wrote."""
        at, _, saga_id = text.partition(" ")
        return cls(epoch(at), saga_id)


@dataclass(frozen=True, slots=True)
class Activity:
    """Whether a saga type takes new sagas, and why not. Times are epoch seconds; 0 means never.

    Args:
        active: what an operator decided.
        reason: why.
        changed_by: who it was.
        changed_at: when.
        disabled_until: starts are refused until then because too many sagas failed; :data:`FOREVER`: by an operator
            only are they accepted again.
        failures: failed sagas that may count, oldest first.
    """

    active: bool = True
    reason: str = ""
    changed_by: str = ""
    changed_at: float = 0.0
    disabled_until: float = 0.0
    failures: tuple[FailedSaga, ...] = ()


class Activities:
    """The activity of each saga type, cached for a few seconds."""

    def __init__(self, tables: Tables, now: Callable[[], float]) -> None:
        self._tables = tables
        self._now = now
        self._cache: dict[str, tuple[float, Activity]] = {}

    def get(self, name: str, *, fresh: bool = False) -> Activity:
        """Return a saga type's activity; active when no operator decided otherwise.

        Args:
            name: the saga type.
            fresh: ask the table even if the answer is known.
        """
        known = self._cache.get(name)
        if known and not fresh and self._now() - known[0] < _GOOD_FOR:
            return known[1]
        model = self._tables.definition
        try:
            activity = _activity_of(model.get(_key(name), consistent_read=True))
        except model.DoesNotExist:
            activity = Activity()
        self._cache[name] = (self._now(), activity)
        return activity

    def put(self, name: str, activity: Activity) -> None:
        """Store what an operator decided. Failures that were counted are forgotten."""
        item = self._tables.definition(
            saga_id=_key(name),
            active=activity.active,
            reason=activity.reason or None,
            changed_by=activity.changed_by or None,
            changed_at=iso(activity.changed_at),
        )
        item.save()
        self._cache.pop(name, None)

    def count_failure(self, name: str, failed: FailedSaga) -> Activity | None:
        """Add a failed saga, atomically and once however often it is added.

        Returns:
            The activity after it; ``None`` while starts are refused, when failures do not count.

        Raises:
            Unavailable: the store is out of reach.
        """
        model = self._tables.definition
        return self._update(name, [model.failures.add({failed.text})], self._enabled(failed.at))

    def forget_failures(self, name: str, failures: Iterable[FailedSaga]) -> None:
        """Remove failed sagas that count no more."""
        model, texts = self._tables.definition, {failed.text for failed in failures}
        if texts:
            self._update(name, [model.failures.delete(texts)], model.saga_id.exists())

    def disable(self, name: str, until: float, last: FailedSaga) -> bool:
        """Refuse starts until then, unless an operator or another worker was faster.

        Args:
            name: the saga type.
            until: epoch seconds.
            last: the failed saga that was one too many; it must still count.

        Returns:
            Whether starts are refused now by this call.
        """
        model = self._tables.definition
        counts = self._enabled(last.at) & model.failures.contains(last.text)
        if self._update(name, [model.disabled_until.set(iso(until))], counts):
            return True
        return self.get(name, fresh=True).disabled_until == round(until, 3)  # my own write, whose answer was lost

    def _enabled(self, now: float) -> Any:
        model, yes = self._tables.definition, True
        by_hand = model.active.does_not_exist() | (model.active == yes)
        return by_hand & (model.disabled_until.does_not_exist() | (model.disabled_until <= iso(now)))

    def _update(self, name: str, actions: list[Any], condition: Any) -> Activity | None:
        item = self._tables.definition(_key(name))
        try:
            item.update(actions=actions, condition=condition)
        except Refused:
            return None
        finally:
            self._cache.pop(name, None)
        return _activity_of(item)


def _activity_of(item: Any) -> Activity:
    return Activity(
        active=item.active is not False,
        reason=item.reason or "",
        changed_by=item.changed_by or "",
        changed_at=time_of(item.changed_at),
        disabled_until=time_of(item.disabled_until),
        failures=tuple(sorted(FailedSaga.parse(text) for text in item.failures or ())),
    )


def _key(name: str) -> str:
    return f"definition#{name}"
