"""DynamoDB in memory as strict, as slow to show a write and as short of room as AWS's, for the tests.

``tests/engine/test_tables_agree.py`` compares its answers with those of DynamoDB Local.
"""

from __future__ import annotations

import marshal
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from zlib import crc32

from benchmarks.units import item_size
from sagas.testing.expressions import Impossible, Item, copied, plain
from sagas.testing.tables import INDEXES, PROJECTED, Key, MemoryTables, canceled, keys_of, place_of, refusal
from tests.support.refused import check, check_indexed, check_item, check_key

_LARGEST = 400 * 1024
"""Bytes of an item."""
_PAGE = 1024 * 1024
"""Bytes of what one query or scan reads."""
_MOST_SCANNED = 4_000
"""Items of a page of a scan."""
_MOST = {"BatchGetItem": 100, "BatchWriteItem": 25, "TransactWriteItems": 100, "TransactGetItems": 100}
"""Items of a request."""
_TWICE = {
    "BatchGetItem": "Provided list of item keys contains duplicates",
    "BatchWriteItem": "Provided list of item keys contains duplicates",
    "TransactWriteItems": "Transaction request cannot include multiple operations on one item",
}
_NO_CAPACITY = "Throughput exceeds the current capacity for one or more keys"
Units = Counter[tuple[str, str]]
"""Write units, by the table or index and its partition."""


@dataclass
class StrictTables(MemoryTables):
    """Tables in memory that refuse what DynamoDB refuses, and answer what only tests, lists and purges ask for.

    Args:
        now: tells the time in seconds, for ``lag``.
        lag: by how many seconds an answer is behind what was written, where the request does not ask for a consistent
            read or reads an index, which has none; DynamoDB's are mostly behind by less than one.
        scarce: whether a page has room for one item only, and a batch for half of what it asks for, as where items are
            large.
        capacity: write units that one partition takes in a second, by the clock of ``now``; any number if 0. A write is
            refused that has no room in the table's partition, or in one of an index: there it waits for the index.
    """

    now: Callable[[], float] = lambda: 0.0
    lag: float = 0.0
    scarce: bool = False
    capacity: int = 0
    _second: int = 0
    _units: Units = field(default_factory=Units)
    """What each partition of a table or an index has taken in that second."""
    _behind: dict[str, dict[Key, Item]] = field(default_factory=dict[str, dict[Key, Item]])
    _coming: deque[tuple[float, str, Key, Item | None]] = field(
        default_factory=deque[tuple[float, str, Key, Item | None]]
    )
    _scanned: dict[tuple[int, int, int], list[Key]] = field(default_factory=dict[tuple[int, int, int], list[Key]])
    """The keys of a segment, in order. Those that were deleted since are among them."""

    def clear(self) -> None:
        super().clear()
        self._behind.clear()
        self._coming.clear()
        self._scanned.clear()

    def answer(self, operation: str, request: Item) -> Item:
        """Return the answer, or raise botocore's error for it."""
        try:
            _check_number(operation, request)
            for kind, part in _parts(operation, request):
                _check(kind, part)
            _check_once(operation, request)
        except Impossible as error:
            raise refusal("ValidationException", operation, str(error)) from error
        if operation == "BatchWriteItem":
            return self._batch_write(request)
        if operation == "Scan":
            return self._scan(request)
        return self._within_capacity(operation, request) if self.capacity else super().answer(operation, request)

    def forget(self, table: str, *key: Any) -> None:
        """Delete an item, whatever it is like."""
        self._put(table, key, None)

    def items(self, table: str) -> list[Item]:
        """Return the items of a table, by key."""
        return [item for _, item in sorted(self.tables.get(table, {}).items())]

    # What was written, and when a read shows it

    def _put(self, table: str, key: Key, item: Item | None) -> None:
        if item is not None and key not in self._table(table):
            self._scanned.clear()
        super()._put(table, key, item)
        if self.lag:
            self._coming.append((self.now(), table, key, item))

    def _seen(self, name: str, request: Item) -> dict[Key, Item]:
        if not self.lag or (request.get("ConsistentRead") and "IndexName" not in request):
            return self._table(name)
        while self._coming and self._coming[0][0] <= self.now() - self.lag:
            _, table, key, item = self._coming.popleft()
            behind = self._behind.setdefault(table, {})
            if item is None:
                behind.pop(key, None)
            else:
                if key not in behind:
                    self._scanned.clear()
                behind[key] = item
        return self._behind.setdefault(name, {})

    # How much there is room for

    def _after(self, kind: str, write: Item, before: Item | None) -> Item | None:
        after = super()._after(kind, write, before)
        if after is None or kind == "ConditionCheck":
            return after
        if kind == "Update":
            check_indexed(after, keys_of(write["TableName"]), _indexes_of(write["TableName"]))
        if len(marshal.dumps(after, 2)) > _LARGEST and item_size(after) > _LARGEST:
            to_update = " to update" if kind == "Update" else ""
            raise Impossible(f"Item size{to_update} has exceeded the maximum allowed size")
        return after

    def _fitting(self, items: Sequence[Item]) -> int:
        if self.scarce:
            return 1
        if len(marshal.dumps(list(items), 2)) <= _PAGE:  # without references it takes more than what DynamoDB counts
            return len(items)
        size = 0
        for number, item in enumerate(items):
            size += item_size(item)
            if size > _PAGE:
                return max(number, 1)
        return len(items)

    def _room(self, requested: int) -> int:
        """For how much of a batch there is room."""
        return max(1, requested // 2) if self.scarce else requested

    def _within_capacity(self, operation: str, request: Item) -> Item:
        """Answer a request, and take a write back for which the partitions have no capacity."""
        writes = _writes(operation, request)
        before = [self._before(write) for write in writes]
        answer = super().answer(operation, request)
        transacted = operation == "TransactWriteItems"
        units = [
            units_of(write["TableName"], old, self._before(write), transacted=transacted)
            for write, old in zip(writes, before, strict=True)
        ]
        if self._has_room(units):
            return answer
        for write, old in zip(writes, before, strict=True):
            self._leave(write, old)
        if transacted:
            raise canceled([{"Code": "ThrottlingError" if self._is_full(one) else "None"} for one in units])
        raise refusal("ThrottlingException", operation, _NO_CAPACITY)

    def _has_room(self, writes: Sequence[Units]) -> bool:
        """Whether there is capacity for all of these writes; then it is taken."""
        if self._second != int(self.now()):
            self._second = int(self.now())
            self._units.clear()
        together = sum(writes, Units())
        if self._is_full(together):
            return False
        self._units += together
        return True

    def _is_full(self, units: Units) -> bool:
        return any(self._units[partition] + count > self.capacity for partition, count in units.items())

    # Batches, indexes and scans

    def _batch_write(self, request: Item) -> Item:
        writes = [
            (kind.removesuffix("Request"), {"TableName": name, **asked})
            for name, listed in request["RequestItems"].items()
            for write in listed
            for kind, asked in write.items()
        ]
        room = self._room(len(writes))
        for kind, write in writes[:room]:
            self._leave(write, self._after(kind, write, None))
        undone: dict[str, list[Item]] = {}
        for kind, write in writes[room:]:
            asked = {name: value for name, value in write.items() if name != "TableName"}
            undone.setdefault(write["TableName"], []).append({f"{kind}Request": asked})
        return {"UnprocessedItems": undone}

    def _batch_get(self, request: Item) -> Item:
        rooms = {name: self._room(len(wanted["Keys"])) for name, wanted in request["RequestItems"].items()}
        first, others = dict[str, Item](), dict[str, Item]()
        for name, wanted in request["RequestItems"].items():
            first[name] = {**wanted, "Keys": wanted["Keys"][: rooms[name]]}
            if wanted["Keys"][rooms[name] :]:
                others[name] = {**wanted, "Keys": copied(wanted["Keys"][rooms[name] :])}
        return super()._batch_get({"RequestItems": first}) | {"UnprocessedKeys": others}

    def _scan(self, request: Item) -> Item:
        found, order = self._seen(request["TableName"], request), keys_of(request["TableName"])
        keys = self._segment(found, request.get("Segment", 0), request.get("TotalSegments", 1))
        first = (
            bisect_right(keys, place_of(request["ExclusiveStartKey"], order)) if "ExclusiveStartKey" in request else 0
        )
        following = (found[key] for key in islice(keys, first, None) if key in found)
        read = list(islice(following, _MOST_SCANNED))
        return self._page(request, read, order, more=next(following, None) is not None)

    def _segment(self, found: dict[Key, Item], segment: int, total: int) -> list[Key]:
        """The keys of a part of a table, in order. AWS promises no division."""
        place = id(found), segment, total
        if place not in self._scanned:
            self._scanned[place] = sorted(
                key for key in found if total == 1 or crc32(key[0].encode()) % total == segment
            )
        return self._scanned[place]


def units_of(table: str, before: Item | None, after: Item | None, *, transacted: bool = False) -> Units:
    """Return the write units that a write takes, by the partitions of the table and its indexes.

    Args:
        table: its name.
        before: the item, if there was one.
        after: the item, if there is one now.
        transacted: whether it is part of a transaction.
    """
    units, items = Units(), [item for item in (before, after) if item is not None]
    if items:
        kilobytes = max(-(-item_size(item) // 1024) for item in items)
        units[table, str(plain(items[0][keys_of(table)[0]])[1])] = kilobytes * (2 if transacted else 1)
    indexes = INDEXES.items() if table.endswith("-sagas") else ()
    for index, names in indexes:
        old, new = ([(item or {}).get(name) for name in names] for item in (before, after))
        for partition, sort in (old, new) if old != new else ():  # an entry is deleted, and another put
            if partition and sort:
                units[index, str(plain(partition)[1])] += 1
        if before and after and old == new and all(new):
            changed = any(before[name] != after[name] for name in PROJECTED.get(index, ()))
            units[index, str(plain(new[0])[1])] += changed
    return units


# What no table takes, whatever it holds


def _parts(operation: str, request: Item) -> Iterable[tuple[str, Item]]:
    """What of a request is for one table, and has expressions of its own."""
    if "TransactItems" in request:
        return (part for one in request["TransactItems"] for part in one.items())
    if operation == "BatchGetItem":
        return ((operation, {"TableName": name, **asked}) for name, asked in request["RequestItems"].items())
    if operation == "BatchWriteItem":
        return (
            (kind, {"TableName": name, **asked})
            for name, listed in request["RequestItems"].items()
            for write in listed
            for kind, asked in write.items()
        )
    return ((operation, request),)


def _writes(operation: str, request: Item) -> list[Item]:
    """What of a request writes an item."""
    writing = operation in ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")
    return [part for _, part in _parts(operation, request)] if writing else []


def _check(kind: str, request: Item) -> None:
    """Refuse what no table would take, whatever it holds."""
    keys = keys_of(request["TableName"])
    check(kind, request, keys, INDEXES[request["IndexName"]] if "IndexName" in request else ())
    for key in request.get("Keys", ()):
        check_key(key, keys)
    if "Item" in request:
        check_item(request["Item"], keys, _indexes_of(request["TableName"]))


def _indexes_of(table: str) -> Iterable[tuple[str, ...]]:
    return INDEXES.values() if table.endswith("-sagas") else ()


def _check_number(operation: str, request: Item) -> None:
    if operation not in _MOST:
        return
    several: list[Any]
    if "TransactItems" in request:
        several = [request["TransactItems"]]
    else:
        several = [one["Keys"] if operation == "BatchGetItem" else one for one in request["RequestItems"].values()]
    if not several or not all(several) or sum(map(len, several)) > _MOST[operation]:
        raise Impossible(f"{operation} takes 1 to {_MOST[operation]} items")


def _check_once(operation: str, request: Item) -> None:
    if operation not in _TWICE:
        return
    places: list[tuple[str, Key]] = []
    for _, part in _parts(operation, request):
        table = part["TableName"]
        keys = part.get("Keys") or [part.get("Item") or part["Key"]]
        places += [(table, place_of(key, keys_of(table))) for key in keys]
    if len(places) != len(set(places)):
        raise Impossible(_TWICE[operation])
