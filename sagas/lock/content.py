"""The lock file: what of the definitions sagas in flight depend on, as JSON that a person can read in a diff."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from sagas.authoring.definition.definition import SagaDefinition, Source, StepDefinition
from sagas.authoring.policies import Exhausted
from sagas.authoring.shapes.base import SchemaDefinitions
from sagas.authoring.shapes.compiler import shape_of
from sagas.errors import InvalidRequest, NotFound, Problem

FORMAT = 1
"""Of the file."""

_WIDTH = 120
"""Characters of a line."""

Content = dict[str, Any]


def content_of(definitions: Iterable[SagaDefinition]) -> Content:
    """Return what the lock file says of these saga types; policies at their defaults are left out."""
    sagas = Content()
    for definition in definitions:
        types = SchemaDefinitions(f"#/sagas/{definition.name}/types/{{name}}")
        saga: Content = {"request": shape_of(definition.request_type).schema(types), "steps": []}
        saga["steps"] += [_step_content(step, types) for step in definition.steps]
        if definition.orphans is not None:
            saga["prefix"] = definition.prefix
        if types.schemas:
            saga["types"] = types.schemas
        sagas[definition.name] = _short(saga)
    return {"format": FORMAT, "sagas": sagas}


def _step_content(step: StepDefinition, types: SchemaDefinitions) -> Content:
    said: Content = {"name": step.name, "result": shape_of(step.result_type).schema(types)}
    if step.waits_for:
        said["waits_for"] = step.waits_for
    if step.undo is not None:
        said["undo"] = taken_by(step.undo)
    if step.undo_when != "completed":
        said["undo_when"] = step.undo_when
    if step.on_exhausted is not Exhausted.COMPENSATE:
        said["on_exhausted"] = step.on_exhausted.value
    if step.pivot:
        said["pivot"] = True
    if step.retired:
        said["retired"] = True
    return said


def taken_by(code: Any) -> list[str]:
    """Return what a step or undo takes: ``request``, and the names of steps whose results it takes."""
    named = {Source.REQUEST: "request", Source.CONTEXT: None}
    taken = (parameter.step or named[parameter.source] for parameter in code.parameters)
    return sorted(name for name in taken if name is not None)


def _short(node: Any) -> Any:
    """Leave out of schemas what says nothing more: titles, and the patterns of known formats."""
    if isinstance(node, list):
        return [_short(item) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    known = cast("Content", node)
    schema = isinstance(known.get("type"), str)
    drop = {"title", "description"} if schema else set[str]()
    drop |= {"pattern"} if schema and known.keys() & {"format", "contentEncoding"} else set()
    return {name: _short(item) for name, item in known.items() if name not in drop}


def text_of(content: Content) -> str:
    """Return the file's text: sorted, what fits into a line in one line, and the same for the same content."""
    return _written(content, 0, "") + "\n"


def _written(node: Any, depth: int, name: str) -> str:
    line = json.dumps(node, sort_keys=True, ensure_ascii=False)
    # A saga type, each of its steps and each of its types begins a line of its own, however short it is.
    apart = depth < 3 or (depth == 3 and name in ("steps", "types"))
    if not node or not isinstance(node, dict | list) or (not apart and 2 * depth + len(name) + len(line) + 5 < _WIDTH):
        return line
    inner, end = "\n" + "  " * (depth + 1), "\n" + "  " * depth
    if isinstance(node, list):
        return "[" + ",".join(inner + _written(item, depth + 1, "") for item in cast("list[Any]", node)) + end + "]"
    known = cast("Content", node)
    pairs = (f"{inner}{json.dumps(key)}: {_written(known[key], depth + 1, key)}" for key in sorted(known))
    return "{" + ",".join(pairs) + end + "}"


def read(path: Path) -> Content:
    """Return what a lock file says."""
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(f"there is no {path}: `sagas check --write` writes it") from None
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{path} is not JSON", [Problem("$", str(error))]) from None
    content = cast("Content", found) if isinstance(found, dict) else Content()
    if not isinstance(content.get("format"), int) or not isinstance(content.get("sagas"), dict):
        raise InvalidRequest(f"{path} is no lock file", [Problem("$", "expected format and sagas")])
    if content["format"] > FORMAT:
        problem = Problem("$.format", f"expected {FORMAT} at most: a newer version of lambda-sagas wrote it")
        raise InvalidRequest(f"{path} cannot be read", [problem])
    return content
