"""Pick parts of an event by JSON paths such as ``$.detail.id``: the syntax of EventBridge, plus indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from sagas.errors import InvalidRequest, Problem

_PATH = re.compile(r"\$(?:\.[\w-]+|\[\d{1,6}\])*")
_PART = re.compile(r"\.([\w-]+)|\[(\d+)\]")
_LONGEST_PATH = 100


def is_path(value: object) -> bool:
    """Whether a value is a JSON path: a text such as ``$``, ``$.detail`` or ``$.detail.items[0].id``."""
    return isinstance(value, str) and _PATH.fullmatch(value) is not None


def wrong_paths(selector: object) -> Iterator[str]:
    """Yield the texts of a selector that start with a dollar sign but are not valid paths."""
    match selector:
        case str() if selector.startswith("$") and not is_path(selector):
            yield selector
        case dict():
            for item in cast("dict[str, Any]", selector).values():
                yield from wrong_paths(item)
        case list() | tuple():
            for item in cast("list[Any]", selector):
                yield from wrong_paths(item)
        case _:
            pass


def has_paths(selector: object) -> bool:
    """Whether a selector has any path."""
    match selector:
        case dict():
            return any(map(has_paths, cast("dict[str, Any]", selector).values()))
        case list() | tuple():
            return any(map(has_paths, cast("list[Any]", selector)))
        case _:
            return is_path(selector)


def pick(event: Any, selector: Any, where: str) -> Any:
    """Return a selector with its paths replaced by values from the event."""
    match selector:
        case dict():
            members = cast("dict[str, Any]", selector)
            return {name: pick(event, member, f"{where}.{name}") for name, member in members.items()}
        case list():
            items = cast("list[Any]", selector)
            return [pick(event, item, f"{where}[{place}]") for place, item in enumerate(items)]
        case str() if is_path(selector):
            value = event
            for name, index in _PART.findall(selector):
                try:
                    value = value[int(index)] if index else value[name]
                except (LookupError, TypeError):
                    problem = Problem(where, f"the event has nothing at {selector[:_LONGEST_PATH]}")
                    raise InvalidRequest("the event does not fit", [problem]) from None
            return value
        case _:
            return selector
