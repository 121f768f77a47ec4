"""Over how many keys the indexes are spread, and ever were: sagas stay under the key that they were started under."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from sagas.store.control.mapping import Item
from sagas.store.outcomes import Refused
from sagas.store.settings import StoreSettings
from sagas.store.tables import Tables

_KEY: Item = {"saga_id": {"S": "shards#highest"}}
"""Beside the sagas, under a key no saga can have."""
_GOOD_FOR = 60.0
"""Seconds for which an answer is kept: a deployment changes the number, and the supervisor notes it in a minute."""


class Shards:
    """The number of shards that readers of the indexes go over: what is deployed, or was, if that was more.

    Sagas of a shard beyond the deployed number would be found by nobody, were it lowered.

    Args:
        tables: where the number is kept.
        settings: what is deployed.
        now: seconds of a clock that only goes forward.
    """

    def __init__(self, tables: Tables, settings: StoreSettings, now: Callable[[], float] = monotonic) -> None:
        self._tables = tables
        self._table = settings.sagas_table
        self.deployed = settings.shards
        self._now = now
        self._known: tuple[float, int] | None = None

    def number(self) -> int:
        """Return over how many shards sagas may be; an answer is kept for a minute."""
        if self._known is None or self._now() - self._known[0] >= _GOOD_FOR:
            self._keep(self._stored())
        return self._known[1] if self._known else self.deployed

    def note(self) -> int:
        """Return the same by a read, and keep the deployed number in the table if none as high was."""
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
            with suppress(Refused):  # another run noted this number, or a higher one, which the next run reads
                self._tables.connection.dispatch("UpdateItem", request)
        return self._keep(stored)

    def _keep(self, stored: int) -> int:
        number = max(stored, self.deployed)
        self._known = (self._now(), number)
        return number

    def _stored(self) -> int:
        request = {"TableName": self._table, "Key": _KEY, "ConsistentRead": True}
        item = self._tables.connection.dispatch("GetItem", request).get("Item", {})
        return int(item["highest"]["N"]) if "highest" in item else 0
