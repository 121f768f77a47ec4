"""What DynamoDB refuses of a request as such, before it looks at any item."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import NamedTuple

from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords

from sagas.testing.expressions import Impossible, Item, Placeholders, condition, plain

EXPRESSIONS = (
    "ConditionExpression",
    "UpdateExpression",
    "KeyConditionExpression",
    "FilterExpression",
    "ProjectionExpression",
)
_RESERVED = frozenset(ReservedKeywords.get_reserved_keywords())
_WORD = re.compile(r"(?<![\w#:])[A-Za-z_]\w*(?!\w*\s*\()")
_SYNTAX = {"AND", "OR", "NOT", "IN", "BETWEEN", "SET", "REMOVE", "ADD", "DELETE"}
_TWICE_IN_PARENTHESES = re.compile(r"\(\s*\(")
_BETWEEN = re.compile(r"\bBETWEEN\s+(:\w+)\s+AND\s+(:\w+)")
_ORDERED = re.compile(r"(?:<=|>=|<(?!>)|(?<!<)>)\s*(:\w+)")
_BEGINNING = re.compile(r"begins_with\s*\([^,]+,\s*(:\w+)")
_OPERATOR = re.compile(r"<=|>=|<>|[=<>+]|\b(?:AND|OR|NOT|IN|BETWEEN)\b|\w+\s*\(")
_IN = re.compile(r"\bIN\s*\(([^)]*)\)")
_PLACEHOLDER = re.compile(r"[#:]\w+")
_CLAUSE = re.compile(r"\b(SET|REMOVE|ADD|DELETE)\b")
_LONGEST = 4096
"""Bytes of an expression."""
_MOST_OPERATORS = 300
_MOST_OPTIONS = 100
_DIGITS = 38
_EXACT = Context(prec=1_000)
_DEEPEST = 32
_LONGEST_KEYS = (2048, 1024)
"""Bytes of a partition key and of a sort key."""
_TYPES = frozenset({"S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"})
_ORDERABLE, _WITH_BEGINNINGS = frozenset({"S", "N", "B"}), frozenset({"S", "B"})
_NUMBERED = frozenset({"seq"})
"""The keys that are numbers; all others are strings."""


def check(operation: str, request: Item, keys: Sequence[str], index: Sequence[str]) -> None:
    """Refuse a request for one table, or the part of one that is.

    Args:
        operation: DynamoDB's name of it; of a part of a transaction or a batch, the part's.
        request: its parameters.
        keys: of the table.
        index: the keys of the index that is asked; empty if none is.

    Raises:
        Impossible: AWS answers with a ValidationException.
    """
    _check_placeholders(request)
    texts = tuple((name, request[name]) for name in EXPRESSIONS if name in request)
    told = _told(texts)
    if "ExpressionAttributeValues" in request:
        _check_values(told, request["ExpressionAttributeValues"])
    if "Key" in request:
        check_key(request["Key"], keys)
    if told.changed:
        names = request.get("ExpressionAttributeNames", {})
        if any(names.get(path, path) in keys for path in told.changed):
            raise Impossible("Cannot update attribute. This attribute is part of the key")
    if operation == "ConditionCheck" and not request.get("ConditionExpression"):
        raise Impossible("ConditionCheck needs a ConditionExpression")
    if request.get("Limit", 1) < 1:
        raise Impossible("Limit must be greater than or equal to 1")
    if operation in ("Query", "Scan"):
        _check_search(request, keys, index)


def _check_placeholders(request: Item) -> None:
    """Refuse placeholders that do not fit the expressions.

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


def _check_search(request: Item, keys: Sequence[str], index: Sequence[str]) -> None:
    if index and request.get("ConsistentRead"):
        raise Impossible("Consistent reads are not supported on global secondary indexes")
    if request.get("Select") == "COUNT" and "ProjectionExpression" in request:
        raise Impossible("Cannot specify the ProjectionExpression when choosing to get the COUNT")
    known = Placeholders.of(request)
    if "FilterExpression" in request and "KeyConditionExpression" in request:
        words = re.findall(r"(?<!:)#?\b[A-Za-z_]\w*", request["FilterExpression"])
        if any(known.names.get(word, word) in (index or keys) for word in words):
            raise Impossible("Filter Expression can only contain non-primary key attributes")
    if "ExclusiveStartKey" not in request:
        return
    start = request["ExclusiveStartKey"]
    check_key(start, list(dict.fromkeys((*index, *keys))), sizes=False)
    if "KeyConditionExpression" in request and not condition(request["KeyConditionExpression"])(start, known):
        raise Impossible("The provided starting key is outside query boundaries based on provided conditions")


def check_key(key: Item, names: Sequence[str], *, sizes: bool = True) -> None:
    """Refuse a key that is not a table's.

    Raises:
        Impossible: an attribute is missing, is too many, or cannot be a key.
    """
    if key.keys() != set(names):
        raise Impossible("The provided key element does not match the schema")
    _check_keys(key, names if sizes else ())


def check_item(item: Item, keys: Sequence[str], indexes: Iterable[Sequence[str]]) -> None:
    """Refuse an item that is to be put.

    Raises:
        Impossible: it lacks a key, or has a value that no attribute, or none of that name, can have.
    """
    if not item.keys() >= set(keys):
        raise Impossible("One of the required keys was not given a value")
    for value in item.values():
        _check_value(value)
    check_indexed(item, keys, indexes)


def check_indexed(item: Item, keys: Sequence[str], indexes: Iterable[Sequence[str]]) -> None:
    """Refuse what cannot be in the table's indexes, nor in the table.

    Raises:
        Impossible: a key is empty, too long or of the wrong type.
    """
    for names in (keys, *indexes):
        _check_keys(item, names)


def _check_keys(item: Item, names: Sequence[str]) -> None:
    for name, most in zip(names, _LONGEST_KEYS, strict=False):
        value = item.get(name)
        if value is None:
            continue
        kind = "N" if name in _NUMBERED else "S"
        if kind not in value:
            raise Impossible(f"Type mismatch for key {name}")
        if kind == "S" and not 0 < len(value["S"].encode()) <= most:
            raise Impossible(f"The key {name} is empty, or has more than {most} bytes")


def _check_value(value: Item, depth: int = 1) -> None:
    if len(value) != 1:
        raise Impossible("Supplied AttributeValue must contain exactly one of the supported datatypes")
    [(kind, content)] = value.items()
    if kind not in _TYPES:
        raise Impossible(f"{kind} is no type")
    if kind == "N":
        _check_number(content)
    elif kind in ("SS", "NS", "BS") and (not content or len(set(content)) != len(content)):
        raise Impossible("A set is empty, or has duplicates")
    elif kind in ("M", "L"):
        if depth == _DEEPEST:
            raise Impossible("Nesting Levels have exceeded supported limits")
        if kind == "M" and not all(content):
            raise Impossible("An attribute in a map has no name")
        for inner in content.values() if kind == "M" else content:
            _check_value(inner, depth + 1)


def _check_number(text: str) -> None:
    if len(text) <= _DIGITS and text.lstrip("-").isdigit():
        return
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        raise Impossible(f"The parameter cannot be converted to a numeric value: {text}")
    if len(value.normalize(_EXACT).as_tuple().digits) > _DIGITS:
        raise Impossible(f"Attempting to store more than {_DIGITS} significant digits in a Number")
    if value and not -130 <= value.adjusted() <= 125:
        raise Impossible("Number overflow")


def _check_values(told: _Told, values: Mapping[str, Item]) -> None:
    for value in values.values():
        _check_value(value)
    for first, last in told.between:
        low, high = plain(values[first]), plain(values[last])
        if low[0] != high[0] or low[1] > high[1]:
            raise Impossible("The BETWEEN operator requires upper bound to be greater than or equal to lower bound")
    for name in told.ordered:
        if not values[name].keys() <= _ORDERABLE:
            raise Impossible(f"Incorrect operand type for operator: {name}")
    for name in told.beginnings:
        if not values[name].keys() <= _WITH_BEGINNINGS:
            raise Impossible(f"Incorrect operand type for function begins_with: {name}")


class _Told(NamedTuple):
    """What the expressions of a request tell: of the values which ones are bounds of a span, which are compared by
    order or are a beginning; and the attributes that are changed."""

    between: list[tuple[str, str]]
    ordered: list[str]
    beginnings: list[str]
    changed: list[str]


@lru_cache(maxsize=4096)
def _told(texts: tuple[tuple[str, str], ...]) -> _Told:
    """Read expressions, given with the names of their parameters.

    Raises:
        Impossible: AWS takes none that is like this.
    """
    changed = list[str]()
    for what, text in texts:
        words = {word.upper() for word in _WORD.findall(text) if word not in _SYNTAX}
        paths = _changed(text) if what == "UpdateExpression" else []
        changed += [re.split(r"[.\[]", path)[0] for path in paths]
        wrong = {
            "The expression can not be empty": not text.strip(),
            "Expression size has exceeded the maximum allowed size": len(text.encode()) > _LONGEST,
            f"Attribute name is a reserved keyword: {words & _RESERVED}": words & _RESERVED,
            f"Two document paths overlap with each other: {_overlapping(paths)}": _overlapping(paths),
            "The expression has redundant parentheses": what != "UpdateExpression" and _redundant(text),
            "The expression contains too many operators": len(_OPERATOR.findall(text)) > _MOST_OPERATORS,
            "Membership test has too many operands": any(one.count(",") >= _MOST_OPTIONS for one in _IN.findall(text)),
        }
        for told in (told for told, found in wrong.items() if found):
            raise Impossible(f"Invalid {what}: {told}")
    tests = " ; ".join(text for what, text in texts if what != "UpdateExpression")
    return _Told(_BETWEEN.findall(tests), _ORDERED.findall(tests), _BEGINNING.findall(tests), changed)


def _overlapping(paths: Sequence[str]) -> list[str]:
    return [
        path
        for place, path in enumerate(paths)
        if any(path == one or one.startswith((f"{path}.", f"{path}[")) for at, one in enumerate(paths) if at != place)
    ]


def _redundant(text: str) -> bool:
    """Whether parentheses are around nothing but parentheses."""
    open_at, pairs = list[int](), dict[int, int]()
    for place, character in enumerate(text):
        if character == "(":
            open_at.append(place)
        elif character == ")":
            pairs[open_at.pop()] = place
    within = (match.end() - 1 for match in _TWICE_IN_PARENTHESES.finditer(text))
    return any(
        not text[pairs[inner] + 1 : pairs[outer]].strip()
        for inner in within
        if (outer := text.rindex("(", 0, inner)) in pairs
    )


def _changed(text: str) -> list[str]:
    """The paths that an update changes."""
    pieces, found = _CLAUSE.split(text)[1:], list[str]()
    for clause, listed in zip(pieces[::2], pieces[1::2], strict=True):
        # The commas within a function's parentheses separate nothing.
        for one in re.split(r",(?![^()]*\))", listed):
            found.append(re.split(r"=" if clause == "SET" else r"\s+", one.strip())[0].strip())
    return found
