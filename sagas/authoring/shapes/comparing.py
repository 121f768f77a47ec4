"""Compares values: with those that are read back from their JSON, and with those of a repeated call.

A class's own ``__eq__`` is not asked, because it may leave out fields.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, cast

from sagas.authoring.shapes.base import MAX_DEPTH, Path, Problems, Shape

_ABSENT = object()
_TEXTS = (str, bytes, bytearray)


def check_read_back(shape: Shape, value: Any, data: Any, at: Path, problems: Problems) -> None:
    """Read a value back from its JSON, and add a problem if it is another one. If its class refuses to read it, so will
    the next step, which says why."""
    unread = Problems(problems)
    again = shape.decode(data, at, unread)
    if not unread:
        check_equal(value, again, type(value).__name__, at, problems)


def check_equal(value: Any, again: Any, name: str, at: Path, problems: Problems) -> None:
    """Add a problem if ``again``, which was read back from the JSON of ``value``, is another value. ``name`` is the
    class's."""
    place = Path()
    if not _same(value, again, place):
        where = functools.reduce(lambda path, part: path / part, place[1:], at)
        advice = "make the class write and read all of its fields, and convert none of them twice"
        problems.add(where, f"is another when {name} is read back from its JSON: {advice}")


def equal(value: Any, other: Any) -> bool:
    """Whether two values are equal in all of their fields, private ones too.

    Numbers are compared by value, and sequences and sets by their elements. NaN equals NaN.
    """
    return _same(value, other, Path())


def _same(value: Any, again: Any, at: Path) -> bool:
    if value is again or len(at) > 2 * MAX_DEPTH:
        return True
    if isinstance(value, Enum) or isinstance(again, Enum):
        return _plain(value) == _plain(again)
    if isinstance(value, int | float | Decimal) and isinstance(again, int | float | Decimal):
        return _same_number(value, again)
    if isinstance(value, _TEXTS) or isinstance(again, _TEXTS):
        return type(again) in (*_TEXTS, type(value)) and _text(value) == _text(again)
    if isinstance(value, datetime | time) and type(value) is type(again):
        return value == again and (value.tzinfo is None) == (again.tzinfo is None)
    if hasattr(value, "_fields") and type(value) is not type(again):
        return False  # a named tuple, or another class than it was
    for kind, same in ((Mapping, _same_members), (Set, _same_elements), (Sequence, _same_items)):
        if isinstance(value, kind):
            return isinstance(again, kind) and same(cast("Any", value), cast("Any", again), at)
    return type(value) is type(again) and _same_object(value, again, at)


def _same_number(value: Any, again: Any) -> bool:
    both_nan = value != value and again != again
    return isinstance(value, bool) == isinstance(again, bool) and (value == again or both_nan)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    return bytes(value) if isinstance(value, bytes | bytearray) else None


def _same_members(value: Mapping[Any, Any], again: Mapping[Any, Any], at: Path) -> bool:
    if len(value) != len(again):
        return False
    return _all_same(((key, item, again.get(key, _ABSENT)) for key, item in value.items()), at)


def _same_items(value: Sequence[Any], again: Sequence[Any], at: Path) -> bool:
    return len(value) == len(again) and _all_same(zip(range(len(value)), value, again, strict=True), at)


def _same_elements(value: Set[Any], again: Set[Any], at: Path) -> bool:
    remaining = list(again)
    for element in value:
        place = next((n for n, other in enumerate(remaining) if _same(element, other, Path())), None)
        if place is None:
            return False
        del remaining[place]
    return not remaining


def _all_same(members: Iterable[tuple[Any, Any, Any]], at: Path) -> bool:
    for name, item, other in members:
        at.append(name if isinstance(name, str | int) else str(name))
        if not _same(item, other, at):
            return False
        at.pop()
    return True


def _same_object(value: Any, again: Any, at: Path) -> bool:
    names = _attributes(value, again)
    if names is None:
        return type(value).__eq__ is object.__eq__ or bool(value == again)
    return _all_same(((name, getattr(value, name, _ABSENT), getattr(again, name, _ABSENT)) for name in names), at)


def _attributes(value: Any, again: Any) -> Iterable[str] | None:
    """Return the names of the attributes that make up an object of a class; ``None`` if only the class knows them."""
    kind = cast("Any", type(value))
    if hasattr(kind, "model_fields") and hasattr(kind, "__private_attributes__"):  # a pydantic model
        extra = {*(value.__pydantic_extra__ or ()), *(again.__pydantic_extra__ or ())}
        return [*kind.model_fields, *kind.__private_attributes__, *sorted(extra)]
    if hasattr(kind, "__dataclass_fields__"):
        return list(kind.__dataclass_fields__)
    if kind.__module__.partition(".")[0] in {*sys.stdlib_module_names, "pydantic", "pydantic_core"}:
        return None
    slots = [slot for base in kind.__mro__ for slot in _slots(base) if slot not in ("__dict__", "__weakref__")]
    stored = {**getattr(value, "__dict__", {}), **getattr(again, "__dict__", {})}
    names = [*slots, *stored]
    cached = functools.cached_property
    return [name for name in names if not isinstance(inspect.getattr_static(kind, name, None), cached)] or None


def _slots(kind: type[Any]) -> Iterable[str]:
    slots: Any = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots
