"""The bodies of operations: read and described from the classes that ``sagas/operations.py`` declares."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from sagas.authoring.codec import decode, json_schema
from sagas.core.ids import LONGEST_REASON
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.http.inputs import Request
from sagas.operations import Attempts, Change, Recovering, Resolution

MOST_RECOVERY_ATTEMPTS = 1_000
"""As many as a saga type may declare as its ``max_recovery_attempts``."""

LONGEST_SILENCE = 366 * 86_400
"""Seconds of silence that may be asked for: no saga waits longer, and what is due by then is still a date."""
MOST_RECOVERED = 1_000
"""What one run takes: as many as it gets through in a minute."""
_OF_RECOVERIES: dict[str, dict[str, Any]] = {
    "saga_id": {"format": "uuid"},
    "stale_after": {"minimum": 0, "maximum": LONGEST_SILENCE},
    "limit": {"minimum": 1, "maximum": MOST_RECOVERED},
    "max_attempts": {"minimum": 0, "maximum": MOST_RECOVERY_ATTEMPTS},
}
"""The bounds of what is to be recovered; :func:`sagas.handlers.tasks.recovering.recover` holds to them."""
_SOMETHING = r"[^\u0000-\u0020]"

T = TypeVar("T")


_ABSENT, _ON, _OFF = {"enum": [None]}, {"enum": [True]}, {"enum": [False]}
_WHOLE, _ONE_STEP, _ONE_SAGA = {"step": _ABSENT, "saga_id": _ABSENT}, {"saga_id": _ABSENT}, {"step": _ABSENT}
_PAUSED, _RESUMED = {"paused": _ON, "active": _ABSENT}, {"paused": _OFF, "active": _ABSENT}
_NO_KIND = {"starts": _OFF, "undos": _OFF}
_CHANGES: tuple[dict[str, Any], ...] = (
    {"active": {"type": "boolean"}, "paused": _ABSENT, **_WHOLE, **_NO_KIND},
    _PAUSED | _WHOLE,
    *(_PAUSED | narrow | {"starts": _OFF} for narrow in (_ONE_STEP, _ONE_SAGA)),
    *(_RESUMED | narrow | _NO_KIND for narrow in (_ONE_STEP, _ONE_SAGA)),
)
"""What goes together in a :class:`Change`; :func:`_contradictions` says what does not."""


def read_body(request: Request, type_: type[T]) -> T:
    """Return the request's body. None at all is an empty object."""
    body: T = decode(request.body() if request.has_body else {}, type_)
    problems = _problems(body)
    if problems:
        raise InvalidRequest("the body does not fit", problems)
    return body


def _problems(body: Any) -> list[Problem]:
    """What the type of a body does not say."""
    texts = {item.name: getattr(body, item.name) for item in fields(body)}  # pyright: ignore[reportArgumentType]
    problems = [
        Problem(f"$.{name}", f"has more than {LONGEST_REASON} characters")
        for name, text in texts.items()
        if isinstance(text, str) and len(text) > LONGEST_REASON
    ]
    if isinstance(body, Resolution) and not re.search(_SOMETHING, body.reason):
        problems.append(Problem("$.reason", "says nothing"))
    if isinstance(body, Attempts) and not 0 <= body.attempts <= MOST_RECOVERY_ATTEMPTS:
        problems.append(Problem("$.attempts", f"must be 0 to {MOST_RECOVERY_ATTEMPTS}"))
    if isinstance(body, Change):
        problems += _contradictions(body)
    return problems


def _contradictions(change: Change) -> list[Problem]:
    """What does not go together in a change of pauses."""
    if (change.active is None) == (change.paused is None):
        return [Problem("$.active", "give either active or paused")]
    problems = [
        Problem(f"$.{name}", "only with paused: true")
        for name in ("starts", "undos")
        if getattr(change, name) and not change.paused
    ]
    narrow = [name for name in ("step", "saga_id") if getattr(change, name) is not None]
    problems += [Problem(f"$.{name}", "only with paused") for name in narrow if change.paused is None]
    if len(narrow) > 1:
        problems.append(Problem("$.saga_id", "give either step or saga_id"))
    if change.step == "":
        problems.append(Problem("$.step", "says nothing"))
    if narrow and change.starts:
        problems.append(Problem("$.starts", "only for a whole type"))
    return problems


def may_be_absent(type_: type[Any]) -> bool:
    """Whether an operation takes no body at all for an empty one."""
    return all(item.default is not MISSING or item.default_factory is not MISSING for item in fields(type_)) and (
        not _problems(type_())
    )


def describe_body(type_: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of what :func:`read_body` takes as ``type_``."""
    schema: dict[str, Any] = json_schema(type_)["$defs"][type_.__name__]
    for item in schema["properties"].values():
        for text in (one for one in item.get("anyOf", [item]) if one == {"type": "string"}):
            text["maxLength"] = LONGEST_REASON
    if type_ is Resolution:
        schema["properties"]["reason"]["pattern"] = _SOMETHING
    if type_ is Recovering:
        for name, bounds in _OF_RECOVERIES.items():
            given = next(one for one in schema["properties"][name]["anyOf"] if one != {"type": "null"})
            given |= bounds
    if type_ is Change:
        of_saga = next(one for one in schema["properties"]["saga_id"]["anyOf"] if one != {"type": "null"})
        of_saga["format"] = "uuid"
        schema["anyOf"] = [{"required": [next(iter(shape))], "properties": shape} for shape in _CHANGES]
    if type_ is Attempts:
        schema["properties"]["attempts"] |= {"minimum": 0, "maximum": MOST_RECOVERY_ATTEMPTS}
    return schema
