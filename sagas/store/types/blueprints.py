"""Blueprints of saga types, in the table of sagas, under keys that no saga can have. They are never changed or deleted.

One item per type, ``definition#TYPE``, has the names of its blueprints. It is missing until the type has a saga.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from sagas.core.text import iso
from sagas.store.connection import Refused
from sagas.store.control.mapping import Item, attributes_of
from sagas.store.tables import StoreSettings, Tables


class BlueprintItems:
    """Reads and writes blueprints."""

    def __init__(self, tables: Tables, settings: StoreSettings) -> None:
        self._connection = tables.connection
        self._table = settings.sagas_table

    def names(self, sagas: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the names of blueprints by saga type, by eventually consistent reads. Types that had no saga are
        missing."""
        items = self._connection.get_many(self._table, [_key(f"definition#{saga}") for saga in sagas])
        return {item["saga_id"]["S"].partition("#")[2]: frozenset(item["blueprints"]["SS"]) for item in items}

    def put(self, saga: str, name: str, body: bytes, version: str, now: float) -> None:
        """Store a blueprint, and then its name. ``now``: epoch seconds."""
        item = attributes_of({"body": body, "version": version, "at": iso(now)}) | _key(_id(saga, name))
        put = {"TableName": self._table, "Item": item, "ConditionExpression": "attribute_not_exists(saga_id)"}
        with suppress(Refused):  # another environment has stored the same bytes
            self._connection.dispatch("PutItem", put)
        update = {
            "TableName": self._table,
            "Key": _key(f"definition#{saga}"),
            "UpdateExpression": "ADD #blueprints :names",
            "ExpressionAttributeNames": {"#blueprints": "blueprints"},
            "ExpressionAttributeValues": {":names": {"SS": [name]}},
        }
        self._connection.dispatch("UpdateItem", update)

    def bodies(self, saga: str, names: Iterable[str]) -> dict[str, bytes]:
        """Return the stored blueprints of a saga type by name."""
        items = self._connection.get_many(self._table, [_key(_id(saga, name)) for name in names])
        return {item["saga_id"]["S"].rpartition("#")[2]: bytes(item["body"]["B"]) for item in items}


def _id(saga: str, name: str) -> str:
    return f"blueprint#{saga}#{name}"


def _key(text: str) -> Item:
    return {"saga_id": {"S": text}}
