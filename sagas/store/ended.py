"""Since when every saga that ends is in the index ``ended``. Those that an earlier version ended are not; where there
are any, they are found by going over all sagas of those times."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from sagas.core.times import epoch, iso
from sagas.store.mapping import Item
from sagas.store.outcomes import Refused
from sagas.store.tables import Tables

_KEY: Item = {"saga_id": {"S": "ended#since"}}
"""Beside the sagas, under a key no saga can have."""
MARGIN = 86_400.0
"""Seconds for which an older version may still have been at work: a deployment takes both."""


class EndedSince:
    """When this version came first.

    Args:
        tables: where it is kept.
        table: the name of the table of sagas.
    """

    def __init__(self, tables: Tables, table: str) -> None:
        self._tables = tables
        self._table = table
        self._known: float | None = None

    def get(self) -> float:
        """Return when it was noted first (epoch seconds); 0 while it is not, and where no earlier version ended any.

        Raises:
            Unavailable: the table is out of reach.
        """
        if self._known is None:
            request = {"TableName": self._table, "Key": _KEY, "ConsistentRead": True}
            item: Item = self._tables.connection.dispatch("GetItem", request).get("Item") or {}
            if not item:
                return 0.0
            self._known = epoch(item["at"]["S"]) if "at" in item else 0.0
        return self._known

    def note(self, now: float, earlier: Callable[[], bool]) -> None:
        """Note it, unless that was done before.

        Args:
            now: epoch seconds.
            earlier: tells whether an earlier version ended any saga that is still there.

        Raises:
            Unavailable: the table is out of reach.
        """
        if self.get() or self._known is not None:
            return
        item = _KEY | ({"at": {"S": iso(now)}} if earlier() else {})
        condition = "attribute_not_exists(saga_id)"
        request = {"TableName": self._table, "Item": item, "ConditionExpression": condition}
        with suppress(Refused):  # another was faster
            self._tables.connection.dispatch("PutItem", request)
            self._known = round(now, 3) if "at" in item else 0.0
