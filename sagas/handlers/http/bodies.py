"""Reads and describes the bodies of operations. Their classes are in ``sagas/operations.py``."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from msgspec import Meta

from sagas.authoring.codec import decode, json_schema
from sagas.core.ids import LAST_SEQ, LONGEST_REASON
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.http.inputs import Request, invalid
from sagas.operations import PauseChange, Resolution

MOST_RECOVERY_ATTEMPTS = 1_000
"""The largest ``max_recovery_attempts`` that a saga type can declare."""
LONGEST_SILENCE = 366 * 86_400
"""The largest ``stale_after`` in seconds. No saga waits longer, and times computed from it are valid dates."""
MOST_RECOVERED = 1_000
"""The largest ``limit``. A run recovers about this many sagas per minute."""
_BOUNDS = {
    "attempts": (0, MOST_RECOVERY_ATTEMPTS),
    "seq": (1, LAST_SEQ),
    "stale_after": (0, LONGEST_SILENCE),
    "limit": (1, MOST_RECOVERED),
    "max_attempts": (0, MOST_RECOVERY_ATTEMPTS),
}
"""The bounds of the numbers in bodies and in the supervisor's events, by field."""
_NOT_BLANK = r"[^\u0000-\u0020]"

T = TypeVar("T")


_ABSENT = {"enum": [None]}
_ON = {"enum": [True]}
_OFF = {"enum": [False]}
_WHOLE = {"step": _ABSENT, "saga_id": _ABSENT}
_ONE_STEP = {"saga_id": _ABSENT}
_ONE_SAGA = {"step": _ABSENT}
_PAUSED = {"paused": _ON, "active": _ABSENT}
_RESUMED = {"paused": _OFF, "active": _ABSENT}
_NO_KIND = {"starts": _OFF, "undos": _OFF}
_ACTIVE: dict[str, Any] = {"active": {"type": "boolean"}, **_WHOLE, **_NO_KIND}
_PAUSES: tuple[dict[str, Any], ...] = (
    _PAUSED | _WHOLE,
    *(_PAUSED | narrow | {"starts": _OFF} for narrow in (_ONE_STEP, _ONE_SAGA)),
    *(_RESUMED | narrow | _NO_KIND for narrow in (_ONE_STEP, _ONE_SAGA)),
)
"""The valid combinations of fields in a :class:`PauseChange`, without ``paused`` and with it. :func:`_contradictions`
reports the others."""


def within(name: str) -> Meta:
    """Return the bounds of a number, by its field, for ``Annotated``."""
    least, most = _BOUNDS[name]
    return Meta(ge=least, le=most)


def read_body(request: Request, type_: type[T]) -> T:
    """Return the request's body. A missing body is read as an empty object."""
    data: Any = request.body() if request.has_body else {}
    try:
        body: T = decode(data, type_)
    except InvalidRequest as error:
        raise invalid("body", list(error.problems)) from error
    problems = _problems(body)
    if problems:
        raise invalid("body", problems)
    return body


def _problems(body: Any) -> list[Problem]:
    """Return the problems of a body that its type cannot express."""
    values = {item.name: getattr(body, item.name) for item in fields(body)}  # pyright: ignore[reportArgumentType]
    problems = [
        Problem(f"$.{name}", f"longer than {LONGEST_REASON} characters")
        for name, text in values.items()
        if isinstance(text, str) and len(text) > LONGEST_REASON
    ]
    problems += [
        Problem(f"$.{name}", f"must be from {least} to {most}")
        for name, (least, most) in _BOUNDS.items()
        if values.get(name) is not None and not least <= values[name] <= most
    ]
    if isinstance(body, Resolution) and not re.search(_NOT_BLANK, body.reason):
        problems.append(Problem("$.reason", "must not be blank"))
    if isinstance(body, PauseChange):
        problems += _contradictions(body)
    return problems


def _contradictions(change: PauseChange) -> list[Problem]:
    """Return the problem of fields of a pause that exclude each other."""
    if (change.active is None) == (change.paused is None):
        return [Problem("$.active", "set either active or paused")]
    problems = [
        Problem(f"$.{name}", "allowed only with paused: true")
        for name in ("starts", "undos")
        if getattr(change, name) and not change.paused
    ]
    narrow = [name for name in ("step", "saga_id") if getattr(change, name) is not None]
    problems += [Problem(f"$.{name}", "allowed only with paused") for name in narrow if change.paused is None]
    if len(narrow) > 1:
        problems.append(Problem("$.saga_id", "set either step or saga_id"))
    if change.step == "":
        problems.append(Problem("$.step", "must not be empty"))
    if narrow and change.starts:
        problems.append(Problem("$.starts", "allowed only for a whole type"))
    return problems


def may_be_absent(type_: type[Any]) -> bool:
    """Whether an operation accepts a missing body."""
    return all(item.default is not MISSING or item.default_factory is not MISSING for item in fields(type_)) and (
        not _problems(type_())
    )


def describe_body(type_: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of the bodies that :func:`read_body` accepts for ``type_``."""
    schema: dict[str, Any] = json_schema(type_)["$defs"][type_.__name__]
    for name, item in schema["properties"].items():
        for variant in item.get("anyOf", [item]):
            if variant == {"type": "string"}:
                variant["maxLength"] = LONGEST_REASON
            elif name in _BOUNDS and variant != {"type": "null"}:
                least, most = _BOUNDS[name]
                variant |= {"minimum": least, "maximum": most}
            if name == "saga_id" and variant != {"type": "null"}:
                variant["format"] = "uuid"
    if type_ is Resolution:
        schema["properties"]["reason"]["pattern"] = _NOT_BLANK
    if type_ is PauseChange:
        # Generators of clients do not read if, then and else: they make one class with all fields.
        schema |= {
            "if": {"properties": {"paused": _ABSENT}},
            "then": {"required": ["active"], "properties": _ACTIVE},
            "else": {"anyOf": [{"properties": shape} for shape in _PAUSES]},
        }
    return schema
