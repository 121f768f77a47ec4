"""The supervisor's scan positions: for each shard, the position up to which its due sagas were sent to workers.

There is one item per shard, under a key that no saga can have. A *round* scans a shard of the index from its beginning,
page by page, over several runs. Until the round ends, sagas before the position are not sent again unless the queue is
empty.
"""

from __future__ import annotations

from msgspec import Struct

from sagas.core.text import iso
from sagas.store.connection import Refused
from sagas.store.control.mapping import time_of
from sagas.store.index.listing import IndexPosition
from sagas.store.tables import Tables


class ScanPosition(Struct, frozen=True):
    """Progress of the latest round over a shard. Times are epoch seconds; 0 means never.

    Args:
        upto: the last position that was sent.
        until: when the round ends.
        moved_at: when the position was stored.
        by: a nonce of the run that noted the position, by which the run recognizes its own note.
    """

    upto: IndexPosition | None = None
    until: float = 0.0
    moved_at: float = 0.0
    by: str = ""


class ScanPositions:
    """Reads and moves the scan positions. Shards are named by their index keys."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, shard: str) -> ScanPosition:
        """Return the scan position of a shard, by a consistent read; an empty one if the shard was never scanned."""
        model = self._tables.scan_position
        try:
            item = model.get(_key(shard), consistent_read=True)
        except model.DoesNotExist:
            return ScanPosition()
        upto = IndexPosition(item.last_due, item.last_id)
        return ScanPosition(upto, time_of(item.until), time_of(item.moved_at), item.by)

    def move(self, shard: str, before: ScanPosition, after: ScanPosition) -> bool:
        """Move the scan position of a shard; return ``False`` if another run has moved it."""
        model = self._tables.scan_position
        upto = after.upto
        if upto is None:
            raise ValueError("after: upto is missing")
        unchanged = model.by == before.by if before.by else model.by.does_not_exist()
        values = (
            (model.last_due, upto.sort),
            (model.last_id, upto.saga_id),
            (model.until, iso(after.until)),
            (model.moved_at, iso(after.moved_at)),
            (model.by, after.by),
        )
        try:
            model(_key(shard)).update(actions=[name.set(value) for name, value in values], condition=unchanged)
        except Refused:
            return self.get(shard) == after  # this call's own write may have succeeded without a response
        return True


def _key(shard: str) -> str:
    return f"due#{shard}"
