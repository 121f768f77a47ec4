"""Compiles DynamoDB's expressions (conditions, updates and projections), each text only once."""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

Item = dict[str, Any]
Operand = Callable[[Item, "Placeholders"], Any]
Test = Callable[[Item, "Placeholders"], bool]
Change = Callable[[Item, "Placeholders"], None]
Path = tuple[str | int, ...]

_TOKEN = re.compile(r"\s*([A-Za-z_#:]\w*|\d+|<=|>=|<>|[=<>()+\-,.\[\]])")
_NO_PATH = "The document path provided in the update expression is invalid for update"
_WRONG_TYPE = "An operand in the update expression has an incorrect data type"


class Impossible(Exception):
    """The expression cannot be applied to the item. DynamoDB answers with a ValidationException."""


@dataclass(frozen=True)
class Placeholders:
    """The names and values that the placeholders of an expression stand for."""

    names: dict[str, str]
    values: dict[str, Any]

    @classmethod
    def of(cls, request: Item) -> Placeholders:
        return cls(request.get("ExpressionAttributeNames", {}), request.get("ExpressionAttributeValues", {}))


def copied(value: Any) -> Any:
    """Return a deep copy of an item. With ``copy.deepcopy``, exploring all orders would take 50 % longer."""
    return marshal.loads(marshal.dumps(value))  # noqa: S302 - only bytes that were just dumped


def number(text: str) -> int | Decimal:
    """Return the number in a value of type N."""
    try:
        return int(text)
    except ValueError:
        return Decimal(text)


def plain(value: Any) -> Any:
    """Return the type of a value, and a Python object that can be compared with others of this type."""
    if value is None:
        return None
    [(kind, content)] = value.items()
    return (kind, number(content) if kind == "N" else content)


def _resolve(path: Path, placeholders: Placeholders) -> list[str | int]:
    return [part if isinstance(part, int) else placeholders.names.get(part, part) for part in path]


def _inside(value: Any, part: str | int) -> Any:
    if isinstance(part, int):
        members = value.get("L", [])
        return members[part] if part < len(members) else None
    return value.get("M", {}).get(part)


def _get(item: Item, path: Path, placeholders: Placeholders) -> Any:
    first, *inner = _resolve(path, placeholders)
    value = item.get(str(first))
    for part in inner:
        value = None if value is None else _inside(value, part)
    return value


def _set(item: Item, path: Path, placeholders: Placeholders, value: Any) -> None:
    *outer, last = _resolve(path, placeholders)
    holder: Any = item
    for depth, part in enumerate(outer):
        holder = holder.get(part) if depth == 0 else _inside(holder, part)
        if holder is None:
            raise Impossible(_NO_PATH)
    members: Any = holder.get("L" if isinstance(last, int) else "M") if outer else holder
    if members is None:
        raise Impossible(_NO_PATH)
    if isinstance(last, int):
        # An index beyond the end appends the value.
        members[last : last + 1] = [] if value is None else [copied(value)]
    elif value is None:
        members.pop(last, None)
    else:
        members[last] = copied(value)


class _Parser:
    """A recursive-descent parser of DynamoDB's grammar, without the functions that the store never uses."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        self._at = 0

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *expected: str) -> str:
        token = self._next
        if expected and token not in expected:
            raise NotImplementedError(f"found {token!r}, expected one of {expected}: {self._tokens}")
        self._at += 1
        return token

    def _listed(self, parse: Callable[[], Any]) -> list[Any]:
        parsed = [parse()]
        while self._next == ",":
            self._take()
            parsed.append(parse())
        return parsed

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
            return lambda item, placeholders: placeholders.values[name]
        if self._next == "if_not_exists":
            self._take()
            self._take("(")
            path = self.path()
            self._take(",")
            default = self.operand()
            self._take(")")
            return lambda item, placeholders: _get(item, path, placeholders) or default(item, placeholders)
        path = self.path()
        return lambda item, placeholders: _get(item, path, placeholders)

    def either(self) -> Test:
        tests = [self._both()]
        while self._next == "OR":
            self._take()
            tests.append(self._both())
        if len(tests) == 1:
            return tests[0]
        return lambda item, placeholders: any(test(item, placeholders) for test in tests)

    def _both(self) -> Test:
        tests = [self._test()]
        while self._next == "AND":
            self._take()
            tests.append(self._test())
        if len(tests) == 1:
            return tests[0]
        return lambda item, placeholders: all(test(item, placeholders) for test in tests)

    def _test(self) -> Test:
        if self._next == "(":
            self._take()
            inner = self.either()
            self._take(")")
            return inner
        if self._next == "NOT":
            self._take()
            test = self._test()
            return lambda item, placeholders: not test(item, placeholders)
        if self._next in ("attribute_exists", "attribute_not_exists"):
            exists = self._take() == "attribute_exists"
            self._take("(")
            path = self.path()
            self._take(")")
            return lambda item, placeholders: (_get(item, path, placeholders) is not None) is exists
        if self._next in ("begins_with", "contains"):
            compare = _begins if self._take() == "begins_with" else _contains
            self._take("(")
            path = self.path()
            self._take(",")
            part = self.operand()
            self._take(")")
            return lambda item, placeholders: compare(_get(item, path, placeholders), part(item, placeholders))
        return self._comparison(self.operand())

    def _comparison(self, left: Operand) -> Test:
        sign = self._take("=", "<>", "<", "<=", ">", ">=", "IN", "BETWEEN")
        if sign == "IN":
            self._take("(")
            options = self._listed(self.operand)
            self._take(")")
            return lambda item, placeholders: (
                left(item, placeholders) in [option(item, placeholders) for option in options]
            )
        right = self.operand()
        if sign == "BETWEEN":
            self._take("AND")
            last = self.operand()
            return lambda item, placeholders: (
                _compare(">=", left(item, placeholders), right(item, placeholders))
                and _compare("<=", left(item, placeholders), last(item, placeholders))
            )
        return lambda item, placeholders: _compare(sign, left(item, placeholders), right(item, placeholders))

    def update(self) -> Change:
        changes: list[tuple[Path, Operand | None]] = []
        while self._next:
            clause = self._take("SET", "REMOVE", "ADD", "DELETE")
            if clause == "REMOVE":
                changes += [(path, None) for path in self._listed(self.path)]
            else:
                parse = {"SET": self._assignment, "ADD": self._addition, "DELETE": self._subtraction}[clause]
                changes += self._listed(parse)

        def apply(item: Item, placeholders: Placeholders) -> None:
            values = [(path, operand and operand(item, placeholders)) for path, operand in changes]
            for path, value in values:
                _set(item, path, placeholders, value)

        return apply

    def _addition(self) -> tuple[Path, Operand]:
        path = self.path()
        operand = self.operand()

        def total(item: Item, placeholders: Placeholders) -> Item:
            before = _get(item, path, placeholders)
            added = operand(item, placeholders)
            if "N" in added:
                return _sum(before or {"N": "0"}, 1, added)
            [(kind, members)] = added.items()
            return {kind: sorted({*members, *_members(before, kind)})}

        return path, total

    def _subtraction(self) -> tuple[Path, Operand]:
        path = self.path()
        operand = self.operand()

        def remaining(item: Item, placeholders: Placeholders) -> Item | None:
            [(kind, members)] = operand(item, placeholders).items()
            remaining = sorted(set(_members(_get(item, path, placeholders), kind)) - {*members})
            return {kind: remaining} if remaining else None

        return path, remaining

    def _assignment(self) -> tuple[Path, Operand]:
        path = self.path()
        self._take("=")
        left = self.operand()
        if self._next not in ("+", "-"):
            return path, lambda item, placeholders: _existing(left(item, placeholders))
        factor = 1 if self._take() == "+" else -1
        right = self.operand()
        return path, lambda item, placeholders: _sum(
            _existing(left(item, placeholders)), factor, _existing(right(item, placeholders))
        )


def _existing(value: Any) -> Any:
    if value is None:
        raise Impossible("The provided expression refers to an attribute that does not exist in the item")
    return value


def _sum(left: Item, factor: int, right: Item) -> Item:
    if "N" not in left or "N" not in right:
        raise Impossible(_WRONG_TYPE)
    return {"N": str(number(left["N"]) + factor * number(right["N"]))}


def _members(value: Any, kind: str) -> list[Any]:
    if value is None:
        return []
    if kind not in value:
        raise Impossible(_WRONG_TYPE)
    return value[kind]


def _begins(value: Any, beginning: Item) -> bool:
    return value is not None and "S" in value and value["S"].startswith(beginning["S"])


def _contains(value: Any, part: Item) -> bool:
    if value is None:
        return False
    [(kind, content)] = value.items()
    if kind == "L":
        return part in content
    [(part_kind, part_content)] = part.items()
    return kind in (part_kind, part_kind + "S") and part_content in content


def _compare(sign: str, left: Any, right: Any) -> bool:
    first = plain(left)
    second = plain(right)
    if first is None or second is None or first[0] != second[0]:
        return sign == "<>"  # a missing value, or a value of another type, differs
    if sign in ("=", "<>"):
        return (first[1] == second[1]) is (sign == "=")
    order = (first[1] > second[1]) - (first[1] < second[1])
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[sign]


@lru_cache(maxsize=4096)
def condition(text: str) -> Test:
    """Compile a condition. An empty condition always holds."""
    return _Parser(text).either() if text else lambda item, placeholders: True


@lru_cache(maxsize=4096)
def update(text: str) -> Change:
    """Compile an update. It changes an item in place, or raises :class:`Impossible` if it does not fit the item."""
    return _Parser(text).update()


@lru_cache(maxsize=4096)
def _paths(text: str) -> list[Path]:
    return _Parser(text).paths()


def projected(item: Item, request: Item) -> Item:
    """Return an item with only the attributes that a request names. If it names none, return all."""
    if "ProjectionExpression" not in request:
        return item
    placeholders = Placeholders.of(request)
    attributes = Item()
    for path in _paths(request["ProjectionExpression"]):
        name, *inner = _resolve(path, placeholders)
        if inner:
            raise NotImplementedError("only whole attributes can be projected")
        if name in item:
            attributes[str(name)] = item[str(name)]
    return attributes
