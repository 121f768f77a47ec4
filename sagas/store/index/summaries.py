"""What a sweep asks of the tables about the sagas whose objects it meets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sagas.core.states import SagaStatus
from sagas.formats import check_format
from sagas.store.control.mapping import attributes_of, known, number_in, text_in, time_of
from sagas.store.journal.tombstones import Tombstones
from sagas.store.settings import StoreSettings
from sagas.store.tables import Tables

_ASKED = ("saga_id", "format", "saga", "status", "attention", "updated_at", "lost_until", "steps")


@dataclass(frozen=True, slots=True)
class SagaSummary:
    """As much of a saga as tells whether its objects are orphans.

    Args:
        saga: the saga type's name.
        status: where it stands.
        attention: a person must look at it.
        settled_at: epoch seconds since when nothing of it changes any more, if it is over: neither the saga itself, nor
            an attempt that was lost and may have acted for a while.
        results: the journal entries that hold its request and its results; empty where they were purged.
    """

    saga: str
    status: SagaStatus
    attention: bool
    settled_at: float = 0.0
    results: tuple[int, ...] = ()


class SagaSummaries:
    """The summary of many sagas."""

    def __init__(self, tables: Tables, settings: StoreSettings, tombstones: Tombstones) -> None:
        self._tables = tables
        self._settings = settings
        self._tombstones = tombstones

    def of(self, saga_ids: Iterable[str]) -> dict[str, SagaSummary]:
        """Return the summary of those sagas that exist, or were purged, by consistent reads of up to 100 at a time.

        What DynamoDB leaves unprocessed is asked for again.
        """
        found, asked = dict[str, SagaSummary](), set(saga_ids)
        keys = [attributes_of({"saga_id": saga_id}) for saga_id in asked]
        table = self._settings.sagas_table
        for item in self._tables.connection.get_many(table, keys, consistent=True, attributes=_ASKED):
            saga_id = text_in(item, "saga_id")
            what = f"saga {saga_id}"
            check_format(number_in(item, "format"), what)
            steps = item["steps"]["L"] if "steps" in item else ()
            held = (number_in(step["M"], "seq") for step in steps)
            found[saga_id] = SagaSummary(
                text_in(item, "saga"),
                known(SagaStatus, text_in(item, "status"), what),
                "attention" in item,
                max(time_of(text_in(item, "updated_at")), time_of(text_in(item, "lost_until"))),
                (1, *(seq for seq in held if seq)),
            )
        gone = asked - found.keys()
        for saga_id, tombstone in (self._tombstones.get_many(gone) if gone else {}).items():
            state = tombstone.state
            found[saga_id] = SagaSummary(state.saga, state.status, bool(state.attention), state.updated_at)
        return found
