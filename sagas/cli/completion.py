"""Shell completion of types, steps, and the ids of the last list.

A list saves these words in a file, because a request to the service at each keystroke would take seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from sagas.cli.target import Target
    from sagas.engine.read.answers import Summary
    from sagas.engine.read.overviews import TypeView


def _service(stack: str | None) -> str:
    return stack or str(Path.cwd())


def _load(service: str) -> dict[str, Any]:
    with suppress(OSError, ValueError, LookupError, TypeError):
        saved = json.loads(_file().read_text(encoding="utf-8"))
        if saved["service"] == service:
            return saved
    return {"service": service, "types": {}, "ids": {}}


def _file() -> Path:
    return Path(typer.get_app_dir("lambda-sagas")) / "last-list.json"


def remember(target: Target, *, sagas: Iterable[Summary] = (), types: Iterable[TypeView] = ()) -> None:
    """Save the words of a list for completion. If the file cannot be written, completion does not offer these words."""
    saved = _load(_service(target.stack))
    saved["ids"] = {saga["saga_id"]: saga["type"] for saga in sagas} or saved["ids"]
    saved["types"] |= {saga["type"]: [step["name"] for step in saga["steps"]] for saga in types}
    with suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        _file().write_text(json.dumps(saved), encoding="utf-8")


def complete(context: typer.Context, incomplete: str) -> Iterator[str]:
    """Yield types and ids or, after a type, its steps and ids."""
    saved = _load(_service(context.params.get("stack")))
    words = [context.params.get("name"), *(context.params.get("names") or ())]
    types = sorted({*saved["types"], *saved["ids"].values()})
    chosen = next((name for name in types if name in words), None)
    ids = (saga_id for saga_id, name in saved["ids"].items() if chosen in (None, name))
    names = types if chosen is None else saved["types"].get(chosen, ())
    yield from (word for word in (*names, *ids) if word.startswith(incomplete))
