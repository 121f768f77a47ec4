"""The overview of a service, in one item in the table of sagas, under a key that no saga can have.

The supervisor writes it, and pages and commands read it. Nothing depends on it: it says what the indexes said a while
ago, and a lost item is counted again.
"""

from __future__ import annotations

import json
from typing import Any

from sagas.store.control.mapping import Item, number_in, text_in
from sagas.store.tables import StoreSettings, Tables

_KEY: Item = {"saga_id": {"S": "overview"}}
FORMAT = 1
"""The version of the stored form. An item in another one is not read: a run of the other release has written it, and
the next run writes it again."""


class OverviewItem:
    """Reads and writes the overview as JSON builtins.

    Args:
        tables: the connections.
        settings: the settings, which name the table.
    """

    def __init__(self, tables: Tables, settings: StoreSettings) -> None:
        self._tables = tables
        self._table = settings.sagas_table

    def get(self) -> Any:
        """Return the overview, by an eventually consistent read, which costs half; ``None`` if there is none."""
        item: Item = self._tables.connection.dispatch("GetItem", {"TableName": self._table, "Key": _KEY}).get(
            "Item", {}
        )
        return json.loads(text_in(item, "overview")) if number_in(item, "format") == FORMAT else None

    def put(self, overview: Any) -> None:
        """Store the overview. If two runs write at the same time, the last one wins, and the next run corrects it."""
        values = {"overview": {"S": stored_form(overview)}, "format": {"N": str(FORMAT)}}
        self._tables.connection.dispatch("PutItem", {"TableName": self._table, "Item": _KEY | values})


def stored_form(overview: Any) -> str:
    """Return the text that the item has of the overview, or of a part of it. It has only ASCII characters."""
    return json.dumps(overview, separators=(",", ":"))
