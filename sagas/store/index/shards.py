"""How many shards the indexes have and had. A saga stays in the shard in which it was started."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from sagas.store.connection import Refused
from sagas.store.control.mapping import Item
from sagas.store.tables import StoreSettings, Tables

_KEY: Item = {"saga_id": {"S": "shards#highest"}}
"""The key of an item in the table of sagas, which no saga can have."""
_GOOD_FOR = 60.0
"""Seconds for which the number is cached. Only a deployment changes the number. The supervisor stores the change within
a minute."""


class Shards:
    """How many shards the readers of the indexes must query: the highest number ever deployed.

    If the number was reduced, there may still be sagas in higher shards.

    Args:
        tables: the tables in which the number is stored.
        settings: the deployed settings.
        now: a monotonic clock in seconds.
    """

    def __init__(self, tables: Tables, settings: StoreSettings, now: Callable[[], float] = monotonic) -> None:
        self._tables = tables
        self._table = settings.sagas_table
        self.deployed = settings.shards
        self._now = now
        self._cached: tuple[float, int] | None = None

    def number(self) -> int:
        """Return the number of shards that may hold sagas. The number is cached for a minute."""
        if self._cached is None or self._now() - self._cached[0] >= _GOOD_FOR:
            self._cache(self._stored())
        return self._cached[1] if self._cached else self.deployed

    def note(self) -> int:
        """Read the stored number, and store the deployed number if it is higher. Returns the higher number."""
        stored = self._stored()
        if stored < self.deployed:
            request = {
                "TableName": self._table,
                "Key": _KEY,
                "UpdateExpression": "SET #highest = :deployed",
                "ConditionExpression": "attribute_not_exists(#highest) OR #highest < :deployed",
                "ExpressionAttributeNames": {"#highest": "highest"},
                "ExpressionAttributeValues": {":deployed": {"N": str(self.deployed)}},
            }
            with suppress(Refused):  # another run has noted this number, or a higher one, which the next run reads
                self._tables.connection.dispatch("UpdateItem", request)
        return self._cache(stored)

    def _cache(self, stored: int) -> int:
        number = max(stored, self.deployed)
        self._cached = (self._now(), number)
        return number

    def _stored(self) -> int:
        request = {"TableName": self._table, "Key": _KEY, "ConsistentRead": True}
        item = self._tables.connection.dispatch("GetItem", request).get("Item", {})
        return int(item["highest"]["N"]) if "highest" in item else 0
