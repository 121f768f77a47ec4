"""Picking parts of an event by JSON paths such as ``$.detail.id``: what EventBridge takes of them, and indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from sagas.errors import InvalidRequest, Problem

_PATH = re.compile(r"\$(?:\.[\w-]+|\[\d{1,6}\])*")
_PART = re.compile(r"\.([\w-]+)|\[(\d+)\]")
_LONGEST_TOLD = 100


def is_path(value: object) -> bool:
    """Tell whether a value is a JSON path: a text such as ``$``, ``$.detail`` or ``$.detail.items[0].id``."""
    return isinstance(value, str) and _PATH.fullmatch(value) is not None


def wrong_paths(selector: object) -> Iterator[str]:
    """Yield the texts of a selector that begin with a dollar sign like a path, but are none."""
    match selector:
        case str() if selector.startswith("$") and not is_path(selector):
            yield selector
        case dict():
            for one in cast("dict[str, Any]", selector).values():
                yield from wrong_paths(one)
        case list() | tuple():
            for one in cast("list[Any]", selector):
                yield from wrong_paths(one)
        case _:
            pass


def has_paths(selector: object) -> bool:
    """Tell whether anything of a selector is taken from the event."""
    match selector:
        case dict():
            return any(map(has_paths, cast("dict[str, Any]", selector).values()))
        case list() | tuple():
            return any(map(has_paths, cast("list[Any]", selector)))
        case _:
            return is_path(selector)


def pick(event: Any, selector: Any, where: str) -> Any:
    """Return what a selector stands for: of each path in it, what the event has there; all else as it is."""
    match selector:
        case dict():
            named = cast("dict[str, Any]", selector)
            return {name: pick(event, one, f"{where}.{name}") for name, one in named.items()}
        case list():
            several = cast("list[Any]", selector)
            return [pick(event, one, f"{where}[{place}]") for place, one in enumerate(several)]
        case str() if is_path(selector):
            found = event
            for name, index in _PART.findall(selector):
                try:
                    found = found[int(index)] if index else found[name]
                except (LookupError, TypeError):
                    told = f"the event has nothing at {selector[:_LONGEST_TOLD]}"
                    raise InvalidRequest("the event does not fit", [Problem(where, told)]) from None
            return found
        case _:
            return selector
