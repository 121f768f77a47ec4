"""The supervisor's position in its weekly search for leftovers. It is one item in the table of sagas, under a key that
no saga can have."""

from __future__ import annotations

from msgspec import Struct

from sagas.store.connection import Refused
from sagas.store.control.mapping import Item, attributes_of, number_in, text_in, text_of, time_of
from sagas.store.tables import StoreSettings, Tables

_KEY = {"saga_id": {"S": "leftovers"}}


class LeftoverScan(Struct, frozen=True):
    """The current or last search.

    Args:
        began_at: epoch seconds; 0 if there was no search yet.
        entry: the last entry that was looked at, as saga id and ``seq``; empty before the first.
        key: the last key in S3 that was looked at; empty before the first.
        pages: the number of pages that it has read.
        expected: the number of pages of the search before it.
        phase: ``entries``, then ``objects``, then ``done``.
        revision: a nonce of the run that wrote the position.
    """

    began_at: float = 0.0
    entry: tuple[str, int] | None = None
    key: str = ""
    pages: int = 0
    expected: int = 0
    phase: str = "done"
    revision: str = ""


class LeftoverScans:
    """Reads and moves the position."""

    def __init__(self, tables: Tables, settings: StoreSettings) -> None:
        self._tables = tables
        self._table = settings.sagas_table

    def get(self) -> LeftoverScan:
        """Return the current or last search."""
        request = {"TableName": self._table, "Key": _KEY}
        item: Item = self._tables.connection.dispatch("GetItem", request).get("Item", {})
        if not item:
            return LeftoverScan()
        return LeftoverScan(
            began_at=time_of(text_in(item, "began_at")),
            entry=(item["last_id"]["S"], number_in(item, "last_seq")) if "last_id" in item else None,
            key=text_in(item, "last_key"),
            pages=number_in(item, "pages"),
            expected=number_in(item, "expected"),
            phase=item["phase"]["S"],
            revision=item["revision"]["S"],
        )

    def move(self, before: LeftoverScan, after: LeftoverScan) -> bool:
        """Replace ``before`` by ``after``, which has a new revision; return ``False`` if another run was faster."""
        last_id, last_seq = after.entry or (None, None)
        item = attributes_of(
            {
                "began_at": text_of(after.began_at),
                "last_id": last_id,
                "last_seq": last_seq,
                "last_key": after.key or None,
                "pages": after.pages,
                "expected": after.expected,
                "phase": after.phase,
                "revision": after.revision,
            }
        )
        request = {"TableName": self._table, "Item": _KEY | item}
        if before.revision:
            request |= {
                "ConditionExpression": "#revision = :before",
                "ExpressionAttributeNames": {"#revision": "revision"},
                "ExpressionAttributeValues": {":before": {"S": before.revision}},
            }
        else:
            request["ConditionExpression"] = "attribute_not_exists(saga_id)"
        try:
            self._tables.connection.dispatch("PutItem", request)
        except Refused:
            return False
        return True
