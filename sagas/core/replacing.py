"""``dataclasses.replace`` in half its time, for states that have forty fields and are replaced at each turn."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

Replaced = TypeVar("Replaced")


def replace(instance: Replaced, /, **changes: Any) -> Replaced:
    """Return a copy of a dataclass's instance with other values of some fields."""
    kind: Any = type(instance)
    get, places = _fields_of(kind)
    values = list(get(instance))
    for name, value in changes.items():
        values[places[name]] = value
    return kind(*values)


@cache
def _fields_of(kind: Any) -> tuple[attrgetter[tuple[Any, ...]], dict[str, int]]:
    """Return what gets all values of an instance at once, and which is whose."""
    names = [one.name for one in fields(kind)]
    return attrgetter(*names), {name: place for place, name in enumerate(names)}
