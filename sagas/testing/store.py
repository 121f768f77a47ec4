"""The engine's store, on tables in memory, with the same conditions as in an AWS account."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sagas.core.states import SagaState
from sagas.store.connection import SharedConnection
from sagas.store.control.mapping import state_of
from sagas.store.tables import StoreSettings, tables_over
from sagas.testing.expressions import Item
from sagas.testing.tables import MemoryTables

SETTINGS = StoreSettings(
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
    """The engine's tables, in memory."""

    def __init__(self) -> None:
        self._memory = MemoryTables()
        connection = _Connection(region=SETTINGS.region)
        connection.memory = self._memory
        self.tables = tables_over(SETTINGS, connection, connection)
        self._states: dict[str, tuple[Item, SagaState]] = {}

    def clear(self) -> None:
        self._memory.clear()
        self._states.clear()

    def states(self) -> dict[str, SagaState]:
        """Return all sagas in the order of their creation."""
        items = self._memory.tables.get(SETTINGS.sagas_table, {}).values()
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
