"""Paths into JSON, such as ``$.customer.id``, ``$.items[0]`` and ``$.items[*]``. Users write paths in this grammar."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

Place = tuple[str, ...]
"""The parts of a path, from the outside in: names, ``[0]`` for an item of an array, ``[*]`` for each item."""
EACH = "[*]"
DEEP = "**"
"""The part before the last name of a path that matches members at any depth. Users cannot write such paths."""
_PART = re.compile(r"\.([^\s.\[\]$*]+)|(\[(?:\d{1,6}|\*)\])")
_PATH = re.compile(rf"\$(?:{_PART.pattern})*")


def is_path(value: object) -> bool:
    """Return whether a value is a text that is a path. ``$`` is the path of the whole value."""
    return isinstance(value, str) and _PATH.fullmatch(value) is not None


def parse_path(text: object) -> Place:
    """Return the parts of a path. Raises ``ValueError``, with an example, if the value is not a path."""
    if not isinstance(text, str) or not is_path(text):
        raise ValueError(f"{text!r} is not a path; write one like $.customer.id")
    return tuple(name or item for name, item in _PART.findall(text))


def path_text(place: Place) -> str:
    """Return a path as users write it."""
    return "$" + "".join(part if part.startswith("[") else f".{part}" for part in place)


def nested(place: Place, value: Any) -> Any:
    """Return the smallest JSON that has a value at a place without ``[*]``."""
    for part in reversed(place):
        value = [value] * (int(part[1:-1]) + 1) if part.startswith("[") else {part: value}
    return value


def value_at(data: Any, path: Place, opened: Callable[[str], Any] | None = None) -> Any:
    """Return the value at a path; it is a list if a part is ``[*]``. Raises ``LookupError`` if there is no value.

    ``opened`` reads the texts that the path enters. By default, it enters none.
    """
    for place, part in enumerate(path):
        if opened is not None and isinstance(data, str):
            data = opened(data)
        if part.startswith("["):
            if not isinstance(data, list):
                raise LookupError(part)
            items = cast("list[Any]", data)
            if part == EACH:
                return [value_at(item, path[place + 1 :], opened) for item in items]
            data = items[int(part[1:-1])]
        elif isinstance(data, dict):
            data = cast("dict[str, Any]", data)[part]
        else:
            raise LookupError(part)
    return data
