"""Writes the tombstones of purged sagas, and deletes everything else.

A purged saga's first entry becomes its tombstone. No other item of a saga is deleted by DynamoDB at the end of a time
to live. With two such items, one could be deleted days before the other, and the rest would look like an unfinished
start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import astuple, replace

from sagas.core.text import iso
from sagas.store.connection import Refused
from sagas.store.control.mapping import Item, attributes_of, item_of
from sagas.store.journal.entries import Tombstone, packed_hash
from sagas.store.journal.journal import OF_THE_ENTRY, Payloads, tombstone_in
from sagas.store.schema import PURGE
from sagas.store.tables import StoreSettings, Tables, packed

MOST_ACTIONS = 1_000
"""How many of the last entries a tombstone lists."""
_LEFT_OUT = frozenset({"open_shard", "due", "name_shard", "ended", *OF_THE_ENTRY})
_WRITTEN = ("purge", "expires_at", "details")
_REMOVED = ("payload", "payload_ref", "payload_hash", "salt", "trace_id")
_NOT_OPEN = 1.0
"""A value for ``stale_after``. It has no effect, because the saga has ended."""


class Tombstones:
    """Writes tombstones, and deletes what they replace. An interrupted purge can repeat every call."""

    def __init__(self, tables: Tables, settings: StoreSettings, payloads: Payloads) -> None:
        self._tables = tables
        self._settings = settings
        self._payloads = payloads

    def get_many(self, saga_ids: Iterable[str]) -> dict[str, Tombstone]:
        """Return the tombstones of those of the sagas that were purged."""
        keys = [_key(saga_id, 1) for saga_id in saga_ids]
        items = self._tables.connection.get_many(self._settings.audit_table, keys, consistent=True)
        tombstones = {item["saga_id"]["S"]: tombstone_in(item) for item in items}
        return {saga_id: tombstone for saga_id, tombstone in tombstones.items() if tombstone is not None}

    def put(self, saga_id: str, tombstone: Tombstone) -> None:
        """Turn the first entry of a saga into its tombstone, without payload, salt and details, unless it already is a
        tombstone."""
        state = replace(tombstone.state, lease=None, purge=None, progress=None)
        item = item_of(state, self._settings, _NOT_OPEN)
        actions = tombstone.actions[-MOST_ACTIONS:]
        document: dict[str, Any] = {
            "request_hash": tombstone.request_hash,
            "aside": tombstone.aside,
            "actions": [[*astuple(action)[:5], iso(action.at), action.actor] for action in actions],
        }
        if tombstone.found_by:
            document["found_by"] = [*tombstone.found_by]
        if tombstone.objects or tombstone.more_objects:
            document["objects"] = [[*place] for place in tombstone.objects]
            document["more_objects"] = tombstone.more_objects
        if tombstone.hidden:
            document["hidden"] = [*tombstone.hidden]
        stored = packed(document)
        stored["M"]["seals"] = {"B": b"".join(packed_hash(action.seal) for action in actions)}
        if tombstone.link:
            stored["M"]["prev"] = {"B": tombstone.link}
        stored["M"]["purge"] = {"M": PURGE.packs(tombstone.purge)}
        stored["M"]["saga"] = {"M": {name: value for name, value in item.items() if name not in _LEFT_OUT}}
        expires = math.ceil(tombstone.purge.at + self._settings.key_retention)
        request: dict[str, Any] = {
            "TableName": self._settings.audit_table,
            "Key": _key(saga_id, 1),
            "ConditionExpression": "attribute_exists(saga_id) AND attribute_not_exists(#purge)",
            "UpdateExpression": f"SET {', '.join(f'#{name} = :{name}' for name in _WRITTEN)} "
            f"REMOVE {', '.join(f'#{name}' for name in _REMOVED)}",
            "ExpressionAttributeNames": {f"#{name}": name for name in (*_WRITTEN, *_REMOVED)},
            "ExpressionAttributeValues": {
                ":purge": stored,
                ":expires_at": {"N": str(expires)},
                ":details": {"M": {}},
            },
        }
        try:
            self._tables.connection.dispatch("UpdateItem", request)
        except Refused:
            return

    def clear(self, saga_id: str, seqs: Sequence[int], *, aside: bool) -> None:
        """Delete entries and, if ``aside``, all payloads of the saga in S3."""
        if aside:
            self._payloads.delete_all(saga_id)
        self._tables.connection.delete_many(self._settings.audit_table, [_key(saga_id, seq) for seq in seqs])


def _key(saga_id: str, seq: int) -> Item:
    return attributes_of({"saga_id": saga_id, "seq": seq})
