"""Sagas of a type that failed in a row, and the time until which the library refuses new sagas because of them. From a
pause of starts until an operator resumes the type, the index of open sagas has the streak under a key of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from sagas.core.text import epoch, iso
from sagas.store.connection import Refused
from sagas.store.control.mapping import STOPPED, time_of
from sagas.store.tables import Tables

FOREVER = 253_370_764_800.0
"""Epoch seconds in the year 9999: starts are refused until an operator resumes the type."""


class FailedSaga(Struct, frozen=True, order=True):
    """A saga that failed, and when (epoch seconds)."""

    at: float
    saga_id: str

    @property
    def text(self) -> str:
        """The stored form, which sorts by time."""
        return f"{iso(self.at)} {self.saga_id}"

    @classmethod
    def parse(cls, text: str) -> FailedSaga:
        """Parse the stored form; see :attr:`text`."""
        at, _, saga_id = text.partition(" ")
        return cls(epoch(at), saga_id)


class Streak(Struct, frozen=True):
    """The sagas of a type that failed in a row.

    Args:
        failures: failed sagas that may count, oldest first.
        paused_until: epoch seconds until which starts are refused. 0: starts were never refused. :data:`FOREVER`: they
            are refused until an operator resumes the type.
    """

    failures: tuple[FailedSaga, ...] = ()
    paused_until: float = 0.0


class Streaks:
    """The streak of each saga type that declares ``auto_disable``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, name: str) -> Streak:
        """Return the streak of a saga type, by a consistent read."""
        model = self._tables.streak
        try:
            return _streak_of(model.get(_key(name), consistent_read=True))
        except model.DoesNotExist:
            return Streak()

    def forget(self, name: str) -> None:
        """Forget all failures of a saga type, and accept starts again."""
        model = self._tables.streak
        attributes = (model.failures, model.paused_until, model.open_shard, model.due)
        self._update(name, [attribute.remove() for attribute in attributes], model.saga_id.exists())

    def count(self, name: str, failed: FailedSaga) -> Streak | None:
        """Add a failed saga, atomically, and only once if repeated. Returns the streak afterwards; ``None`` while
        starts are refused, when failures do not count."""
        return self._update(name, [self._tables.streak.failures.add({failed.text})], self._counts(failed.at))

    def forget_failures(self, name: str, failures: Iterable[FailedSaga]) -> None:
        """Remove failed sagas that no longer count."""
        model = self._tables.streak
        texts = {failed.text for failed in failures}
        if texts:
            self._update(name, [model.failures.delete(texts)], model.saga_id.exists())

    def pause(self, name: str, until: float, last: FailedSaga) -> bool:
        """Pause starts, unless an operator or another worker has changed the streak. ``until``: epoch seconds. Returns
        whether this call has paused them."""
        model = self._tables.streak
        counts = self._counts(last.at) & model.failures.contains(last.text)
        paused = [model.paused_until.set(iso(until)), model.open_shard.set(STOPPED), model.due.set(iso(until))]
        if self._update(name, paused, counts):
            return True
        return self.get(name).paused_until == round(until, 3)  # an earlier try may have succeeded

    def _counts(self, now: float) -> Any:
        model = self._tables.streak
        return model.paused_until.does_not_exist() | (model.paused_until <= iso(now))

    def _update(self, name: str, actions: list[Any], condition: Any) -> Streak | None:
        item = self._tables.streak(_key(name))
        try:
            item.update(actions=actions, condition=condition)
        except Refused:
            return None
        return _streak_of(item)


def _streak_of(item: Any) -> Streak:
    failures = sorted(FailedSaga.parse(text) for text in item.failures or ())
    return Streak(tuple(failures), time_of(item.paused_until))


def streak_of(key: str) -> str:
    """Return the saga type of a streak's key; empty if the key is not a streak's."""
    kind, _, name = key.partition("#")
    return name if kind == "streak" else ""


def _key(name: str) -> str:
    return f"streak#{name}"
