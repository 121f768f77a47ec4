"""What requests cost in DynamoDB's units, by its own rules."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

Item = dict[str, Any]
"""An item as DynamoDB's JSON has it, each value under its type. An empty one stands for none."""
Index = tuple[str, ...]
"""What an index holds: partition key, sort key, and what it projects besides."""

KILOBYTE = 1024
_READ = 4 * KILOBYTE


def _number_size(text: str) -> int:
    digits = text.lstrip("-").replace(".", "").strip("0")
    return math.ceil(len(digits) / 2) + 1 + text.startswith("-")


def _value_size(value: Item) -> int:
    [(kind, content)] = value.items()
    if kind == "S":
        return len(content.encode())
    if kind == "N":
        return _number_size(content)
    if kind == "B":
        return len(content)
    if kind == "M":
        return 3 + sum(1 + len(name.encode()) + _value_size(inner) for name, inner in content.items())
    if kind == "L":
        return 3 + sum(1 + _value_size(inner) for inner in content)
    return 1


def item_size(item: Item) -> int:
    """Return the bytes of an item: names and values in UTF-8, a number by its digits, 3 for a container and 1 for each
    of its members."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def write_units(before: Item, after: Item, *, transaction: bool = False) -> int:
    """Return what a write of the table costs: the larger of the item before and after, by the kilobyte; twice that in a
    transaction."""
    size = max(item_size(before), item_size(after))
    return (2 if transaction else 1) * max(1, math.ceil(size / KILOBYTE))


def index_units(before: Item, after: Item, indexes: Iterable[Index]) -> int:
    """Return what the write costs in the table's indexes: nothing while what they have stays, two writes when a key
    changes, one to enter, to leave, or if only another attribute changes. An index has two keys, then what it projects
    besides."""
    total = 0
    for names in indexes:
        old = [json.dumps(before.get(name)) for name in names]
        new = [json.dumps(after.get(name)) for name in names]
        if old[:2] != new[:2]:
            total += sum("null" not in side[:2] for side in (old, new))
        elif old != new:
            total += "null" not in new[:2]
    return total


def read_units(size: int, *, consistent: bool) -> float:
    """Return what reading so many bytes costs: 4 KB a unit, one at least, half if they may be stale."""
    return max(1, math.ceil(size / _READ)) * (1 if consistent else 0.5)
