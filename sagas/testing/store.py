"""The engine's store, on tables in memory, with the same conditions as in an AWS account."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappush
from threading import Lock
from typing import Any, NamedTuple

from sagas.core.states import SagaState
from sagas.store.connection import SharedConnection
from sagas.store.control.mapping import state_of
from sagas.store.tables import StoreSettings, tables_over
from sagas.testing.expressions import Item
from sagas.testing.tables import Key, MemoryTables

SETTINGS = StoreSettings(
    "run", "run-sagas", "run-audit", joins_table="run-joins", payload_limit=2**40, shards=1, region="memory"
)
"""A payload limit so high that all payloads stay in their items."""


@dataclass
class _Tables(MemoryTables):
    """Tables in memory that note when the supervisor would look at each saga. Threads take turns, since a heartbeat
    writes while a step runs."""

    due: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """A heap of times, each with the id of a saga that was due then when it was written."""
    _turn: Any = field(default_factory=Lock)

    def answer(self, operation: str, request: Item) -> Item:
        with self._turn:
            return super().answer(operation, request)

    def clear(self) -> None:
        super().clear()
        self.due.clear()

    def _put(self, table: str, key: Key, item: Item | None) -> None:
        super()._put(table, key, item)
        if item is not None and "open_shard" in item and table == SETTINGS.sagas_table:
            heappush(self.due, (item["due"]["S"], item["saga_id"]["S"]))


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


class _Read(NamedTuple):
    """A control item, and the saga that it stands for."""

    item: Item
    state: SagaState


class MemoryStore:
    """The engine's tables, in memory."""

    def __init__(self) -> None:
        self._memory = _Tables()
        connection = _Connection(region=SETTINGS.region)
        connection.memory = self._memory
        self.tables = tables_over(SETTINGS, connection, connection)
        self._states = dict[str, _Read]()

    @property
    def due(self) -> list[tuple[str, str]]:
        """A heap of times (ISO 8601), each with the id of a saga. Entries of the past stay until they are taken."""
        return self._memory.due

    def clear(self) -> None:
        self._memory.clear()
        self._states.clear()

    def item(self, saga_id: str) -> Item | None:
        """Return the control item of a saga as it is stored."""
        return self._memory.item(SETTINGS.sagas_table, {"saga_id": {"S": saga_id}})

    def state(self, saga_id: str) -> SagaState | None:
        """Return a saga; ``None`` if there is none with this id."""
        item = self.item(saga_id)
        if item is None:
            return None
        read = self._states.get(saga_id)
        if read is None or read.item is not item:  # every write stores a new object
            read = self._states[saga_id] = _Read(item, state_of(item))
        return read.state


_idle: list[MemoryStore] = []
"""Unused stores, kept for reuse: creating PynamoDB's models takes longer than running a saga of five steps."""


def borrow_store() -> MemoryStore:
    """Return an empty store for exclusive use, until it is given back."""
    try:
        return _idle.pop()
    except IndexError:
        return MemoryStore()


def give_back(store: MemoryStore) -> None:
    """Empty a store, and keep it for reuse."""
    store.clear()
    _idle.append(store)
