"""The engine's store, on tables in memory, with the same conditions as in an AWS account."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sagas.core.states import SagaState
from sagas.store.connection import SharedConnection
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import state_of
from sagas.store.inbox import Inbox
from sagas.store.joins import Joins
from sagas.store.journal.journal import Journal, Payloads
from sagas.store.tables import StoreSettings, tables_over
from sagas.store.types.blueprints import BlueprintItems
from sagas.store.types.breakers import BreakerItems
from sagas.testing.expressions import Item
from sagas.testing.tables import MemoryTables

_SETTINGS = StoreSettings(
    "run", "run-sagas", "run-audit", joins_table="run-joins", payload_limit=2**40, shards=1, region="memory"
)
"""A payload limit so high that all payloads stay in their items."""


class _Client:
    """Replaces botocore's client in a connection of PynamoDB."""

    def __init__(self, tables: MemoryTables) -> None:
        self._make_api_call = tables.answer


class _Connection(SharedConnection):
    """A connection to tables in memory."""

    memory: MemoryTables

    @property
    def client(self) -> Any:
        return _Client(self.memory)


class MemoryStore:
    """The engine's control items, journal, joins, inbox, breakers and blueprints, in memory."""

    def __init__(self) -> None:
        self._memory = MemoryTables()
        connection = _Connection(region=_SETTINGS.region)
        connection.memory = self._memory
        tables, payloads = tables_over(_SETTINGS, connection, connection), Payloads(_SETTINGS)
        self.control = ControlItems(tables, _SETTINGS)
        self.journal = Journal(tables, payloads)
        self.joins = Joins(tables, _SETTINGS)
        self.inbox = Inbox(tables, _SETTINGS, payloads)
        self.breakers = BreakerItems(tables, _SETTINGS)
        self.blueprints = BlueprintItems(tables, _SETTINGS)
        self._states: dict[str, tuple[Item, SagaState]] = {}

    def clear(self) -> None:
        self._memory.clear()
        self._states.clear()

    def states(self) -> dict[str, SagaState]:
        """Return all sagas in the order of their creation."""
        items = self._memory.tables.get(_SETTINGS.sagas_table, {}).values()
        for item in items:
            if "name_shard" not in item:
                continue  # the item of a breaker, a blueprint or a signal
            saga_id = item["saga_id"]["S"]
            before, _ = self._states.get(saga_id, (None, None))
            if before is not item:  # every write stores a new object, so a copy of the dict is enough
                self._states[saga_id] = item, state_of(item)
        return {saga_id: state for saga_id, (_, state) in self._states.items()}


_idle: list[MemoryStore] = []
"""Unused stores, kept for reuse: creating PynamoDB's models takes longer than running a saga of five steps."""


@contextmanager
def memory_store() -> Generator[MemoryStore]:
    """Yield an empty store for exclusive use."""
    try:
        store = _idle.pop()
    except IndexError:
        store = MemoryStore()
    try:
        yield store
    finally:
        store.clear()
        _idle.append(store)
