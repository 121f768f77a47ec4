"""Selectors, which select values from an event: a path such as ``$.detail.id``, or JSON that contains paths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from sagas.core.text import parse_json
from sagas.errors import InvalidRequest, Problem
from sagas.paths import is_path, parse_path, value_at

_LONGEST_QUOTE = 100


def wrong_paths(selector: object) -> Iterator[str]:
    """Yield those texts of a selector that start with a dollar sign but are not paths."""
    match selector:
        case str() if selector.startswith("$") and not is_path(selector):
            yield selector
        case dict():
            for part in cast("dict[str, Any]", selector).values():
                yield from wrong_paths(part)
        case list() | tuple():
            for part in cast("list[Any]", selector):
                yield from wrong_paths(part)
        case _:
            pass


def has_paths(selector: object) -> bool:
    """Return whether a selector takes anything from the event."""
    match selector:
        case dict():
            return any(map(has_paths, cast("dict[str, Any]", selector).values()))
        case list() | tuple():
            return any(map(has_paths, cast("list[Any]", selector)))
        case _:
            return is_path(selector)


def json_or_text(text: Any) -> Any:
    """Return the value of a text that is JSON; any other value as it is. Raises ``ValueError`` with the reason if
    readers may disagree on the value of the JSON, or cannot read it."""
    try:
        return parse_json(text)
    except (TypeError, json.JSONDecodeError):
        return text
    except ValueError:
        try:
            json.loads(text)
        except json.JSONDecodeError:  # a text that only begins as if it were JSON
            return text
        except (ValueError, RecursionError):
            pass
        raise


def pick(event: Any, selector: Any, where: str) -> Any:
    """Replace each path in a selector with the event's value at this path. A path also enters a text that is JSON.
    ``where`` is the selector's own place, for errors."""
    match selector:
        case dict():
            named = cast("dict[str, Any]", selector)
            return {name: pick(event, part, f"{where}.{name}") for name, part in named.items()}
        case list():
            several = cast("list[Any]", selector)
            return [pick(event, part, f"{where}[{place}]") for place, part in enumerate(several)]
        case str() if is_path(selector):
            try:
                return value_at(event, parse_path(selector), json_or_text)
            except ValueError as error:
                problem = Problem(where, f"{selector[:_LONGEST_QUOTE]} enters a text that cannot be read: {error}")
                raise InvalidRequest("the event does not fit", [problem]) from None
            except LookupError:
                problem = Problem(where, f"the event has nothing at {selector[:_LONGEST_QUOTE]}")
                raise InvalidRequest("the event does not fit", [problem]) from None
        case _:
            return selector
