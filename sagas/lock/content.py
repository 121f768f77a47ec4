"""Blueprints: as JSON, the parts of a saga type that its sagas in flight depend on.

Each saga names the blueprint of its start, for ``sagas check``. The lock file has those of the last release.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct, ValidationError, convert, field

from sagas.authoring.definition.definition import SagaDefinition, StepDefinition, StepSource, UndoDefinition
from sagas.authoring.shapes.base import SchemaDefinitions
from sagas.authoring.shapes.compiler import shape_of
from sagas.core.states import StepStatus
from sagas.errors import DefinitionError, InvalidRequest, NotFound, Problem

FORMAT = 2
"""The version of the format of blueprints, and of files that contain them."""

LARGEST = 300_000
"""The maximum size of a stored blueprint in bytes: a blueprint is one item of DynamoDB."""
_WIDTH = 120
"""The maximum length of a line, in characters."""

LETTERS = {
    StepStatus.PENDING: "P",
    StepStatus.RUNNING: "R",
    StepStatus.RETRYING: "T",
    StepStatus.WAITING: "W",
    StepStatus.COMPLETED: "C",
    StepStatus.SKIPPED: "S",
    StepStatus.FAILED: "F",
    StepStatus.COMPENSATING: "U",
    StepStatus.COMPENSATED: "B",
    StepStatus.COMPENSATION_FAILED: "X",
}
"""The letter of each status of a step, in groups of sagas in flight."""

Content = dict[str, Any]


def content_of(definitions: Iterable[SagaDefinition]) -> Content:
    return {"format": FORMAT, "sagas": {definition.name: blueprint_of(definition) for definition in definitions}}


def blueprint_of(definition: SagaDefinition) -> Content:
    """Return the blueprint of a saga type, without code, policies, texts and empty values."""
    types = SchemaDefinitions("#/types/{name}")
    blueprint: Content = {
        "format": FORMAT,
        "saga": definition.name,
        "version": definition.version,
        "result": definition.result_step.name,
        "request": shape_of(definition.request_type).schema(types),
        "steps": [_step_content(step, types) for step in definition.steps],
    }
    optional = {
        "hidden": {source: [*map(list, paths)] for source, paths in definition.redaction.hidden.items()},
        "find_by": [key.name for key in definition.find_by],
        "prefix": definition.prefix if definition.orphans is not None else "",
        "types": types.schemas,
    }
    return cast("Content", _short(blueprint | {name: value for name, value in optional.items() if value}))


def hash_of(blueprint: Content) -> str:
    """Return the name of a blueprint: 22 characters from the SHA-256 of its JSON."""
    return base64.urlsafe_b64encode(hashlib.sha256(_bytes_of(blueprint)).digest()[:16]).decode().rstrip("=")


def body_of(blueprint: Content) -> bytes:
    """Return the stored form of a blueprint."""
    return zlib.compress(_bytes_of(blueprint), 9)


def blueprint_in(body: bytes) -> Content | None:
    """Return a blueprint from its stored form; ``None`` if it was altered, or if a newer version wrote it."""
    try:
        blueprint: Any = json.loads(zlib.decompress(body))
    except (zlib.error, ValueError):
        return None
    return None if fault_of(blueprint) else cast("Content", blueprint)


def check_size(definition: SagaDefinition) -> None:
    blueprint = blueprint_of(definition)
    size = len(body_of(blueprint))
    if size > LARGEST:
        types = {"request": blueprint["request"]} | blueprint.get("types", {})
        largest = max(types, key=lambda name: len(_bytes_of(types[name])))
        raise DefinitionError(
            f'saga "{definition.name}": its types take {size:,} bytes, and a blueprint has room for {LARGEST:,}; the '
            f"largest is {largest}"
        )


def _bytes_of(blueprint: Content) -> bytes:
    return json.dumps(blueprint, sort_keys=True, separators=(",", ":")).encode()


def _step_content(step: StepDefinition, types: SchemaDefinitions) -> Content:
    content: Content = {"name": step.name, "result": shape_of(step.result_type).schema(types)}
    if step.waits_for:
        content["waits_for"] = step.waits_for
    if step.children is not None:
        content["sagas"] = [child.name for child in step.children.sagas]
        content |= {"tolerate": step.children.tolerate} if step.children.tolerate else {}
    if step.undo is not None:
        content["undo"] = inputs_of(step.undo)
    content |= {name: True for name in ("pivot", "retired", "when") if getattr(step, name)}
    return content


def inputs_of(code: StepDefinition | UndoDefinition) -> list[str]:
    """Return the inputs of a step or undo: ``request``, and the names of steps whose results are passed."""
    names = {StepSource.REQUEST: "request", StepSource.CONTEXT: None}
    parameters = code.inputs if isinstance(code, StepDefinition) else code.parameters
    inputs = {parameter.step or names[parameter.source] for parameter in parameters}
    return sorted(name for name in inputs if name is not None)


def _short(node: Any) -> Any:
    """Remove redundant parts of schemas, which are titles and the patterns of standard formats."""
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
    """Return the file's text: sorted, with short values on one line, and the same for equal content."""
    return _written(content, 0, "") + "\n"


def _written(node: Any, depth: int, name: str) -> str:
    line = json.dumps(node, sort_keys=True, ensure_ascii=False)
    # Each saga type, step and type starts on its own line, even if it is short.
    apart = depth < 3 or (depth == 3 and name in ("steps", "types"))
    if not node or not isinstance(node, dict | list) or (not apart and 2 * depth + len(name) + len(line) + 5 < _WIDTH):
        return line
    inner = "\n" + "  " * (depth + 1)
    end = "\n" + "  " * depth
    if isinstance(node, list):
        return "[" + ",".join(inner + _written(item, depth + 1, "") for item in cast("list[Any]", node)) + end + "]"
    members = cast("Content", node)
    pairs = (f"{inner}{json.dumps(key)}: {_written(members[key], depth + 1, key)}" for key in sorted(members))
    return "{" + ",".join(pairs) + end + "}"


def read(path: Path) -> Content:
    content = read_json(path, "sagas", "lock file", "sagas check --write")
    for name, blueprint in content["sagas"].items():
        if fault := fault_of(blueprint) or ("" if "request" in blueprint else "it has no request"):
            raise InvalidRequest(f"{path} is not a lock file", [Problem(f"$.sagas.{name}", fault)])
    return content


def read_json(path: Path, member: str, what: str, command: str) -> Content:
    """Return the content of a file of blueprints. Its ``member`` must be an object. ``command`` writes such files."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(f"{path} does not exist; `{command}` creates it") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{path} is not JSON", [Problem("$", str(error))]) from None
    content = cast("Content", data) if isinstance(data, dict) else Content()
    if content.get("format", FORMAT) != FORMAT:
        text = f"{path.name} has format {content['format']}; this version reads {FORMAT}"
        raise InvalidRequest(f"{text}. Write it with `{command}`")
    if "format" not in content or not isinstance(content.get(member), dict):
        raise InvalidRequest(f"{path} is not a {what}", [Problem("$", f"expected format and {member}")])
    return content


class _Step(Struct):
    """A step of a blueprint, as far as this version reads it."""

    name: str
    result: Content = field(default_factory=Content)
    undo: list[str] | None = None
    waits_for: Literal["", "signal", "time", "children"] = ""
    sagas: list[str] = field(default_factory=list[str])
    tolerate: int = 0
    pivot: bool = False
    retired: bool = False
    when: bool = False


class _Blueprint(Struct):
    """A blueprint. Blueprints that only the steps of a saga show have no request and no types."""

    format: Annotated[int, Meta(ge=FORMAT, le=FORMAT)]
    saga: str
    version: str
    steps: list[_Step]
    request: Content = field(default_factory=Content)
    types: dict[str, Content] = field(default_factory=dict[str, Content])
    hidden: dict[str, list[list[str]]] = field(default_factory=dict[str, list[list[str]]])
    find_by: list[str] = field(default_factory=list[str])
    prefix: str = ""


def fault_of(value: object) -> str:
    """Return why a value is not a blueprint that this version can compare; empty if it is one."""
    from sagas.lock.fitting import Types, misfits

    try:
        blueprint = convert(value, _Blueprint)
        pairs = [str({"$ref": f"#/types/{name}"}) for name in blueprint.types]  # each type is compared once
        types = Types(blueprint.types, blueprint.types, frozenset(zip(pairs, pairs, strict=True)))
        for schema in (blueprint.request, *blueprint.types.values(), *(step.result for step in blueprint.steps)):
            misfits(schema, schema, types)
    except ValidationError as error:
        return str(error)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"a schema cannot be read: {type(error).__name__}: {error}"
    return ""
