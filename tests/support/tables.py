"""DynamoDB in memory: the requests the store and its tests make, with their conditions, twenty times faster than an
emulator.

``tests/support/dynamodb.py`` has moto answer each kind of request, too, and compares the answers.
"""

from __future__ import annotations

import hashlib
import marshal
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from benchmarks.units import item_size
from tests.support.expressions import (
    Impossible,
    Item,
    Names,
    condition,
    copied,
    plain,
    projected,
    update,
)
from tests.support.refused import check, check_indexed, check_item, check_key

Key = tuple[Any, ...]

KEYS: dict[str, tuple[str, ...]] = {
    "sagas": ("saga_id",),
    "audit": ("saga_id", "seq"),
    "joins": ("join", "part"),
}
"""The primary keys, by the last part of a table's name."""
_INDEXES = {
    "open": ("open_shard", "due"),
    "by_name": ("name_shard", "created_at"),
    "attention": ("attention_shard", "attention_at"),
    "ended": ("ended", "ended_at"),
}
"""The keys of control items' indexes, which hold nothing else."""
_LARGEST = 400 * 1024
"""Bytes of an item."""
_PAGE = 1024 * 1024
"""Bytes of what one query or scan reads."""
_MOST_SCANNED = 4_000
"""Items of a page of a scan."""
_MOST = {"BatchGetItem": 100, "BatchWriteItem": 25, "TransactWriteItems": 100, "TransactGetItems": 100}
"""Items of a request."""
_REFUSED = "The conditional request failed"
_TWICE = "Provided list of item keys contains duplicates"
_SEVERAL = "Transaction request cannot include multiple operations on one item"


def refusal(code: str, operation: str, message: str = "", **more: Any) -> ClientError:
    """Return the error that botocore raises for an answer of AWS."""
    error = {"Code": code, "Message": message or code}
    answer: Any = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}, **more}
    return ClientError(answer, operation)


def _invalid(operation: str, message: str) -> ClientError:
    return refusal("ValidationException", operation, message)


def keys_of(table: str) -> tuple[str, ...]:
    """Return what the primary key of a table is, by its name."""
    return KEYS[table.rsplit("-", 1)[1]]


@dataclass
class MemoryTables:
    """Answers DynamoDB's requests. What a table's name ends in tells its key.

    Args:
        tables: their items.
        now: tells the time in seconds, for ``lag``.
        lag: by how many seconds an answer is behind what was written, where the request does not ask for a consistent
            read or reads an index, which has none; DynamoDB's are mostly behind by less than one.
        scarce: whether a page has room for one item only, and a batch for half of what it asks for, as where items are
            large.
        capacity: write units that one partition takes in a second, by the clock of ``now``; any number if 0. A write is
            refused that has no room in the table's partition, or in one of an index: there it waits for the index.
    """

    tables: dict[str, dict[Key, Item]] = field(default_factory=dict[str, dict[Key, Item]])
    now: Callable[[], float] = lambda: 0.0
    lag: float = 0.0
    scarce: bool = False
    capacity: int = 0
    _second: int = 0
    _units: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """What each partition of a table or an index has taken in that second."""
    _behind: dict[str, dict[Key, Item]] = field(default_factory=dict[str, dict[Key, Item]])
    _coming: deque[tuple[float, str, Key, Item | None]] = field(
        default_factory=deque[tuple[float, str, Key, Item | None]]
    )
    _scanned: dict[tuple[int, int, int], list[Key]] = field(default_factory=dict[tuple[int, int, int], list[Key]])
    """The keys of a segment, in order. Those that were deleted since are among them."""

    def clear(self) -> None:
        self.tables.clear()
        self._behind.clear()
        self._coming.clear()
        self._scanned.clear()

    def answer(self, operation: str, request: Item) -> Item:
        """Return the answer, or raise botocore's error for it."""
        known: dict[str, Callable[[Item], Item]] = {
            "GetItem": self._get_item,
            "PutItem": lambda asked: self._write("PutItem", "Put", asked),
            "UpdateItem": lambda asked: self._write("UpdateItem", "Update", asked),
            "DeleteItem": lambda asked: self._write("DeleteItem", "Delete", asked),
            "BatchGetItem": self._batch_get,
            "BatchWriteItem": self._batch_write,
            "TransactWriteItems": self._transact,
            "Query": self._query,
            "Scan": self._scan,
        }
        _check_number(operation, request)
        try:
            for kind, one in _parts(operation, request):
                _check(kind, one)
        except Impossible as error:
            raise _invalid(operation, str(error)) from error
        return known[operation](request)

    def forget(self, table: str, *key: Any) -> None:
        """Delete an item, whatever it is like."""
        self._put(table, key, None)

    def items(self, table: str) -> list[Item]:
        """Return the items of a table, by key."""
        return [item for _, item in sorted(self.tables.get(table, {}).items())]

    def _key(self, table: str, item: Item) -> Key:
        return tuple(plain(item[name])[1] for name in keys_of(table))

    def _table(self, name: str) -> dict[Key, Item]:
        return self.tables.setdefault(name, {})

    def found(self, table: str, key: Item) -> Item | None:
        """Return the item with a key; ``key``: or anything that has it."""
        return self._table(table).get(self._key(table, key))

    def _found(self, request: Item) -> Item | None:
        return self.found(request["TableName"], request.get("Item") or request["Key"])

    def _put(self, name: str, key: Key, item: Item | None) -> None:
        if item is None:
            self._table(name).pop(key, None)
        else:
            self._add(self._table(name), key, item)
        if self.lag:
            self._coming.append((self.now(), name, key, item))

    def _add(self, items: dict[Key, Item], key: Key, item: Item) -> None:
        if key not in items:
            self._scanned.clear()
        items[key] = item

    def _seen(self, name: str, request: Item) -> dict[Key, Item]:
        """The items of a table as a read sees them."""
        if not self.lag or (request.get("ConsistentRead") and "IndexName" not in request):
            return self._table(name)
        while self._coming and self._coming[0][0] <= self.now() - self.lag:
            _, table, key, item = self._coming.popleft()
            if item is None:
                self._behind.setdefault(table, {}).pop(key, None)
            else:
                self._add(self._behind.setdefault(table, {}), key, item)
        return self._behind.setdefault(name, {})

    # One item

    def _get_item(self, request: Item) -> Item:
        table = request["TableName"]
        found = self._seen(table, request).get(self._key(table, request["Key"]))
        return {} if found is None else {"Item": copied(projected(found, request))}

    def _write(self, operation: str, kind: str, request: Item) -> Item:
        before = self._found(request)
        if not _holds(request, before):
            raise refusal(
                "ConditionalCheckFailedException",
                operation,
                "The conditional request failed",
                **_shown(request, before),
            )
        try:
            after = _after(kind, request, before)
        except Impossible as error:
            raise _invalid(operation, str(error)) from error
        if not self._has_room([units_of(request["TableName"], before, after)]):
            raise refusal(
                "ThrottlingException", operation, "Throughput exceeds the current capacity for one or more keys"
            )
        self._leave(request, after)
        told = {"NONE": None, "ALL_OLD": before, "ALL_NEW": after}[request.get("ReturnValues", "NONE")]
        return {} if told is None else {"Attributes": copied(told)}

    def _place_of(self, request: Item) -> tuple[str, Key]:
        return request["TableName"], self._key(request["TableName"], request.get("Item") or request["Key"])

    def _leave(self, request: Item, after: Item | None) -> None:
        self._put(*self._place_of(request), after)

    # Several

    def _batch_write(self, request: Item) -> Item:
        writes = [
            (kind.removesuffix("Request"), {"TableName": name, **asked})
            for name, listed in request["RequestItems"].items()
            for write in listed
            for kind, asked in write.items()
        ]
        _check_once("BatchWriteItem", _TWICE, [self._place_of(write) for _, write in writes])
        room = self._room(len(writes))
        for kind, write in writes[:room]:
            self._leave(write, _after(kind, write, None))
        undone: dict[str, list[Item]] = {}
        for kind, write in writes[room:]:
            asked = {name: value for name, value in write.items() if name != "TableName"}
            undone.setdefault(write["TableName"], []).append({f"{kind}Request": asked})
        return {"UnprocessedItems": undone}

    def _room(self, asked: int) -> int:
        """For how much of a batch there is room."""
        return max(1, asked // 2) if self.scarce else asked

    def _batch_get(self, request: Item) -> Item:
        answers: dict[str, list[Item]] = {}
        left: Item = {}
        for name, asked in request["RequestItems"].items():
            _check_once("BatchGetItem", _TWICE, [(name, self._key(name, key)) for key in asked["Keys"]])
            table = self._seen(name, asked)
            room = self._room(len(asked["Keys"]))
            found = [table.get(self._key(name, key)) for key in asked["Keys"][:room]]
            answers[name] = [copied(projected(item, asked)) for item in found if item is not None]
            if asked["Keys"][room:]:
                left[name] = {**asked, "Keys": copied(asked["Keys"][room:])}
        return {"Responses": answers, "UnprocessedKeys": left}

    def _transact(self, request: Item) -> Item:
        writes = [next(iter(item.items())) for item in request["TransactItems"]]
        _check_once("TransactWriteItems", _SEVERAL, [self._place_of(write) for _, write in writes])
        outcomes = [self._outcome(kind, write) for kind, write in writes]
        if all(reason["Code"] == "None" for reason, _ in outcomes):
            units = [
                units_of(write["TableName"], self._found(write), after, transacted=True)
                for (_, write), (_, after) in zip(writes, outcomes, strict=True)
            ]
            if not self._has_room(units):
                full = [self._is_full(one) for one in units]
                outcomes = [({"Code": "ThrottlingError" if it else "None"}, None) for it in full]
        reasons = [reason for reason, _ in outcomes]
        codes = [reason["Code"] for reason in reasons]
        if any(code != "None" for code in codes):
            message = f"Transaction cancelled, please refer cancellation reasons for specific reasons {codes}"
            message = message.replace("'", "")
            raise refusal("TransactionCanceledException", "TransactWriteItems", message, CancellationReasons=reasons)
        for (kind, write), (_, after) in zip(writes, outcomes, strict=True):
            if kind != "ConditionCheck":
                self._leave(write, after)
        return {}

    def _outcome(self, kind: str, write: Item) -> tuple[Item, Item | None]:
        """Why a write of a transaction is impossible, and what it would leave."""
        before = self._found(write)
        if not _holds(write, before):
            return {"Code": "ConditionalCheckFailed", "Message": _REFUSED, **_shown(write, before)}, None
        try:
            return {"Code": "None"}, _after(kind, write, before)
        except Impossible as error:
            return {"Code": "ValidationError", "Message": str(error)}, None

    def _has_room(self, writes: Sequence[Counter[tuple[str, str]]]) -> bool:
        """Whether there is capacity for all of these writes; then it is taken."""
        if not self.capacity:
            return True
        if self._second != int(self.now()):
            self._second = int(self.now())
            self._units.clear()
        together = sum(writes, Counter[tuple[str, str]]())
        if self._is_full(together):
            return False
        self._units += together
        return True

    def _is_full(self, units: Counter[tuple[str, str]]) -> bool:
        return any(self._units[partition] + count > self.capacity for partition, count in units.items())

    # All there are

    def _query(self, request: Item) -> Item:
        test, known = condition(request["KeyConditionExpression"]), Names.of(request)
        found = [item for item in self._seen(request["TableName"], request).values() if test(item, known)]
        places = keys_of(request["TableName"])
        if "IndexName" in request:
            places = (*_INDEXES[request["IndexName"]], *places)
            found = [{name: item[name] for name in places} for item in found if all(name in item for name in places)]
        backwards = not request.get("ScanIndexForward", True)
        found.sort(key=lambda item: _place(item, places), reverse=backwards)
        return page_of(request, found, places, backwards=backwards, scarce=self.scarce)

    def _scan(self, request: Item) -> Item:
        found, places = self._seen(request["TableName"], request), keys_of(request["TableName"])
        keys = self._segment(found, request.get("Segment", 0), request.get("TotalSegments", 1))
        first = (
            bisect_right(keys, _place(request["ExclusiveStartKey"], places)) if "ExclusiveStartKey" in request else 0
        )
        following = (found[key] for key in islice(keys, first, None) if key in found)
        read = list(islice(following, _MOST_SCANNED))
        return page_of(request, read, places, scarce=self.scarce, more=next(following, None) is not None)

    def _segment(self, found: dict[Key, Item], segment: int, total: int) -> list[Key]:
        """The keys of a part of a table, in order; by moto's division, as AWS promises none."""
        place = id(found), segment, total
        if place not in self._scanned:
            self._scanned[place] = sorted(key for key in found if total == 1 or _digit(key[0]) % total == segment)
        return self._scanned[place]


def _digit(text: str) -> int:
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()[0]


def units_of(
    table: str, before: Item | None, after: Item | None, *, transacted: bool = False
) -> Counter[tuple[str, str]]:
    """Return the write units that a write takes, by the partitions of the table and its indexes.

    Args:
        table: its name.
        before: the item, if there was one.
        after: the item, if there is one now.
        transacted: whether it is part of a transaction.
    """
    units, items = Counter[tuple[str, str]](), [item for item in (before, after) if item is not None]
    if items:
        kilobytes = max(-(-item_size(item) // 1024) for item in items)
        units[table, str(plain(items[0][keys_of(table)[0]])[1])] = kilobytes * (2 if transacted else 1)
    indexes = _INDEXES.items() if table.endswith("-sagas") else ()
    for index, names in indexes:
        old, new = ([(item or {}).get(name) for name in names] for item in (before, after))
        for partition, sort in (old, new) if old != new else ():  # an entry is deleted, and another put
            if partition and sort:
                units[index, str(plain(partition)[1])] += 1
    return units


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


def _check(kind: str, request: Item) -> None:
    """Refuse what no table would take, whatever it holds."""
    keys = keys_of(request["TableName"])
    check(kind, request, keys, _INDEXES[request["IndexName"]] if "IndexName" in request else ())
    for key in request.get("Keys", ()):
        check_key(key, keys)
    if "Item" in request:
        check_item(request["Item"], keys, _indexes_of(request["TableName"]))


def _indexes_of(table: str) -> Iterable[tuple[str, ...]]:
    return _INDEXES.values() if table.endswith("-sagas") else ()


def _holds(request: Item, item: Item | None) -> bool:
    return condition(request.get("ConditionExpression", ""))(item or {}, Names.of(request))


def _shown(request: Item, item: Item | None) -> Item:
    """The item that a condition was not met by, if it is asked for."""
    asked = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and item is not None
    return {"Item": copied(item)} if asked else {}


def _after(kind: str, write: Item, before: Item | None) -> Item | None:
    """What a write leaves of its item: one that nobody else has."""
    if kind in ("Delete", "ConditionCheck"):
        return None
    if kind == "Put":
        after = copied(write["Item"])
    else:
        after = copied(write["Key"] if before is None else before)
        update(write.get("UpdateExpression", ""))(after, Names.of(write))
        check_indexed(after, keys_of(write["TableName"]), _indexes_of(write["TableName"]))
    if len(marshal.dumps(after, 2)) > _LARGEST and item_size(after) > _LARGEST:
        to_update = " to update" if kind == "Update" else ""
        raise Impossible(f"Item size{to_update} has exceeded the maximum allowed size")
    return after


def _check_number(operation: str, request: Item) -> None:
    if operation not in _MOST:
        return
    several: list[Any]
    if "TransactItems" in request:
        several = [request["TransactItems"]]
    else:
        several = [one["Keys"] if operation == "BatchGetItem" else one for one in request["RequestItems"].values()]
    if not several or not all(several) or sum(map(len, several)) > _MOST[operation]:
        raise _invalid(operation, f"{operation} takes 1 to {_MOST[operation]} items")


def _check_once(operation: str, message: str, keys: Sequence[tuple[str, Key]]) -> None:
    if len(keys) != len(set(keys)):
        raise _invalid(operation, message)


def _place(item: Item, places: Sequence[str]) -> Key:
    return tuple(plain(item[name])[1] for name in places)


def page_of(
    request: Item,
    found: list[Item],
    places: Sequence[str],
    *,
    backwards: bool = False,
    scarce: bool = False,
    more: bool = False,
) -> Item:
    """Answer a query or scan that found these items, in the order of these attributes. A page may begin after an item
    that is not there any more. Unlike AWS's, the last page is known to be it, even if it is full. ``scarce``: it has
    room for one item. ``more``: behind these there are others."""
    if "ExclusiveStartKey" in request:
        after = _place(request["ExclusiveStartKey"], places)
        if backwards:
            found = [item for item in found if _place(item, places) < after]
        else:
            found = [item for item in found if _place(item, places) > after]
    read = found[: 1 if scarce else _fitting(found[: request.get("Limit", len(found))])]
    last: Item = {}
    if more or len(read) < len(found):
        last = {"LastEvaluatedKey": copied({name: read[-1][name] for name in places})}
    test, known = condition(request.get("FilterExpression", "")), Names.of(request)
    kept = [projected(item, request) for item in read if test(item, known)]
    items: Item = {} if request.get("Select") == "COUNT" else {"Items": copied(kept)}
    return {**items, "Count": len(kept), "ScannedCount": len(read), **last}


def _fitting(found: list[Item]) -> int:
    """How many of the items fit into a page."""
    if len(marshal.dumps(found, 2)) <= _PAGE:  # without references it takes more than what DynamoDB counts
        return len(found)
    size = 0
    for number, item in enumerate(found):
        size += item_size(item)
        if size > _PAGE:
            return max(number, 1)
    return len(found)
