"""Search keys of sagas: small items in the table of sagas, which the index of names lists.

An item's key is made of the saga's id and the search key's name, so a purge can derive it. The index has the item under
type, name and value, ordered by the saga's creation. So a list of the newest sagas takes one query per shard.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from sagas.core.states import SagaState
from sagas.core.text import iso
from sagas.store.control.mapping import Item, attributes_of, shard_of
from sagas.store.tables import StoreSettings, Tables

LONGEST = 128
"""Maximum bytes of a value that is stored as it is. Longer values are stored as a hash, and are in no label."""
_KIND = "find#"
"""Prefix of the keys of these items. No saga's id has this prefix."""


def find_key(saga: str, name: str, value: str) -> str:
    """Return the index key of a type's sagas with a search key, without the shard at its end."""
    raw = value.encode(errors="surrogatepass")
    return f"{saga}#{name}={value}" if len(raw) <= LONGEST else f"{saga}#{name}:{hashlib.sha256(raw).hexdigest()}"


def saga_of(item_id: str) -> str:
    """Return the id of the saga to which an item of the index of names belongs."""
    return item_id.split("#")[1] if item_id.startswith(_KIND) else item_id


class SearchKeys:
    """Reads and writes the items of search keys."""

    def __init__(self, tables: Tables, settings: StoreSettings) -> None:
        self._tables = tables
        self._settings = settings

    def items(self, state: SagaState, values: Mapping[str, str]) -> list[Item]:
        """Return the items of a saga in DynamoDB's own JSON."""
        shard = shard_of(state.saga_id, self._settings.shards)
        return [
            attributes_of(
                {
                    "saga_id": _id(state.saga_id, name),
                    "name_shard": f"{find_key(state.saga, name, value)}#{shard}",
                    "created_at": iso(state.created_at),
                }
            )
            for name, value in values.items()
        ]

    def put(self, state: SagaState, values: Mapping[str, str]) -> None:
        """Write the items of a saga before the saga is created, so it can be found from the beginning."""
        for item in self.items(state, values):
            self._tables.connection.dispatch("PutItem", {"TableName": self._settings.sagas_table, "Item": item})

    @staticmethod
    def keys(saga_id: str, names: Iterable[str]) -> list[Item]:
        """Return the keys of a saga's items, by the names of its search keys."""
        return [{"saga_id": {"S": _id(saga_id, name)}} for name in names]

    def delete(self, saga_id: str, names: Iterable[str]) -> None:
        """Delete the items of a saga. Missing items count as deleted."""
        for key in self.keys(saga_id, names):
            self._tables.connection.dispatch("DeleteItem", {"TableName": self._settings.sagas_table, "Key": key})

    def having(self, saga: str, saga_ids: Iterable[str], name: str, value: str) -> set[str]:
        """Return the ids of those ``saga_ids`` whose sagas have a value."""
        keys: list[dict[str, Any]] = [{"saga_id": {"S": _id(saga_id, name)}} for saga_id in set(saga_ids)]
        expected = find_key(saga, name, value)
        items = self._tables.connection.get_many(self._settings.sagas_table, keys)
        # The shard comes after the last #.
        return {
            saga_of(item["saga_id"]["S"]) for item in items if item["name_shard"]["S"].rpartition("#")[0] == expected
        }


def _id(saga_id: str, name: str) -> str:
    return f"{_KIND}{saga_id}#{name}"
