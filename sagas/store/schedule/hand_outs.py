"""How far due sagas were handed out to workers: one item per shard, under a key that no saga can have.

A *round* scans a shard of the index from its beginning, page by page, over several runs. Sagas that it has passed are
not handed out again before the round has ended, unless the queue is empty.
"""

from __future__ import annotations

from dataclasses import dataclass

from sagas.core.text import iso
from sagas.store.control.mapping import time_of
from sagas.store.index.listing import IndexPosition
from sagas.store.outcomes import Refused
from sagas.store.tables import Tables


@dataclass(frozen=True, slots=True)
class HandOut:
    """Progress of the latest round over a shard. Times in epoch seconds, 0 for never.

    Args:
        upto: the last position that was handed out.
        until: when the round ends.
        moved_at: when that position was noted.
        by: a nonce of the run that noted it, so that it recognizes its own note.
    """

    upto: IndexPosition | None = None
    until: float = 0.0
    moved_at: float = 0.0
    by: str = ""


class HandOuts:
    """Reads and moves the hand-outs, by the index key of the shard."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, shard: str) -> HandOut:
        """Return how far a shard was handed out, by a consistent read; an empty hand-out if it never was."""
        model = self._tables.hand_out
        try:
            item = model.get(_key(shard), consistent_read=True)
        except model.DoesNotExist:
            return HandOut()
        upto = IndexPosition(item.last_due, item.last_id)
        return HandOut(upto, time_of(item.until), time_of(item.moved_at), item.by)

    def move(self, shard: str, seen: HandOut, after: HandOut) -> bool:
        """Note that more of a shard is handed out; ``False`` if another run noted something first."""
        model, upto = self._tables.hand_out, after.upto
        if upto is None:
            raise ValueError("after: upto is missing")
        as_seen = model.by == seen.by if seen.by else model.by.does_not_exist()
        values = (
            (model.last_due, upto.sort),
            (model.last_id, upto.saga_id),
            (model.until, iso(after.until)),
            (model.moved_at, iso(after.moved_at)),
            (model.by, after.by),
        )
        try:
            model(_key(shard)).update(actions=[name.set(value) for name, value in values], condition=as_seen)
        except Refused:
            return self.get(shard) == after  # this call's own write, if its response was lost
        return True


def _key(shard: str) -> str:
    return f"due#{shard}"
