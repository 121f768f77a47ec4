"""DynamoDB in memory. It supports the requests that sagas make, with their conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from sagas.testing.expressions import Impossible, Item, Placeholders, condition, copied, plain, projected, update

Key = tuple[Any, ...]

KEYS: dict[str, tuple[str, ...]] = {
    "sagas": ("saga_id",),
    "audit": ("saga_id", "seq"),
    "joins": ("join", "part"),
}
"""The attributes of primary keys, by the last part of a table's name."""
INDEXES: dict[str, tuple[str, ...]] = {
    "open": ("open_shard", "due"),
    "by_name": ("name_shard", "created_at"),
    "incidents": ("incident_shard", "incident"),
    "ended": ("ended", "ended_at"),
}
"""The attributes of the keys of the indexes of sagas."""
PROJECTED: dict[str, tuple[str, ...]] = {"incidents": ("seq",)}
"""The attributes that an index has apart from keys."""
_REFUSED = "The conditional request failed"


def refusal(code: str, operation: str, message: str = "", **more: Any) -> ClientError:
    """Return the exception that botocore would raise for an AWS error."""
    error = {"Code": code, "Message": message or code}
    response: Any = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}, **more}
    return ClientError(response, operation)


def keys_of(table: str) -> tuple[str, ...]:
    """Return the attributes of a table's primary key, by the table's name."""
    return KEYS[table.rsplit("-", 1)[1]]


def place_of(item: Item, attributes: Sequence[str]) -> Key:
    """Return the values of an item's attributes as a key for sorting and lookup."""
    return tuple(plain(item[name])[1] for name in attributes)


@dataclass
class MemoryTables:
    """Answers DynamoDB requests from tables in memory. The last part of a table's name determines its primary key."""

    tables: dict[str, dict[Key, Item]] = field(default_factory=dict[str, dict[Key, Item]])

    def clear(self) -> None:
        self.tables.clear()

    def answer(self, operation: str, request: Item) -> Item:
        try:
            match operation:
                case "GetItem":
                    return self._get_item(request)
                case "PutItem" | "UpdateItem" | "DeleteItem":
                    return self._write(operation, request)
                case "BatchGetItem":
                    return self._batch_get(request)
                case "TransactWriteItems":
                    return self._transact(request)
                case "Query":
                    return self._query(request)
                case _:
                    raise NotImplementedError(f"the tables in memory do not answer {operation}")
        except Impossible as error:
            raise refusal("ValidationException", operation, str(error)) from error

    def item(self, table: str, key: Item) -> Item | None:
        """Return the current item; ``None`` if it does not exist. ``key`` is its key, or an item with this key."""
        return self._table(table).get(place_of(key, keys_of(table)))

    def _table(self, name: str) -> dict[Key, Item]:
        return self.tables.setdefault(name, {})

    def _seen(self, name: str, request: Item) -> dict[Key, Item]:
        """Return the items of a table that a read sees."""
        return self._table(name)

    def _target(self, request: Item) -> tuple[str, Key]:
        table = request["TableName"]
        return table, place_of(request.get("Item") or request["Key"], keys_of(table))

    def _put(self, table: str, key: Key, item: Item | None) -> None:
        if item is None:
            self._table(table).pop(key, None)
        else:
            self._table(table)[key] = item

    # One item

    def _get_item(self, request: Item) -> Item:
        table = request["TableName"]
        item = self._seen(table, request).get(place_of(request["Key"], keys_of(table)))
        return {} if item is None else {"Item": copied(projected(item, request))}

    def _write(self, operation: str, request: Item) -> Item:
        before = self._before(request)
        if not _holds(request, before):
            raise refusal("ConditionalCheckFailedException", operation, _REFUSED, **_old_item(request, before))
        after = self._after(operation.removesuffix("Item"), request, before)
        self._leave(request, after)
        item = {"NONE": None, "ALL_OLD": before, "ALL_NEW": after}[request.get("ReturnValues", "NONE")]
        return {} if item is None else {"Attributes": copied(item)}

    def _before(self, request: Item) -> Item | None:
        table, key = self._target(request)
        return self._table(table).get(key)

    def _after(self, kind: str, write: Item, before: Item | None) -> Item | None:
        """Return the item after a write, as a new object; ``None`` if the write deletes the item."""
        if kind == "ConditionCheck":
            return before
        if kind == "Delete":
            return None
        if kind == "Put":
            return copied(write["Item"])
        after = copied(write["Key"] if before is None else before)
        update(write.get("UpdateExpression", ""))(after, Placeholders.of(write))
        return after

    def _leave(self, request: Item, after: Item | None) -> None:
        self._put(*self._target(request), after)

    # Several

    def _batch_get(self, request: Item) -> Item:
        responses: dict[str, list[Item]] = {}
        for name, read in request["RequestItems"].items():
            table = self._seen(name, read)
            items = (table.get(place_of(key, keys_of(name))) for key in read["Keys"])
            responses[name] = [copied(projected(item, read)) for item in items if item is not None]
        return {"Responses": responses, "UnprocessedKeys": {}}

    def _transact(self, request: Item) -> Item:
        writes = [next(iter(write.items())) for write in request["TransactItems"]]
        outcomes = [self._outcome(kind, write) for kind, write in writes]
        reasons = [reason for reason, _ in outcomes]
        if any(reason["Code"] != "None" for reason in reasons):
            raise canceled(reasons)
        for (kind, write), (_, after) in zip(writes, outcomes, strict=True):
            if kind != "ConditionCheck":
                self._leave(write, after)
        return {}

    def _outcome(self, kind: str, write: Item) -> tuple[Item, Item | None]:
        """Return the reason why a write of a transaction fails, if it does, and the item after the write."""
        before = self._before(write)
        if not _holds(write, before):
            return {"Code": "ConditionalCheckFailed", "Message": _REFUSED, **_old_item(write, before)}, None
        try:
            return {"Code": "None"}, self._after(kind, write, before)
        except Impossible as error:
            return {"Code": "ValidationError", "Message": str(error)}, None

    # A page

    def _query(self, request: Item) -> Item:
        test = condition(request["KeyConditionExpression"])
        placeholders = Placeholders.of(request)
        items, order = self._searched(request)
        backwards = not request.get("ScanIndexForward", True)
        matches = [item for item in items if test(item, placeholders)]
        matches.sort(key=lambda item: place_of(item, order), reverse=backwards)
        return self._page(request, matches, order, backwards=backwards)

    def _searched(self, request: Item) -> tuple[Iterable[Item], Sequence[str]]:
        """Return the items that a query searches, and the attributes by which they are sorted."""
        items = self._seen(request["TableName"], request).values()
        keys = keys_of(request["TableName"])
        if "IndexName" not in request:
            return items, keys
        index = request["IndexName"]
        order = (*INDEXES[index], *keys)
        kept = (*order, *PROJECTED.get(index, ()))
        indexed = (item for item in items if all(name in item for name in order))
        return ({name: item[name] for name in kept if name in item} for item in indexed), order

    def _page(
        self, request: Item, items: Sequence[Item], order: Sequence[str], *, backwards: bool = False, more: bool = False
    ) -> Item:
        """Return a page of a query's or a scan's items. It may begin after an item that was deleted. Unlike on AWS, a
        full last page never announces another page."""
        if "ExclusiveStartKey" in request:
            start = place_of(request["ExclusiveStartKey"], order)
            places = ((item, place_of(item, order)) for item in items)
            items = [item for item, place in places if (place < start if backwards else place > start)]
        read = items[: self._fitting(items[: request.get("Limit", len(items))])]
        last: Item = {}
        if more or len(read) < len(items):
            last = {"LastEvaluatedKey": copied({name: read[-1][name] for name in order})}
        test = condition(request.get("FilterExpression", ""))
        placeholders = Placeholders.of(request)
        matches = [projected(item, request) for item in read if test(item, placeholders)]
        page: Item = {} if request.get("Select") == "COUNT" else {"Items": copied(matches)}
        return {**page, "Count": len(matches), "ScannedCount": len(read), **last}

    def _fitting(self, items: Sequence[Item]) -> int:
        """Return how many of the items fit into a page."""
        return len(items)


def canceled(reasons: Sequence[Item]) -> ClientError:
    """Return the error of a canceled transaction, with the reasons in the order of its writes."""
    codes = ", ".join(reason["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
    return refusal("TransactionCanceledException", "TransactWriteItems", message, CancellationReasons=reasons)


def _holds(request: Item, item: Item | None) -> bool:
    return condition(request.get("ConditionExpression", ""))(item or {}, Placeholders.of(request))


def _old_item(request: Item, item: Item | None) -> Item:
    """Return the item that did not meet a condition, if the request asks for the item."""
    requested = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and item is not None
    return {"Item": copied(item)} if requested else {}
