"""DynamoDB in memory: the requests the store makes, with their conditions, twenty times faster than an emulator.

``tests/engine/test_tables_agree.py`` has moto answer the same requests and compares every answer.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from botocore.exceptions import ClientError

Item = dict[str, Any]
Operand = Callable[[Item, "Names"], Any]
Test = Callable[[Item, "Names"], bool]

KEYS: dict[str, tuple[str, ...]] = {
    "sagas": ("saga_id",),
    "audit": ("saga_id", "seq"),
    "joins": ("join", "part"),
}
"""The primary keys, by the last part of a table's name."""
_TOKEN = re.compile(r"\s*([A-Za-z_#:]\w*|\d+|<=|>=|<>|[=<>()+\-,.\[\]])")


def refusal(code: str, operation: str, **more: Any) -> ClientError:
    """Return the error that botocore raises for an answer of AWS."""
    answer: Any = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": 400}, **more}
    return ClientError(answer, operation)


@dataclass(frozen=True)
class Names:
    """What the placeholders of an expression stand for."""

    names: dict[str, str]
    values: dict[str, Any]

    @classmethod
    def of(cls, request: Item) -> Names:
        return cls(request.get("ExpressionAttributeNames", {}), request.get("ExpressionAttributeValues", {}))


def _copied(value: Any) -> Any:
    """A deep copy of what JSON can say, and of bytes: ``copy.deepcopy`` took a third of the explorers' time."""
    return marshal.loads(marshal.dumps(value))  # noqa: S302 - its own bytes, of a moment ago


Path = tuple[str | int, ...]


def _resolve(path: Path, known: Names) -> list[str | int]:
    return [part if isinstance(part, int) else known.names.get(part, part) for part in path]


def _inside(value: Any, part: str | int) -> Any:
    if isinstance(part, int):
        members = value.get("L", [])
        return members[part] if part < len(members) else None
    return value.get("M", {}).get(part)


def _get(item: Item, path: Path, known: Names) -> Any:
    first, *rest = _resolve(path, known)
    value = item.get(str(first))
    for part in rest:
        value = None if value is None else _inside(value, part)
    return value


def _set(item: Item, path: Path, known: Names, value: Any) -> None:
    *before, last = _resolve(path, known)
    holder: Any = item
    for position, part in enumerate(before):
        holder = holder[part] if position == 0 else _inside(holder, part)
    if not before:
        place: Any = holder
    else:
        place = holder["L"] if isinstance(last, int) else holder["M"]
    if value is None:
        place.pop(last, None)
    else:
        place[last] = _copied(value)


def _plain(value: Any) -> Any:
    if value is None:
        return None
    [(kind, content)] = value.items()
    return (kind, int(content) if kind == "N" else content)


class _Parser:
    """Recursive descent over the grammar of condition and update expressions, as far as it is used here."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        self._at = 0

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *expected: str) -> str:
        token = self._next
        assert not expected or token in expected, f"{token} is not one of {expected}: {self._tokens}"
        self._at += 1
        return token

    def _listed(self, one: Callable[[], Any]) -> list[Any]:
        found = [one()]
        while self._next == ",":
            self._take()
            found.append(one())
        return found

    def path(self) -> Path:
        parts: list[str | int] = [self._take()]
        while self._next in (".", "["):
            if self._take() == ".":
                parts.append(self._take())
            else:
                parts.append(int(self._take()))
                self._take("]")
        return tuple(parts)

    def operand(self) -> Operand:
        if self._next.startswith(":"):
            name = self._take()
            return lambda item, known: known.values[name]
        if self._next == "if_not_exists":
            self._take()
            self._take("(")
            path = self.path()
            self._take(",")
            other = self.operand()
            self._take(")")
            return lambda item, known: _get(item, path, known) or other(item, known)
        path = self.path()
        return lambda item, known: _get(item, path, known)

    def either(self) -> Test:
        tests = [self.both()]
        while self._next == "OR":
            self._take()
            tests.append(self.both())
        return tests[0] if len(tests) == 1 else lambda item, known: any(test(item, known) for test in tests)

    def both(self) -> Test:
        tests = [self.test()]
        while self._next == "AND":
            self._take()
            tests.append(self.test())
        return tests[0] if len(tests) == 1 else lambda item, known: all(test(item, known) for test in tests)

    def test(self) -> Test:
        if self._next == "(":
            self._take()
            inner = self.either()
            self._take(")")
            return inner
        if self._next in ("attribute_exists", "attribute_not_exists"):
            there = self._take() == "attribute_exists"
            self._take("(")
            path = self.path()
            self._take(")")
            return lambda item, known: (_get(item, path, known) is not None) is there
        if self._next == "begins_with":
            self._take()
            self._take("(")
            path = self.path()
            self._take(",")
            beginning = self.operand()
            self._take(")")
            return lambda item, known: _get(item, path, known)["S"].startswith(beginning(item, known)["S"])
        return self._comparison(self.operand())

    def _comparison(self, left: Operand) -> Test:
        sign = self._take("=", "<>", "<", "<=", ">", ">=", "IN", "BETWEEN")
        if sign == "IN":
            self._take("(")
            options = self._listed(self.operand)
            self._take(")")
            return lambda item, known: left(item, known) in [option(item, known) for option in options]
        right = self.operand()
        if sign == "BETWEEN":
            self._take("AND")
            last = self.operand()
            return lambda item, known: (
                _compare(">=", left(item, known), right(item, known))
                and _compare("<=", left(item, known), last(item, known))
            )
        return lambda item, known: _compare(sign, left(item, known), right(item, known))

    def update(self) -> Callable[[Item, Names], None]:
        changes: list[tuple[Path, Operand | None]] = []
        while self._next:
            clause = self._take("SET", "REMOVE", "ADD")
            if clause == "REMOVE":
                changes += [(path, None) for path in self._listed(self.path)]
            else:
                changes += self._listed(self._assignment if clause == "SET" else self._addition)

        def apply(item: Item, known: Names) -> None:
            values = [(path, value and value(item, known)) for path, value in changes]
            for path, value in values:
                _set(item, path, known, value)

        return apply

    def _addition(self) -> tuple[Path, Operand]:
        path, more = self.path(), self.operand()

        def total(item: Item, known: Names) -> Item:
            before = _get(item, path, known) or {"N": "0"}
            return {"N": str(int(before["N"]) + int(more(item, known)["N"]))}

        return path, total

    def _assignment(self) -> tuple[Path, Operand]:
        path = self.path()
        self._take("=")
        left = self.operand()
        if self._next not in ("+", "-"):
            return path, left
        factor = 1 if self._take() == "+" else -1
        right = self.operand()
        return path, lambda item, known: {"N": str(int(left(item, known)["N"]) + factor * int(right(item, known)["N"]))}


def _compare(sign: str, left: Any, right: Any) -> bool:
    one, other = _plain(left), _plain(right)
    if one is None or other is None or one[0] != other[0]:
        return False
    order = (one[1] > other[1]) - (one[1] < other[1])
    return {"=": order == 0, "<>": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[sign]


@lru_cache(maxsize=4096)
def _condition(text: str) -> Test:
    return _Parser(text).either() if text else lambda item, known: True


@lru_cache(maxsize=4096)
def _update(text: str) -> Callable[[Item, Names], None]:
    return _Parser(text).update()


Key = tuple[Any, ...]
_NOT_MET = {"Code": "ConditionalCheckFailed"}


def _projected(item: Item, asked: Item) -> Item:
    """A copy of an item; of the attributes asked for, where some are."""
    if "ProjectionExpression" not in asked:
        return _copied(item)
    names: dict[str, str] = asked.get("ExpressionAttributeNames", {})
    wanted = {names.get(one.strip(), one.strip()) for one in asked["ProjectionExpression"].split(",")}
    return _copied({name: value for name, value in item.items() if name in wanted})


@dataclass
class MemoryTables:
    """Answers DynamoDB's requests. What a table's name ends in tells its key."""

    tables: dict[str, dict[Key, Item]] = field(default_factory=dict[str, dict[Key, Item]])

    def clear(self) -> None:
        self.tables.clear()

    def answer(self, operation: str, request: Item) -> Item:
        """Return the answer, or raise botocore's error for it."""
        known: dict[str, Callable[[Item], Item]] = {
            "GetItem": self._get_item,
            "PutItem": self._put_item,
            "UpdateItem": self._update_item,
            "DeleteItem": self._delete_item,
            "BatchGetItem": self._batch_get,
            "BatchWriteItem": self._batch_write,
            "TransactWriteItems": self._transact,
            "Query": self._query,
        }
        return known[operation](request)

    def forget(self, table: str, *key: Any) -> None:
        """Delete an item, whatever it is like."""
        self._table(table).pop(key, None)

    def items(self, table: str) -> list[Item]:
        """Return the items of a table, by key."""
        return [item for _, item in sorted(self.tables.get(table, {}).items())]

    def _key(self, table: str, item: Item) -> Key:
        return tuple(_plain(item[name])[1] for name in KEYS[table.rsplit("-", 1)[1]])

    def _table(self, name: str) -> dict[Key, Item]:
        return self.tables.setdefault(name, {})

    def _get_item(self, request: Item) -> Item:
        found = self._table(request["TableName"]).get(self._key(request["TableName"], request["Key"]))
        return {} if found is None else {"Item": _copied(found)}

    def _holds(self, request: Item, item: Item | None) -> bool:
        return _condition(request.get("ConditionExpression", ""))(item or {}, Names.of(request))

    def _put_item(self, request: Item) -> Item:
        table, key = self._table(request["TableName"]), self._key(request["TableName"], request["Item"])
        if not self._holds(request, table.get(key)):
            raise refusal("ConditionalCheckFailedException", "PutItem")
        table[key] = _copied(request["Item"])
        return {}

    def _updated(self, request: Item) -> Item:
        found = self._table(request["TableName"]).get(self._key(request["TableName"], request["Key"]))
        item = _copied(request["Key"] if found is None else found)
        _update(request["UpdateExpression"])(item, Names.of(request))
        return item

    def _update_item(self, request: Item) -> Item:
        table, key = self._table(request["TableName"]), self._key(request["TableName"], request["Key"])
        if not self._holds(request, table.get(key)):
            raise refusal("ConditionalCheckFailedException", "UpdateItem")
        table[key] = self._updated(request)
        return {"Attributes": _copied(table[key])} if request.get("ReturnValues") == "ALL_NEW" else {}

    def _delete_item(self, request: Item) -> Item:
        table, key = self._table(request["TableName"]), self._key(request["TableName"], request["Key"])
        if not self._holds(request, table.get(key)):
            raise refusal("ConditionalCheckFailedException", "DeleteItem")
        table.pop(key, None)
        return {}

    def _batch_write(self, request: Item) -> Item:
        for name, writes in request["RequestItems"].items():
            for write in writes:
                self._table(name).pop(self._key(name, write["DeleteRequest"]["Key"]), None)
        return {"UnprocessedItems": {}}

    def _batch_get(self, request: Item) -> Item:
        answers: dict[str, list[Item]] = {}
        for name, asked in request["RequestItems"].items():
            found = [self._table(name).get(self._key(name, key)) for key in asked["Keys"]]
            answers[name] = [_projected(item, asked) for item in found if item is not None]
        return {"Responses": answers, "UnprocessedKeys": {}}

    def _transact(self, request: Item) -> Item:
        writes = [next(iter(item.items())) for item in request["TransactItems"]]
        reasons = [{"Code": "None"} if self._possible(write) else _NOT_MET for _, write in writes]
        if _NOT_MET in reasons:
            raise refusal("TransactionCanceledException", "TransactWriteItems", CancellationReasons=reasons)
        written = {"Put": self._put_item, "Update": self._update_item}
        for kind, write in writes:
            if kind != "ConditionCheck":
                written[kind](write)
        return {}

    def _possible(self, write: Item) -> bool:
        table = write["TableName"]
        return self._holds(write, self._table(table).get(self._key(table, write.get("Item") or write["Key"])))

    def _query(self, request: Item) -> Item:
        test, known = _condition(request["KeyConditionExpression"]), Names.of(request)
        found = [item for item in self.items(request["TableName"]) if test(item, known)]
        if "IndexName" in request:
            shard, sort = _KEYS[request["IndexName"]]
            found = [{name: item[name] for name in ("saga_id", shard, sort)} for item in found]
            found.sort(key=lambda item: (item[sort]["S"], item["saga_id"]["S"]))
        if not request.get("ScanIndexForward", True):
            found.reverse()
        if request.get("IndexName") == "open":
            return page_of(request, _copied(found))
        return {"Items": _copied(found), "Count": len(found), "ScannedCount": len(found)}


_KEYS = {
    "open": ("open_shard", "due"),
    "by_name": ("name_shard", "created_at"),
    "attention": ("attention_shard", "attention_at"),
}
"""Of the indexes of control items."""


def page_of(request: Item, found: list[Item]) -> Item:
    """Answer a query of the index ``open`` that found these items, in order. A page may begin after an item that is not
    there any more."""
    if "ExclusiveStartKey" in request:
        after = tuple(request["ExclusiveStartKey"][name]["S"] for name in ("due", "saga_id"))
        found = [item for item in found if tuple(item[name]["S"] for name in ("due", "saga_id")) > after]
    limit = request.get("Limit", len(found))
    more: Item = {"LastEvaluatedKey": found[limit - 1]} if limit < len(found) else {}
    return {"Items": found[:limit], "Count": len(found[:limit]), "ScannedCount": len(found[:limit]), **more}
