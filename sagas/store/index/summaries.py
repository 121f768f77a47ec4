"""Summaries of sagas, with which a sweep decides about the sagas' objects."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from sagas.core.states import SagaStatus
from sagas.errors import check_format
from sagas.store.control.mapping import attributes_of, number_in, text_in, time_of
from sagas.store.journal.tombstones import Tombstones
from sagas.store.schema import member
from sagas.store.tables import StoreSettings, Tables

_ATTRIBUTES = ("saga_id", "format", "saga", "status", "attention", "updated_at", "lost_until", "steps")


class SagaSummary(Struct, frozen=True):
    """The part of a saga that decides whether its objects are orphans.

    Args:
        saga: the saga type's name.
        status: its status.
        attention: whether the saga needs an operator.
        settled_at: if the saga has ended, epoch seconds after which neither the saga nor a lost attempt can act any
            more.
        results: the numbers of the entries with the request and results; empty if they were purged.
    """

    saga: str
    status: SagaStatus
    attention: bool
    settled_at: float = 0.0
    results: tuple[int, ...] = ()


class SagaSummaries:
    """Reads the summaries of many sagas."""

    def __init__(self, tables: Tables, settings: StoreSettings, tombstones: Tombstones) -> None:
        self._tables = tables
        self._settings = settings
        self._tombstones = tombstones

    def of(self, saga_ids: Iterable[str]) -> dict[str, SagaSummary]:
        """Return the summaries of the sagas that exist or were purged, by consistent reads of up to 100 at a time.

        Keys that DynamoDB leaves unprocessed are requested again.
        """
        summaries = dict[str, SagaSummary]()
        requested = set(saga_ids)
        keys = [attributes_of({"saga_id": saga_id}) for saga_id in requested]
        table = self._settings.sagas_table
        for item in self._tables.connection.get_many(table, keys, consistent=True, attributes=_ATTRIBUTES):
            saga_id = text_in(item, "saga_id")
            what = f"saga {saga_id}"
            check_format(number_in(item, "format"), what)
            steps = item["steps"]["L"] if "steps" in item else ()
            seqs = (number_in(step["M"], "seq") for step in steps)
            summaries[saga_id] = SagaSummary(
                text_in(item, "saga"),
                member(SagaStatus, text_in(item, "status"), what),
                "attention" in item,
                max(time_of(text_in(item, "updated_at")), time_of(text_in(item, "lost_until"))),
                (1, *(seq for seq in seqs if seq)),
            )
        missing = requested - summaries.keys()
        for saga_id, tombstone in (self._tombstones.get_many(missing) if missing else {}).items():
            state = tombstone.state
            summaries[saga_id] = SagaSummary(state.saga, state.status, bool(state.attention), state.updated_at)
        return summaries
