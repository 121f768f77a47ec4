"""What a browser never gets to see: values of keys that are secrets mostly, and of those that a project names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sagas.console.settings import settings_of
from sagas.errors import InvalidRequest

HIDDEN = "***"
_BY_DEFAULT = re.compile(r"password|passwd|token|secret|card|iban", re.IGNORECASE)
_SHORTEST = 4
"""Characters from which on a hidden value is looked for in texts: shorter ones are in every other word."""
_PATH = re.compile(r"\$(\.\.?[A-Za-z_][\w-]*)+")


@dataclass(frozen=True, slots=True)
class Redaction:
    """Which values are not shown.

    Args:
        anywhere: names of keys whose values are hidden wherever they are (``$..card``).
        places: keys from the root on (``$.customer.name``).
        payloads: whether requests, results and messages are shown at all.
    """

    anywhere: frozenset[str] = frozenset()
    places: frozenset[tuple[str, ...]] = frozenset()
    payloads: bool = True

    def shown(self, data: Any, found: list[str]) -> Any:
        """Return a request or result as it is shown.

        Args:
            data: JSON builtins.
            found: gets the texts that were hidden.
        """
        if data is None:
            return None
        if not self.payloads:
            _texts(data, found)
            return HIDDEN
        return self._walk(data, (), found)

    def _walk(self, data: Any, path: tuple[str, ...], found: list[str]) -> Any:
        if isinstance(data, list):
            return [self._walk(item, path, found) for item in cast("list[Any]", data)]
        if isinstance(data, str) and data[:1] in ("{", "["):
            # It may be JSON itself, as a message carries a request: then it has a root of its own.
            try:
                inside = json.loads(data)
            except (ValueError, RecursionError):
                return data
            shown = self._walk(inside, (), found)
            return data if shown == inside else json.dumps(shown, ensure_ascii=False)
        if not isinstance(data, dict):
            return data
        whole = dict[str, Any]()
        for key, value in cast("dict[str, Any]", data).items():
            hide = key in self.anywhere or (*path, key) in self.places or _BY_DEFAULT.search(key)
            if hide and value is not None:
                _texts(value, found)
            whole[key] = HIDDEN if hide and value is not None else self._walk(value, (*path, key), found)
        return whole


def scrubbed(data: Any, hidden: Iterable[str]) -> Any:
    """Return JSON builtins with what was hidden elsewhere taken out of all their texts."""
    long = sorted({text for text in hidden if len(text) >= _SHORTEST}, key=len, reverse=True)
    if not long:
        return data
    pattern = re.compile("|".join(map(re.escape, long)))

    def walk(node: Any) -> Any:
        if isinstance(node, str):
            return pattern.sub(HIDDEN, node)
        if isinstance(node, list):
            return [walk(item) for item in cast("list[Any]", node)]
        if isinstance(node, dict):
            return {key: walk(value) for key, value in cast("dict[str, Any]", node).items()}
        return node

    return walk(data)


def redaction_of(project: Path, *, payloads: bool = True) -> Redaction:
    """Return what ``[tool.sagas.console]`` of a project hides, beyond what is hidden by default.

    Args:
        project: the directory with ``pyproject.toml``; one without hides nothing more.
        payloads: whether requests, results and messages are shown at all.

    Raises:
        InvalidRequest: the file is no TOML, or ``redact`` no list of paths.
    """
    path, wanted = project / "pyproject.toml", settings_of(project).get("redact", [])
    anywhere, places = set[str](), set[tuple[str, ...]]()
    for one in cast("list[Any]", wanted) if isinstance(wanted, list) else [wanted]:
        if not isinstance(one, str) or _PATH.fullmatch(one) is None or ".." in one[3:]:
            example = '["$..card", "$.customer.name"]'
            raise InvalidRequest(f"{path}: [tool.sagas.console] redact: {one!r} is no path; they are like {example}")
        if one.startswith("$.."):
            anywhere.add(one.rpartition(".")[2])
        else:
            places.add(tuple(one[2:].split(".")))
    return Redaction(frozenset(anywhere), frozenset(places), payloads)


def _texts(data: Any, found: list[str]) -> None:
    """Collect all texts and numbers of what is hidden, to take them out of other texts."""
    if isinstance(data, dict):
        for value in cast("dict[str, Any]", data).values():
            _texts(value, found)
    elif isinstance(data, list):
        for item in cast("list[Any]", data):
            _texts(item, found)
    elif isinstance(data, str | int | float) and not isinstance(data, bool):
        found.append(str(data))
