"""The journal: append-only and write-once. It is both the audit trail and the source of results.

Payloads too large for an entry are in S3 under ``payloads/{hash}/{saga_id}/{seq}/{writer}/{digest}``. A worker is named
by its fencing token, so a late writer with an old token cannot overwrite the payload of a newer entry. All who start a
saga have the token 0, and are named by the salt of their entry: a refused start must neither overwrite nor delete the
request of another, which may have the same content. A hash of the saga's id comes first, because ids begin with the
time, and S3 takes 3,500 puts per second and prefix.

An object is stored before it is known whether its slot is vacant. A caller's function deletes it if the slot is
refused. A step's function cannot delete anything: the purge finds its objects by their token, which has no entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError
from msgspec.structs import replace
from pynamodb.pagination import ResultIterator

from sagas.aws import PAYLOADS, S3_DENIED, S3_NO_SUCH_KEY, code_of, connect, translated
from sagas.core.ids import LAST_SEQ
from sagas.core.text import epoch, iso
from sagas.errors import FORMAT, Denied, NewerFormat, SagaError, TooLarge, check_format
from sagas.store.connection import Changed, Fenced, Refused, Withheld
from sagas.store.control.mapping import Item, attributes_of, number_in, state_of, text_in
from sagas.store.journal.entries import ACTIONS, Action, Entry, Tombstone, unpacked_hash
from sagas.store.schema import PURGE
from sagas.store.tables import StoreSettings, Tables, is_encrypted, packed, unpacked

if TYPE_CHECKING:
    from sagas.store.encryption import PayloadEncryption
    from sagas.store.journal.objects import ObjectPage, Objects

_SEAL = 16
"""Bytes of an entry's seal."""
OF_THE_ENTRY = {"saga_id": "saga_id", "saga": "saga", "created_at": "at"}
"""Attributes of a purged saga that its first entry has, and the entry's names for them."""


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
        text = entry.payload
        ref = None
        if text is not None:
            text = self._payloads.encrypted(entry.saga_id, _place_of(entry), text)
        if text is not None and self._payloads.is_large(text):
            ref = self._payloads.put(entry.saga_id, entry.seq, entry.token or entry.salt, text)
            text = None
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
        own, under the same token, or a predecessor's, which is to be adopted. A caller's start that is refused deletes
        its request from S3."""
        request = self.put_request(entry)
        try:
            self._tables.connection.dispatch("PutItem", request)
        except Refused as refusal:
            item = refusal.items.get(0)
            if item is not None and self._replaced(request, item, entry.at):
                return entry
            if not entry.token and "parent" not in entry.details:
                self._payloads.discard(text_in(request["Item"], "payload_ref"), text_in(item or {}, "payload_ref"))
            return self.occupant(entry, item)
        return entry

    def _replaced(self, request: dict[str, Any], item: Item, now: float) -> bool:
        """Put an entry in place of a tombstone that has expired, and return whether it is there. DynamoDB deletes
        expired items within days and in any order: a family's key would be free before the slots of its children."""
        if "purge" not in item or number_in(item, "expires_at") > now:
            return False
        names = {"#expires_at": "expires_at", "#purge": "purge"}
        condition = "attribute_exists(#purge) AND #expires_at = :expired"
        more = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": {":expired": item["expires_at"]}}
        try:
            self._tables.connection.dispatch("PutItem", request | {"ConditionExpression": condition} | more)
        except Refused:
            return False
        return True

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

    def readable(self, saga_id: str, seqs: Iterable[int]) -> dict[int, Entry | None]:
        """Return the existing entries at ``seqs`` as :meth:`entries_of` does, with ``None`` for each that this version
        cannot read."""
        keys = [attributes_of({"saga_id": saga_id, "seq": seq}) for seq in seqs]
        entries = dict[int, Entry | None]()
        for item in self._tables.connection.get_many(self._table, keys, consistent=True):
            try:
                entries[int(item["seq"]["N"])] = entry_if_any(item)
            except NewerFormat:
                entries[int(item["seq"]["N"])] = None
        return entries

    def first_details(self, saga_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the details of each saga's first entry, by eventually consistent reads."""
        keys = [{"saga_id": {"S": saga_id}, "seq": {"N": "1"}} for saga_id in saga_ids]
        items = self._tables.connection.get_many(self._table, keys, attributes=("saga_id", "details"))
        return {item["saga_id"]["S"]: unpacked(item.get("details", {"M": {}})) for item in items}

    def lacks(self, key: str) -> bool:
        """Whether a payload is missing from S3, for a caller that may list the bucket."""
        return self._payloads.lacks(key)

    def history(self, saga_id: str, *, after: int = 0, up_to: int = LAST_SEQ, limit: int | None = None) -> list[Entry]:
        """Return committed entries in order."""
        if up_to <= after:
            return []
        within = self._tables.entry.seq.between(after + 1, up_to)
        options = {"range_key_condition": within, "consistent_read": True, "limit": limit}
        query = cast("Any", self._tables.connection).query
        return list(ResultIterator(query, (self._table, saga_id), options, map_fn=_entry_of, limit=limit))

    def everything(self, saga_id: str) -> list[tuple[int, Entry | None]]:
        """Return all entries with their numbers, in order, with ``None`` for items that no version can read."""
        query = cast("Any", self._tables.connection).query
        options = {"consistent_read": True}
        items: list[Item] = list(ResultIterator(query, (self._table, saga_id), options))
        return [(int(item["seq"]["N"]), entry_if_any(item)) for item in items]

    def load(self, entry: Entry) -> Entry:
        """Return ``entry`` with its payload, fetched from S3 and decrypted if necessary."""
        return self.load_within(entry)[0]

    def load_within(self, entry: Entry, most: int | None = None) -> tuple[Entry, int]:
        """Return ``entry`` as :meth:`load` does, and the payload's size. A payload that certainly has more than
        ``most`` bytes is not fetched."""
        key = entry.details.get("payload_ref")
        if entry.payload is not None or not (key or entry.encrypted):
            return entry, len((entry.payload or "").encode())
        with reading(entry.saga_id, key or ""):
            limit = None if most is None else self._payloads.largest_stored(most)
            stored, size = self._payloads.get_within(key, limit) if key else (entry.encrypted, len(entry.encrypted))
        if stored is None:
            return entry, size
        payload = self._payloads.decrypted(entry.saga_id, _place_of(entry), stored)
        loaded = replace(entry, payload=payload, hashed="", encrypted="")
        if entry.hashed and loaded.payload_hash != entry.hashed:
            raise Changed(entry.saga_id)
        return loaded, len(payload.encode())


@contextmanager
def reading(saga_id: str, key: str) -> Generator[None]:
    """Say of a large payload that it is missing, or that S3 denies it and it may be missing. ``key``: its key."""
    try:
        yield
    except SagaError as error:
        code = code_of(error.__cause__) if isinstance(error.__cause__, ClientError) else ""
        if code in S3_NO_SUCH_KEY:
            raise Changed(saga_id) from error
        if key and isinstance(error, Denied) and code in S3_DENIED:
            raise Withheld(error, key) from error
        raise


def _place_of(entry: Entry) -> str:
    """Return the place to which an encrypted payload is bound. The token in it excludes other writers' entries in the
    slot."""
    return f"{entry.seq}/{entry.token}/{entry.action}"


def entry_if_any(item: Item) -> Entry | None:
    """Return the entry of an item; ``None`` if no version can read it. Raises NewerFormat if a newer one can."""
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
    saga_id = item["saga_id"]["S"]
    seq = int(item["seq"]["N"])
    action = item["action"]["S"]
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


def tombstone_in(item: Item) -> Tombstone | None:
    """Return the tombstone of a journal entry's item; ``None`` if there is none."""
    if "purge" not in item:
        return None
    stored = item["purge"]["M"]
    actions: list[list[Any]] = unpacked(stored["actions"])
    seals: bytes = stored["seals"]["B"]
    parts = [seals[_SEAL * at : _SEAL * (at + 1)] for at in range(len(actions))]
    objects: list[list[str]] = unpacked(stored["objects"]) if "objects" in stored else []
    return Tombstone(
        PURGE.unpacks(stored["purge"]["M"]),
        stored["request_hash"]["S"],
        state_of({name: item[own] for name, own in OF_THE_ENTRY.items()} | stored["saga"]["M"]),
        tuple(
            Action(seq, action, status, step, attempt, epoch(at), actor, unpacked_hash(seal))
            for (seq, action, status, step, attempt, at, actor), seal in zip(actions, parts, strict=True)
        ),
        stored["aside"]["BOOL"],
        stored["prev"]["B"] if "prev" in stored else b"",
        (*unpacked(stored["found_by"]),) if "found_by" in stored else (),
        tuple((bucket, key) for bucket, key in objects),
        int(unpacked(stored["more_objects"])) if "more_objects" in stored else 0,
        (*unpacked(stored["hidden"]),) if "hidden" in stored else (),
    )


_OF_ENCRYPTION = 8_192
"""At most this many bytes of an encrypted payload are its mark, its wrapped key, its nonce and its tag."""
_DIGITS = 32
"""How many hexadecimal digits of SHA-256 a key contains, enough to be unique."""

_SPREAD = 4
"""How many hexadecimal digits come before the ids."""


_PREFIX = "payloads/"


def prefix_of(saga_id: str) -> str:
    """Return the prefix of the keys of all payloads of a saga."""
    return f"{_PREFIX}{hashlib.sha256(saga_id.encode()).hexdigest()[:_SPREAD]}/{saga_id}/"


def saga_of(key: str) -> str:
    """Return the id of the saga to which a payload's key belongs."""
    return key.split("/", 3)[2]


class Payloads:
    """Stores large payloads in a bucket, and reads them."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings

    @cached_property
    def _client(self) -> Any:
        return connect("s3", PAYLOADS, region=self._settings.region, endpoint_url=self._settings.endpoint_url)

    @cached_property
    def _encryption(self) -> PayloadEncryption | None:
        settings = self._settings
        if not settings.payload_key:
            return None
        from sagas.store.encryption import PayloadEncryption

        return PayloadEncryption(settings.payload_key, settings.region, settings.endpoint_url)

    def encrypted(self, saga_id: str, place: str, payload: str) -> str:
        """Return the stored form of a payload. It is encrypted if a key is configured."""
        return payload if self._encryption is None else self._encryption.encrypt(saga_id, place, payload)

    def decrypted(self, saga_id: str, place: str, stored: str) -> str:
        """Return the original form of a stored payload."""
        if not is_encrypted(stored):
            return stored
        if self._encryption is None:
            raise SagaError(f"a payload of saga {saga_id} is encrypted, but this function has no payload_key")
        return self._encryption.decrypt(saga_id, place, stored)

    def largest_stored(self, size: int) -> int:
        """Return how many bytes a payload of ``size`` bytes has at most when it is stored. Encryption writes base64."""
        return size * 4 // 3 + _OF_ENCRYPTION if self._settings.payload_key else size

    def is_large(self, payload: str) -> bool:
        """Whether a payload, which is a JSON text, must go to S3."""
        return len(payload.encode()) > self._settings.payload_limit

    def put(self, saga_id: str, seq: int, writer: int | str, payload: str) -> str:
        """Store ``payload`` and return its key. ``writer``: a worker's token, or the salt of any other writer."""
        if not self._settings.payload_bucket:
            raise TooLarge(f"a payload of more than {self._settings.payload_limit} bytes needs a payload bucket")
        body = payload.encode()
        key = f"{prefix_of(saga_id)}{seq}/{writer}/{hashlib.sha256(body).hexdigest()[:_DIGITS]}"
        with translated("S3", resource=partial(self._uri, key)):
            self._client.put_object(
                Bucket=self._settings.payload_bucket, Key=key, Body=body, ContentType="application/json"
            )
        return key

    def get(self, key: str) -> str:
        """Return the payload stored under ``key``."""
        return self.get_within(key)[0] or ""

    def get_within(self, key: str, most: int | None = None) -> tuple[str | None, int]:
        """Return the payload stored under ``key``, and its size. A payload of more than ``most`` bytes is ``None``."""
        with translated("S3", resource=partial(self._uri, key)):
            answer = self._client.get_object(Bucket=self._settings.payload_bucket, Key=key)
            size = int(answer["ContentLength"])
            body = answer["Body"]
            if most is not None and size > most:
                body.close()
                return None, size
            return body.read().decode(errors="replace"), size  # a changed payload may not be UTF-8

    def _uri(self, key: str) -> str:
        return f"s3://{self._settings.payload_bucket}/{key}"

    @property
    def _objects(self) -> Objects:
        from sagas.store.journal.objects import Objects  # imported here, because few functions list or delete

        return Objects(self._client, self._settings.payload_bucket)

    def lacks(self, key: str) -> bool:
        """Whether there is no payload under ``key``. The caller must have the right to list the bucket."""
        return all(item.key != key for item in self._objects.page(key).objects)

    def page(self, after: str) -> ObjectPage:
        """List up to 1,000 payloads of all sagas, after a key."""
        return self._objects.page(_PREFIX, after)

    def delete(self, keys: Sequence[str]) -> dict[str, str]:
        """Delete up to 1,000 payloads. Returns S3's error code for each that was not deleted."""
        return self._objects.delete(keys)

    def discard(self, key: str, named: str) -> None:
        """Delete the object of a refused write, unless it is the one that the slot has ``named``: an earlier try of the
        same write has won. An object that S3 does not delete now is found by the purge, or by the weekly scan."""
        if key and key != named:
            with suppress(SagaError):
                self._objects.delete([key])

    def delete_all(self, saga_id: str) -> None:
        """Delete all payloads of a saga, including those that no entry names."""
        if not self._settings.payload_bucket:
            return
        objects = self._objects
        last = False
        while not last:
            page = objects.page(prefix_of(saga_id))
            last = page.last
            if page.objects and (errors := objects.delete([item.key for item in page.objects])):
                key, code = next(iter(errors.items()))
                raise SagaError(f"cannot delete the payload {key} in S3: {code}")
