"""DynamoDB's expressions: conditions and updates, compiled once for each text."""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

Item = dict[str, Any]
Operand = Callable[[Item, "Names"], Any]
Test = Callable[[Item, "Names"], bool]
Change = Callable[[Item, "Names"], None]
Path = tuple[str | int, ...]

_TOKEN = re.compile(r"\s*([A-Za-z_#:]\w*|\d+|<=|>=|<>|[=<>()+\-,.\[\]])")


class Impossible(Exception):
    """The item is not such that the expression could be applied to it."""


@dataclass(frozen=True)
class Names:
    """What the placeholders of an expression stand for."""

    names: dict[str, str]
    values: dict[str, Any]

    @classmethod
    def of(cls, request: Item) -> Names:
        return cls(request.get("ExpressionAttributeNames", {}), request.get("ExpressionAttributeValues", {}))


def copied(value: Any) -> Any:
    """A deep copy of what JSON can say, and of bytes: ``copy.deepcopy`` took a third of the explorers' time."""
    return marshal.loads(marshal.dumps(value))  # noqa: S302 - its own bytes, of a moment ago


def number(text: str) -> int | Decimal:
    """What a value of type N stands for."""
    try:
        return int(text)
    except ValueError:
        return Decimal(text)


def plain(value: Any) -> Any:
    """A value that can be compared with others of its type: its type, and what Python has for it."""
    if value is None:
        return None
    [(kind, content)] = value.items()
    return (kind, number(content) if kind == "N" else content)


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
        holder = holder.get(part) if position == 0 else _inside(holder, part)
        if holder is None:
            raise Impossible("The document path provided in the update expression is invalid for update")
    place: Any = holder if not before else holder.get("L" if isinstance(last, int) else "M")
    if place is None:
        raise Impossible("The document path provided in the update expression is invalid for update")
    if isinstance(last, int):
        # A slice may be beyond the end, where what is set is appended.
        place[last : last + 1] = [] if value is None else [copied(value)]
    elif value is None:
        place.pop(last, None)
    else:
        place[last] = copied(value)


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

    def paths(self) -> list[Path]:
        return self._listed(self.path)

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
        if self._next == "NOT":
            self._take()
            refuted = self.test()
            return lambda item, known: not refuted(item, known)
        if self._next in ("attribute_exists", "attribute_not_exists"):
            there = self._take() == "attribute_exists"
            self._take("(")
            path = self.path()
            self._take(")")
            return lambda item, known: (_get(item, path, known) is not None) is there
        if self._next in ("begins_with", "contains"):
            asked = _begins if self._take() == "begins_with" else _contains
            self._take("(")
            path = self.path()
            self._take(",")
            part = self.operand()
            self._take(")")
            return lambda item, known: asked(_get(item, path, known), part(item, known))
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

    def update(self) -> Change:
        changes: list[tuple[Path, Operand | None]] = []
        while self._next:
            clause = self._take("SET", "REMOVE", "ADD", "DELETE")
            if clause == "REMOVE":
                changes += [(path, None) for path in self._listed(self.path)]
            else:
                one = {"SET": self._assignment, "ADD": self._addition, "DELETE": self._subtraction}[clause]
                changes += self._listed(one)

        def apply(item: Item, known: Names) -> None:
            values = [(path, value and value(item, known)) for path, value in changes]
            for path, value in values:
                _set(item, path, known, value)

        return apply

    def _addition(self) -> tuple[Path, Operand]:
        path, more = self.path(), self.operand()

        def total(item: Item, known: Names) -> Item:
            before, added = _get(item, path, known), more(item, known)
            if "N" in added:
                return _sum(before or {"N": "0"}, 1, added)
            [(kind, members)] = added.items()
            return {kind: sorted({*members, *_members(before, kind)})}

        return path, total

    def _subtraction(self) -> tuple[Path, Operand]:
        path, less = self.path(), self.operand()

        def rest(item: Item, known: Names) -> Item | None:
            [(kind, members)] = less(item, known).items()
            left = sorted(set(_members(_get(item, path, known), kind)) - {*members})
            return {kind: left} if left else None

        return path, rest

    def _assignment(self) -> tuple[Path, Operand]:
        path = self.path()
        self._take("=")
        left = self.operand()
        if self._next not in ("+", "-"):
            return path, lambda item, known: _there(left(item, known))
        factor = 1 if self._take() == "+" else -1
        right = self.operand()
        return path, lambda item, known: _sum(_there(left(item, known)), factor, _there(right(item, known)))


def _there(value: Any) -> Any:
    if value is None:
        raise Impossible("The provided expression refers to an attribute that does not exist in the item")
    return value


def _sum(left: Item, factor: int, right: Item) -> Item:
    if "N" not in left or "N" not in right:
        raise Impossible("An operand in the update expression has an incorrect data type")
    return {"N": str(number(left["N"]) + factor * number(right["N"]))}


def _members(value: Any, kind: str) -> list[Any]:
    if value is None:
        return []
    if kind not in value:
        raise Impossible("An operand in the update expression has an incorrect data type")
    return value[kind]


def _begins(value: Any, beginning: Item) -> bool:
    return value is not None and "S" in value and value["S"].startswith(beginning["S"])


def _contains(value: Any, part: Item) -> bool:
    if value is None:
        return False
    [(kind, content)] = value.items()
    if kind == "L":
        return part in content
    [(sort, wanted)] = part.items()
    return kind in (sort, sort + "S") and wanted in content


def _compare(sign: str, left: Any, right: Any) -> bool:
    one, other = plain(left), plain(right)
    if one is None or other is None or one[0] != other[0]:
        return sign == "<>"  # what is not there, or of another type, differs
    if sign in ("=", "<>"):
        return (one[1] == other[1]) is (sign == "=")
    order = (one[1] > other[1]) - (one[1] < other[1])
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[sign]


@lru_cache(maxsize=4096)
def condition(text: str) -> Test:
    """Compile a condition; an empty one always holds."""
    return _Parser(text).either() if text else lambda item, known: True


@lru_cache(maxsize=4096)
def update(text: str) -> Change:
    """Compile an update, which changes an item in place.

    Applied, it raises :class:`Impossible` for an item that it cannot be applied to.
    """
    return _Parser(text).update()


@lru_cache(maxsize=4096)
def _paths(text: str) -> list[Path]:
    return _Parser(text).paths()


def projected(item: Item, asked: Item) -> Item:
    """An item; of the attributes asked for, where some are."""
    if "ProjectionExpression" not in asked:
        return item
    known, found = Names.of(asked), Item()
    for path in _paths(asked["ProjectionExpression"]):
        value = _get(item, path, known)
        if value is not None:
            assert len(path) == 1, "parts of attributes are asked for by nobody"
            found[str(_resolve(path, known)[0])] = value
    return found


EXPRESSIONS = (
    "ConditionExpression",
    "UpdateExpression",
    "KeyConditionExpression",
    "FilterExpression",
    "ProjectionExpression",
)
_PLACEHOLDER = re.compile(r"[#:]\w+")


def check_placeholders(request: Item) -> None:
    """Refuse what AWS refuses before it looks at any item, and moto only outside of transactions.

    Raises:
        Impossible: a placeholder stands for nothing, or one is in no expression.
    """
    used = _placeholders(tuple(request.get(name, "") for name in EXPRESSIONS))
    for what in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if what not in request:
            continue
        if not request[what]:
            raise Impossible(f"{what} must not be empty")
        if unused := request[what].keys() - used:
            raise Impossible(f"Value provided in {what} unused in expressions: keys: {unused}")
    given = {*request.get("ExpressionAttributeNames", ()), *request.get("ExpressionAttributeValues", ())}
    if undefined := used - given:
        raise Impossible(f"not defined: {undefined}")


@lru_cache(maxsize=4096)
def _placeholders(texts: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_PLACEHOLDER.findall(" ".join(texts)))
