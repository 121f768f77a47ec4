"""The journal: append-only and write-once. It is both the audit trail and the source of results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from botocore.exceptions import ClientError
from msgspec.structs import replace
from pynamodb.pagination import ResultIterator

from sagas.aws import S3_DENIED, S3_NO_SUCH_KEY, code_of
from sagas.core.text import epoch, iso
from sagas.errors import SagaError
from sagas.formats import FORMAT, NewerFormat, check_format
from sagas.store.control.mapping import Item, attributes_of, number_in, text_in
from sagas.store.documents import is_encrypted, packed, unpacked
from sagas.store.journal.entries import ACTIONS, Entry
from sagas.store.journal.payloads import Payloads
from sagas.store.journal.tombstones import tombstone_in
from sagas.store.outcomes import Changed, Fenced, Refused
from sagas.store.tables import Tables

_LAST = 10**9
"""A ``seq`` above that of any entry."""


class Journal:
    """Entries of all sagas, in the audit table."""

    vacant = "attribute_not_exists(seq)"
    """The condition that a slot is empty (rule 2: entries are write-once)."""

    unpurged = "attribute_exists(seq) AND attribute_not_exists(#purge)"
    """The condition that a saga's first entry is not a tombstone (rule 13: a purged saga never runs again)."""

    def __init__(self, tables: Tables, payloads: Payloads) -> None:
        self._tables = tables
        self._payloads = payloads
        self._table: str = tables.entry.Meta.table_name

    def item(self, entry: Entry) -> Item:
        """Return ``entry`` as an item in DynamoDB's own JSON. A large payload is stored in S3."""
        text, ref = entry.payload, None
        if text is not None:
            text = self._payloads.encrypted(entry.saga_id, _place_of(entry), text)
        if text is not None and self._payloads.is_large(text):
            text, ref = None, self._payloads.put(entry.saga_id, entry.seq, entry.token, text)
        item = attributes_of(
            {
                "saga_id": entry.saga_id,
                "seq": entry.seq,
                "format": FORMAT,
                "at": iso(entry.at),
                "saga": entry.saga,
                "action": entry.action,
                "step": entry.step,
                "attempt": entry.attempt,
                "status": entry.status,
                "actor": entry.actor,
                "correlation_id": entry.correlation_id,
                "trace_id": entry.trace_id or None,
                "token": entry.token,
                "prev": entry.link or None,
                "payload": text,
                "payload_ref": ref,
                "salt": entry.salt or None,
                "payload_hash": entry.payload_hash or None,
            }
        )
        return item | {"details": packed(entry.details)}

    def put_request(self, entry: Entry) -> dict[str, Any]:
        """Return the request that writes ``entry`` into its slot if that is empty."""
        return {
            "TableName": self._table,
            "Item": self.item(entry),
            "ConditionExpression": self.vacant,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def started_request(self, saga_id: str) -> dict[str, Any]:
        """Return a transaction's check that a saga was started and has not been purged since."""
        return {
            "TableName": self._table,
            "Key": attributes_of({"saga_id": saga_id, "seq": 1}),
            "ConditionExpression": self.unpurged,
            "ExpressionAttributeNames": {"#purge": "purge"},
        }

    def put(self, entry: Entry) -> Entry:
        """Write ``entry`` into its slot, once. Returns ``entry``, or the entry that was there before: this worker's
        own, under the same token, or a predecessor's, which is to be adopted."""
        try:
            self._tables.connection.dispatch("PutItem", self.put_request(entry))
        except Refused as refusal:
            return self.occupant(entry, refusal.items.get(0))
        return entry

    def occupant(self, entry: Entry, item: Item | None) -> Entry:
        """Return the entry in the slot of ``entry``, if its writer may adopt it (rule 2)."""
        occupant = None if item is None else self.load(_entry_of(item))
        if occupant is None or occupant.token > entry.token:
            raise Fenced(f"entry {entry.seq} belongs to a successor")
        return occupant

    def entries(self, saga_id: str, seqs: Iterable[int]) -> dict[int, Entry]:
        """Return the entries at ``seqs``, by one consistent read, or none if ``seqs`` is empty."""
        keys = [attributes_of({"saga_id": saga_id, "seq": seq}) for seq in sorted(set(seqs))]
        items = self._tables.connection.get_many(self._table, keys, consistent=True)
        return {entry.seq: self.load(entry) for entry in map(_entry_of, items)}

    def entries_of(self, places: Iterable[tuple[str, int]]) -> dict[str, dict[int, Entry]]:
        """Return entries of many sagas, each named by saga and ``seq``, by consistent reads of up to 100.

        Payloads in S3 are not fetched; :meth:`load` does that.
        """
        keys = [attributes_of({"saga_id": saga_id, "seq": seq}) for saga_id, seq in places]
        entries = dict[str, dict[int, Entry]]()
        for item in self._tables.connection.get_many(self._table, keys, consistent=True):
            entry = _entry_of(item)
            entries.setdefault(entry.saga_id, {})[entry.seq] = entry
        return entries

    def first_details(self, saga_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the details of each saga's first entry, by eventually consistent reads."""
        keys = [{"saga_id": {"S": saga_id}, "seq": {"N": "1"}} for saga_id in saga_ids]
        items = self._tables.connection.get_many(self._table, keys, attributes=("saga_id", "details"))
        return {item["saga_id"]["S"]: unpacked(item.get("details", {"M": {}})) for item in items}

    def history(self, saga_id: str, *, after: int = 0, up_to: int = _LAST, limit: int | None = None) -> list[Entry]:
        """Return committed entries in order."""
        if up_to <= after:
            return []
        within = self._tables.entry.seq.between(after + 1, up_to)
        options = {"range_key_condition": within, "consistent_read": True, "limit": limit}
        query = cast("Any", self._tables.connection).query
        return list(ResultIterator(query, (self._table, saga_id), options, map_fn=_entry_of, limit=limit))

    def everything(self, saga_id: str) -> list[tuple[int, Entry | None]]:
        """Return all entries with their numbers, in order, with ``None`` for items that no version can read."""
        query, options = cast("Any", self._tables.connection).query, {"consistent_read": True}
        items: list[Item] = list(ResultIterator(query, (self._table, saga_id), options))
        return [(int(item["seq"]["N"]), entry_if_any(item)) for item in items]

    def load(self, entry: Entry) -> Entry:
        """Return ``entry`` with its payload, fetched from S3 and decrypted if necessary."""
        return self.load_within(entry)[0]

    def load_within(self, entry: Entry, most: int | None = None) -> tuple[Entry, int]:
        """Return ``entry`` as :meth:`load` does, and the payload's size. A payload of more than ``most`` stored bytes
        is not fetched."""
        key = entry.details.get("payload_ref")
        if entry.payload is not None or not (key or entry.encrypted):
            return entry, len((entry.payload or "").encode())
        try:
            stored, size = self._payloads.get_within(key, most) if key else (entry.encrypted, len(entry.encrypted))
        except SagaError as error:
            if isinstance(error.__cause__, ClientError) and code_of(error.__cause__) in S3_NO_SUCH_KEY | S3_DENIED:
                raise Changed(entry.saga_id) from error
            raise
        if stored is None:
            return entry, size
        payload = self._payloads.decrypted(entry.saga_id, _place_of(entry), stored)
        loaded = replace(entry, payload=payload, hashed="", encrypted="")
        if entry.hashed and loaded.payload_hash != entry.hashed:
            raise Changed(entry.saga_id)
        return loaded, len(payload.encode())


def _place_of(entry: Entry) -> str:
    """Return the place to which an encrypted payload is bound. The token in it excludes other writers' entries in the
    slot."""
    return f"{entry.seq}/{entry.token}/{entry.action}"


def entry_if_any(item: Item) -> Entry | None:
    """Return the entry of an item; ``None`` if no version can read it."""
    try:
        check_format(number_in(item, "format"), "an entry")
    except (KeyError, ValueError):
        return None
    try:
        return _entry_of(item)
    except (NewerFormat, LookupError, ValueError, TypeError, AttributeError):
        return None


def _entry_of(item: Item) -> Entry:
    """Return the entry of an item. If its payload is in S3, its details name it."""
    saga_id, seq, action = item["saga_id"]["S"], int(item["seq"]["N"]), item["action"]["S"]
    what = f"entry {seq} of saga {saga_id}"
    check_format(number_in(item, "format"), what)
    if action not in ACTIONS:
        raise NewerFormat(what)
    details: dict[str, Any] = unpacked(item["details"]) if "details" in item else {}
    if "payload_ref" in item:
        details["payload_ref"] = item["payload_ref"]["S"]
    text = item["payload"]["S"] if "payload" in item else None
    encrypted = text if text is not None and is_encrypted(text) else ""
    return Entry(
        saga_id=saga_id,
        seq=seq,
        at=epoch(item["at"]["S"]),
        saga=item["saga"]["S"],
        action=action,
        step=item["step"]["S"] if "step" in item else None,
        attempt=int(item["attempt"]["N"]) if "attempt" in item else None,
        status=item["status"]["S"],
        actor=item["actor"]["S"],
        correlation_id=text_in(item, "correlation_id"),
        trace_id=text_in(item, "trace_id"),
        token=int(item["token"]["N"]),
        details=details,
        payload=None if encrypted else text,
        encrypted=encrypted,
        salt=text_in(item, "salt"),
        link=item["prev"]["B"] if "prev" in item else b"",
        hashed=text_in(item, "payload_hash") if "payload_ref" in item or encrypted else "",
        tombstone=tombstone_in(item),
    )
