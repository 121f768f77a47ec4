"""What a sweep asks of the table of control items: how far it got last time, and how the sagas it met stand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sagas.core.states import SagaStatus
from sagas.formats import check_format
from sagas.store.mapping import known, text_of, time_of
from sagas.store.tables import Tables
from sagas.store.tombstones import Tombstones

_ASKED = ["saga_id", "format", "saga", "status", "attention"]  # PynamoDB takes no tuple


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far the sweep of a saga type got. Times in epoch seconds, 0 for never.

    Args:
        start_after: the key after which to go on; empty when the last sweep reached the end.
        began_at: when the last sweep began.
        finished_at: when a sweep last reached the end.
    """

    start_after: str = ""
    began_at: float = 0.0
    finished_at: float = 0.0


@dataclass(frozen=True, slots=True)
class SagaSummary:
    """As much of a saga as tells whether its objects are orphans. ``attention``: a person must look at it."""

    saga: str
    status: SagaStatus
    attention: bool


class Checkpoints:
    """One item for each saga type that is swept, under a key no saga can have."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, saga: str) -> Checkpoint:
        """Return a saga type's checkpoint, by a consistent read; an empty one if it was never swept.

        Raises:
            Unavailable: the table is out of reach.
        """
        model = self._tables.checkpoint
        try:
            item = model.get(_key(saga), consistent_read=True)
        except model.DoesNotExist:
            return Checkpoint()
        return Checkpoint(item.start_after or "", time_of(item.began_at), time_of(item.finished_at))

    def put(self, saga: str, checkpoint: Checkpoint) -> None:
        """Store a saga type's checkpoint. Of two sweeps at once the last wins: at worst objects are seen twice.

        Raises:
            Unavailable: the table is out of reach.
        """
        item = self._tables.checkpoint(
            saga_id=_key(saga),
            start_after=checkpoint.start_after or None,
            began_at=text_of(checkpoint.began_at),
            finished_at=text_of(checkpoint.finished_at),
        )
        item.save()


class SagaSummaries:
    """The summary of many sagas."""

    def __init__(self, tables: Tables, tombstones: Tombstones) -> None:
        self._tables = tables
        self._tombstones = tombstones

    def of(self, saga_ids: Iterable[str]) -> dict[str, SagaSummary]:
        """Return the summary of those sagas that exist, or were purged, by consistent reads of up to 100 at a time.

        What DynamoDB leaves unprocessed is asked for again.

        Raises:
            NewerFormat: a newer version wrote one of them.
            Unavailable: the table is out of reach.
        """
        found, asked = dict[str, SagaSummary](), set(saga_ids)
        for item in self._tables.control.batch_get(asked, consistent_read=True, attributes_to_get=_ASKED):
            what = f"saga {item.saga_id}"
            check_format(item.format, what)
            found[item.saga_id] = SagaSummary(item.saga, known(SagaStatus, item.status, what), bool(item.attention))
        gone = asked - found.keys()
        for saga_id, tombstone in (self._tombstones.get_many(gone) if gone else {}).items():
            state = tombstone.state
            found[saga_id] = SagaSummary(state.saga, state.status, bool(state.attention))
        return found


def _key(saga: str) -> str:
    return f"sweep#{saga}"
