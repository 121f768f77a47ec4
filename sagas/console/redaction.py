"""Redaction: the console hides values whose keys look secret, and values that the project names."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sagas.console.settings import settings_of
from sagas.errors import InvalidRequest
from sagas.paths import EACH, Place, nested, parse_path, value_at
from sagas.spellings import HIDDEN, Secrets

_BY_DEFAULT = re.compile(r"password|passwd|token|secret|card|iban", re.IGNORECASE)
_DEEPEST = 100
"""Levels of a payload that a page shows. Much deeper ones could exceed Python's recursion limit."""
_TOO_DEEP = "… more levels"
_PAYLOADS = ("request", "result", "value")
_STRUCTURE = re.compile(
    r"name|type|saga_id|step|status|in_doubt|waiting_for|kind|state|at|until|\w+_at|\w+_until|deadline"
)
"""The keys of ids, types, names, states and times. Their values stay visible: an id may contain four digits of a card
number, and every time contains a year."""
_NAME = re.compile(r"[^\s.\[\]$*]+")


@dataclass(frozen=True, slots=True)
class ConsoleRedaction:
    """The rules for hidden values: ``anywhere`` has keys whose values are hidden at any depth, such as ``card``, and
    ``places`` paths to hidden values from the root, such as ``$.customer.name``. ``payloads``: whether requests,
    results and messages are shown at all."""

    anywhere: frozenset[str] = frozenset()
    places: frozenset[Place] = frozenset()
    payloads: bool = True

    def apply(self, data: Any, hidden: list[str]) -> Any:
        """Return a request or result with hidden values replaced. Their texts are added to ``hidden``."""
        if data is None:
            return None
        if not self.payloads:
            _texts(data, hidden)
            return HIDDEN
        return self._item(data, self.places, hidden, -1)

    def hides(self, place: Place) -> bool:
        """Whether a value at a place of a request is hidden, alone or with a value around it."""
        try:
            return value_at(self.apply(nested(place, "value"), []), place) != "value"
        except LookupError:
            return True

    def _walk(self, data: Any, places: Collection[Place], hidden: list[str], depth: int) -> Any:
        if depth > _DEEPEST:
            return _TOO_DEEP
        if isinstance(data, list):
            items = enumerate(cast("list[Any]", data))
            return [self._item(item, _below(places, f"[{index}]", EACH), hidden, depth) for index, item in items]
        if isinstance(data, str) and data[:1] in ("{", "["):
            # A message may contain a request as JSON. Paths then start at the root of the request.
            try:
                inside = json.loads(data)
            except (ValueError, RecursionError):
                return data
            redacted = self._walk(inside, self.places, hidden, depth + 1)
            return data if redacted == inside else json.dumps(redacted, ensure_ascii=False)
        if not isinstance(data, dict):
            return data
        whole = dict[str, Any]()
        for key, value in cast("dict[str, Any]", data).items():
            hide = key in self.anywhere or _BY_DEFAULT.search(key)
            whole[key] = self._item(value, {()} if hide else _below(places, key), hidden, depth)
        return whole

    def _item(self, value: Any, places: Collection[Place], hidden: list[str], depth: int) -> Any:
        """Redact a value in an object or array. The empty path stands for the value itself."""
        if () not in places or value is None:
            return self._walk(value, places, hidden, depth + 1)
        _texts(value, hidden)
        return HIDDEN


def _below(places: Collection[Place], *parts: str) -> set[Place]:
    return {place[1:] for place in places if place[:1] in [(part,) for part in parts]}


def scrubbed(data: Any, hidden: Iterable[str]) -> Any:
    """Remove hidden values from all texts in a saga's view, and from its request and results. Ids, names, states and
    times do not change."""
    values = {*hidden}
    if not values:
        return data
    secrets = Secrets(values)

    def walk(node: Any, payload: bool) -> Any:
        if isinstance(node, str):
            return secrets.without(node)
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


def redaction_of(project: Path, *, payloads: bool = True) -> ConsoleRedaction:
    """Return the redaction of a project: the rules in ``[tool.sagas.console]``, and the default rules."""
    file = project / "pyproject.toml"
    entries = settings_of(project).get("redact", [])
    anywhere = set[str]()
    places = set[Place]()
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else [entries]:
        if isinstance(entry, str) and _NAME.fullmatch(entry):
            anywhere.add(entry)
            continue
        try:
            places.add(parse_path(entry))
        except ValueError as error:
            raise InvalidRequest(f"{file}: [tool.sagas.console] redact: {error}, or a name like card") from None
    return ConsoleRedaction(frozenset(anywhere), frozenset(places), payloads)


def _texts(data: Any, hidden: list[str]) -> None:
    """Collect the texts and numbers of a hidden value, to remove them from other texts."""
    remaining = [data]
    while remaining:
        value = remaining.pop()
        if isinstance(value, dict):
            remaining += cast("dict[str, Any]", value).values()
        elif isinstance(value, list):
            remaining += cast("list[Any]", value)
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            hidden.append(str(value))
