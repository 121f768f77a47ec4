"""The lock file: the parts of the definitions that sagas in flight depend on, as JSON with readable diffs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from sagas.authoring.definition.definition import SagaDefinition, StepDefinition, StepSource
from sagas.authoring.policies import Exhausted
from sagas.authoring.shapes.base import SchemaDefinitions
from sagas.authoring.shapes.compiler import shape_of
from sagas.errors import InvalidRequest, NotFound, Problem

FORMAT = 1
"""The version of the file's format."""

_WIDTH = 120
"""The longest line, in characters."""

Content = dict[str, Any]


def content_of(definitions: Iterable[SagaDefinition]) -> Content:
    """Return the lock file's content for these saga types, without policies that have their defaults."""
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
    content: Content = {"name": step.name, "result": shape_of(step.result_type).schema(types)}
    if step.waits_for:
        content["waits_for"] = step.waits_for
    if step.undo is not None:
        content["undo"] = inputs_of(step.undo)
    if step.undo_when != "completed":
        content["undo_when"] = step.undo_when
    if step.on_exhausted is not Exhausted.COMPENSATE:
        content["on_exhausted"] = step.on_exhausted.value
    if step.pivot:
        content["pivot"] = True
    if step.retired:
        content["retired"] = True
    return content


def inputs_of(code: Any) -> list[str]:
    """Return the inputs of a step or undo: ``request``, and the names of steps whose results it takes."""
    names = {StepSource.REQUEST: "request", StepSource.CONTEXT: None}
    inputs = (parameter.step or names[parameter.source] for parameter in code.parameters)
    return sorted(name for name in inputs if name is not None)


def _short(node: Any) -> Any:
    """Remove redundant parts of schemas: titles, and the patterns of standard formats."""
    if isinstance(node, list):
        return [_short(item) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    members = cast("Content", node)
    schema = isinstance(members.get("type"), str)
    drop = {"title", "description"} if schema else set[str]()
    drop |= {"pattern"} if schema and members.keys() & {"format", "contentEncoding"} else set()
    return {name: _short(item) for name, item in members.items() if name not in drop}


def text_of(content: Content) -> str:
    """Return the file's text: sorted, with short values on one line, and the same for the same content."""
    return _written(content, 0, "") + "\n"


def _written(node: Any, depth: int, name: str) -> str:
    line = json.dumps(node, sort_keys=True, ensure_ascii=False)
    # Each saga type, step and type starts on its own line, however short it is.
    apart = depth < 3 or (depth == 3 and name in ("steps", "types"))
    if not node or not isinstance(node, dict | list) or (not apart and 2 * depth + len(name) + len(line) + 5 < _WIDTH):
        return line
    inner, end = "\n" + "  " * (depth + 1), "\n" + "  " * depth
    if isinstance(node, list):
        return "[" + ",".join(inner + _written(item, depth + 1, "") for item in cast("list[Any]", node)) + end + "]"
    members = cast("Content", node)
    pairs = (f"{inner}{json.dumps(key)}: {_written(members[key], depth + 1, key)}" for key in sorted(members))
    return "{" + ",".join(pairs) + end + "}"


def read(path: Path) -> Content:
    """Return the content of a lock file."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(f"{path} does not exist; `sagas check --write` creates it") from None
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{path} is not JSON", [Problem("$", str(error))]) from None
    content = cast("Content", data) if isinstance(data, dict) else Content()
    if not isinstance(content.get("format"), int) or not isinstance(content.get("sagas"), dict):
        raise InvalidRequest(f"{path} is not a lock file", [Problem("$", "expected format and sagas")])
    if content["format"] > FORMAT:
        problem = Problem(
            "$.format", f"expected at most {FORMAT}; the file was written by a newer version of lambda-sagas"
        )
        raise InvalidRequest(f"{path} cannot be read", [problem])
    return content
