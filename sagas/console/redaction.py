"""What a browser never gets to see: values of keys that are secrets mostly, and of those that a project names."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sagas.console.settings import settings_of
from sagas.errors import InvalidRequest
from sagas.paths import EACH, Place, parse_path

HIDDEN = "***"
_BY_DEFAULT = re.compile(r"password|passwd|token|secret|card|iban", re.IGNORECASE)
_SHORTEST = 4
"""Characters from which on a hidden value is looked for in texts: shorter ones are in every other word."""
_DEEPEST = 100
"""Levels of a payload that are shown; Python goes no further down than some hundreds."""
_TOO_DEEP = "… nested deeper than is shown"
_PAYLOADS = ("request", "result", "value")
_STRUCTURE = re.compile(
    r"name|type|saga_id|step|status|in_doubt|waiting_for|kind|state|at|until|\w+_at|\w+_until|deadline"
)
"""Keys of what the service itself says of a saga: ids, types, names, states and times. They are no texts to look
through: four digits of a card may well be in an id, and its year is in every time."""
_NAME = re.compile(r"[^\s.\[\]$*]+")


@dataclass(frozen=True, slots=True)
class Redaction:
    """Which values are not shown.

    Args:
        anywhere: names of keys whose values are hidden wherever they are (``card``).
        places: paths from the root (``$.customer.name``).
        payloads: whether requests, results and messages are shown at all.
    """

    anywhere: frozenset[str] = frozenset()
    places: frozenset[Place] = frozenset()
    payloads: bool = True

    def shown(self, data: Any, found: list[str]) -> Any:
        """Return a request or result as it is shown."""
        if data is None:
            return None
        if not self.payloads:
            _texts(data, found)
            return HIDDEN
        return self._item(data, self.places, found, -1)

    def _walk(self, data: Any, places: Collection[Place], found: list[str], depth: int) -> Any:
        if depth > _DEEPEST:
            return _TOO_DEEP
        if isinstance(data, list):
            items = enumerate(cast("list[Any]", data))
            return [self._item(item, _below(places, f"[{index}]", EACH), found, depth) for index, item in items]
        if isinstance(data, str) and data[:1] in ("{", "["):
            # It may be JSON itself, as a message carries a request: then it has a root of its own.
            try:
                inside = json.loads(data)
            except (ValueError, RecursionError):
                return data
            shown = self._walk(inside, self.places, found, depth + 1)
            return data if shown == inside else json.dumps(shown, ensure_ascii=False)
        if not isinstance(data, dict):
            return data
        whole = dict[str, Any]()
        for key, value in cast("dict[str, Any]", data).items():
            hide = key in self.anywhere or _BY_DEFAULT.search(key)
            whole[key] = self._item(value, {()} if hide else _below(places, key), found, depth)
        return whole

    def _item(self, value: Any, places: Collection[Place], found: list[str], depth: int) -> Any:
        """What is shown of a value in an object or array; the empty path stands for the value itself."""
        if () not in places or value is None:
            return self._walk(value, places, found, depth + 1)
        _texts(value, found)
        return HIDDEN


def _below(places: Collection[Place], *parts: str) -> set[Place]:
    return {place[1:] for place in places if place[:1] in [(part,) for part in parts]}


def scrubbed(data: Any, hidden: Iterable[str]) -> Any:
    """Return what the service says of a saga with what was hidden elsewhere taken out of all its texts, and of all of
    its request and results; ids, names, states and times stay as they are."""
    long = sorted({text for text in hidden if len(text) >= _SHORTEST}, key=len, reverse=True)
    if not long:
        return data
    pattern = re.compile("|".join(map(re.escape, long)))

    def walk(node: Any, payload: bool) -> Any:
        if isinstance(node, str):
            return pattern.sub(HIDDEN, node)
        if isinstance(node, list):
            return [walk(item, payload) for item in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        whole = cast("dict[str, Any]", node)
        if payload:
            return {key: walk(value, True) for key, value in whole.items()}
        return {
            key: value if _STRUCTURE.fullmatch(key) and not isinstance(value, dict) else walk(value, key in _PAYLOADS)
            for key, value in whole.items()
        }

    return walk(data, False)


def redaction_of(project: Path, *, payloads: bool = True) -> Redaction:
    """Return what ``[tool.sagas.console]`` of a project hides, beyond what is hidden by default."""
    file, entries = project / "pyproject.toml", settings_of(project).get("redact", [])
    anywhere, places = set[str](), set[Place]()
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else [entries]:
        if isinstance(entry, str) and _NAME.fullmatch(entry):
            anywhere.add(entry)
            continue
        try:
            places.add(parse_path(entry))
        except ValueError as error:
            raise InvalidRequest(f"{file}: [tool.sagas.console] redact: {error}, or a name like card") from None
    return Redaction(frozenset(anywhere), frozenset(places), payloads)


def _texts(data: Any, found: list[str]) -> None:
    """Collect all texts and numbers of what is hidden, to take them out of other texts."""
    left = [data]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += cast("dict[str, Any]", one).values()
        elif isinstance(one, list):
            left += cast("list[Any]", one)
        elif isinstance(one, str | int | float) and not isinstance(one, bool):
            found.append(str(one))
