"""What writers that died, and starts of purged sagas, have left behind: first entries of sagas that never began, and
payloads in S3 that no saga has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from sagas.core.text import iso
from sagas.errors import SagaError
from sagas.store.connection import Refused
from sagas.store.control.mapping import Item, attributes_of, text_in
from sagas.store.index.search_keys import SearchKeys
from sagas.store.journal.journal import Payloads, saga_of
from sagas.store.journal.objects import ObjectPage
from sagas.store.tables import StoreSettings, Tables, unpacked

_KEYS = ("saga_id", "seq", "salt", "payload_ref", "details")
_NAMES = (*_KEYS, "at", "action", "purge", "parent")
_FIRST = (
    "#seq = :first AND #at < :before AND #action = :started AND attribute_not_exists(#purge)"
    " AND attribute_not_exists(#details.#parent)"
)


class DeadStart(Struct, frozen=True):
    """The first entry of a saga that seems to have nothing else.

    Args:
        saga_id: the saga's id.
        salt: the entry's salt, which no other start has.
        found_by: the names of its search keys.
        key: the key of its request in S3; empty if the entry has the request.
    """

    saga_id: str
    salt: str
    found_by: tuple[str, ...]
    key: str


class StartPage(Struct, frozen=True):
    """A page of the audit table: its dead starts, and the position of its last entry, ``None`` at the table's end."""

    starts: tuple[DeadStart, ...]
    after: tuple[str, int] | None


class Leftovers:
    """Finds and deletes leftovers."""

    def __init__(self, tables: Tables, settings: StoreSettings, payloads: Payloads, search_keys: SearchKeys) -> None:
        self._tables = tables
        self._settings = settings
        self._payloads = payloads
        self._search_keys = search_keys

    def starts(self, after: tuple[str, int] | None, before: float) -> StartPage:
        """Read the next page of the audit table, a megabyte, and look for dead starts from before ``before`` (epoch
        seconds). They may turn out to have a second entry, on the next page."""
        request: dict[str, Any] = {
            "TableName": self._settings.audit_table,
            "FilterExpression": f"#seq = :second OR ({_FIRST})",
            "ProjectionExpression": ", ".join(f"#{name}" for name in _KEYS),
            "ExpressionAttributeNames": {f"#{name}": name for name in _NAMES},
            "ExpressionAttributeValues": attributes_of(
                {":first": 1, ":second": 2, ":before": iso(before), ":started": "SagaStarted"}
            ),
        }
        if after is not None:
            request["ExclusiveStartKey"] = _entry_key(*after)
        answer = self._tables.connection.dispatch("Scan", request)
        items: list[Item] = answer["Items"]
        begun = {item["saga_id"]["S"] for item in items if item["seq"]["N"] != "1"}
        starts = tuple(_start_in(item) for item in items if item["saga_id"]["S"] not in begun)
        last: Item | None = answer.get("LastEvaluatedKey")
        return StartPage(starts, None if last is None else (last["saga_id"]["S"], int(last["seq"]["N"])))

    def without_saga(self, starts: Iterable[DeadStart]) -> list[DeadStart]:
        """Return those starts that have no control item."""
        by_id = {start.saga_id: start for start in starts}
        existing = self._sagas(by_id)
        return [start for saga_id, start in by_id.items() if saga_id not in existing]

    def _sagas(self, saga_ids: Iterable[str]) -> set[str]:
        """Return the ids of those sagas that have a control item."""
        keys = [attributes_of({"saga_id": saga_id}) for saga_id in saga_ids]
        items = self._tables.connection.get_many(self._settings.sagas_table, keys, attributes=("saga_id",))
        return {item["saga_id"]["S"] for item in items}

    def forget(self, start: DeadStart) -> bool:
        """Delete a dead start, unless it has a control item or a second entry by now. Returns whether it was deleted.

        There is no tombstone, so a start that is repeated later begins the saga. One that is repeated at the same time
        creates the control item on condition that the first entry is there, so only one of the two succeeds.
        """
        sagas = self._settings.sagas_table
        audit = self._settings.audit_table
        gone = {
            "TableName": audit,
            "Key": _entry_key(start.saga_id, 1),
            "ConditionExpression": "#salt = :salt",
            "ExpressionAttributeNames": {"#salt": "salt"},
            "ExpressionAttributeValues": attributes_of({":salt": start.salt}),
        }
        unborn = {
            "TableName": sagas,
            "Key": attributes_of({"saga_id": start.saga_id}),
            "ConditionExpression": "attribute_not_exists(saga_id)",
        }
        alone = {
            "TableName": audit,
            "Key": _entry_key(start.saga_id, 2),
            "ConditionExpression": "attribute_not_exists(saga_id)",
        }
        keys = self._search_keys.keys(start.saga_id, start.found_by)
        writes = [{"Delete": gone}, {"ConditionCheck": unborn}, {"ConditionCheck": alone}]
        writes += [{"Delete": {"TableName": sagas, "Key": key}} for key in keys]
        try:
            self._tables.connection.dispatch("TransactWriteItems", {"TransactItems": writes})
        except Refused:
            return False
        if start.key:
            self.delete([start.key])
        return True

    def objects(self, after: str) -> ObjectPage:
        """List up to 1,000 payloads in S3, of all sagas, after a key."""
        return self._payloads.page(after) if self._settings.payload_bucket else ObjectPage((), last=True)

    def gone(self, keys: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return those of the keys whose saga was purged, and those whose saga has no first entry and no control item.
        After a restore, a saga may lack its first entry and still need its payloads."""
        ids = {saga_of(key) for key in keys}
        places = [_entry_key(saga_id, 1) for saga_id in ids]
        audit = self._settings.audit_table
        items = self._tables.connection.get_many(audit, places, attributes=("saga_id", "purge"))
        purged = {text_in(item, "saga_id"): "purge" in item for item in items}
        known = purged.keys() | self._sagas(ids - purged.keys())
        of_purged = [key for key in keys if purged.get(saga_of(key))]
        unknown = [key for key in keys if saga_of(key) not in known]
        return of_purged, unknown

    def delete(self, keys: Sequence[str]) -> None:
        """Delete up to 1,000 payloads."""
        if keys and (errors := self._payloads.delete(keys)):
            key, code = next(iter(errors.items()))
            raise SagaError(f"cannot delete the payload {key} in S3: {code}")


def _start_in(item: Item) -> DeadStart:
    details: dict[str, Any] = unpacked(item["details"])
    found_by: tuple[str, ...] = (*details.get("found_by", ()),)
    return DeadStart(item["saga_id"]["S"], text_in(item, "salt"), found_by, text_in(item, "payload_ref"))


def _entry_key(saga_id: str, seq: int) -> Item:
    return attributes_of({"saga_id": saga_id, "seq": seq})
