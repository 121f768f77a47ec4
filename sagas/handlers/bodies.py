"""The bodies of the operations on sagas and saga types: read and described from the same classes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from sagas.authoring.codec import decode, json_schema
from sagas.core.keys import LONGEST_NOTE
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.inputs import Request

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
"""The bounds of what is to be recovered; :func:`sagas.handlers.recovering.recover` holds to them."""
_SOMETHING = r"[^\u0000-\u0020]"

T = TypeVar("T")


@dataclass(frozen=True)
class Note:
    """Why an operator retries a saga."""

    note: str = ""


@dataclass(frozen=True)
class Purging:
    """Why an operator has a saga purged: ``note``, or ``reason``, as the answer and the command line call it."""

    note: str = ""
    reason: str = ""

    @property
    def why(self) -> str:
        """What was said, in one text where both were given."""
        return "; ".join(filter(None, (self.note, self.reason)))


@dataclass(frozen=True)
class Compensation:
    """Why an operator gives up on a saga and has it undone. ``force``: also one that is COMPLETED or past its pivot,
    where the note is required."""

    note: str = ""
    force: bool = False


@dataclass(frozen=True)
class Resolution:
    """How a saga was settled by hand. ``steps``: those whose undo was done."""

    note: str
    action: str = ""
    steps: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Attempts:
    """How often a saga counts as having stalled since its last progress."""

    attempts: int


@dataclass(frozen=True)
class Recovering:
    """Which sagas of a type are to be looked at now, as for :func:`sagas.handlers.recovering.recover`; by default all
    that are due."""

    saga_id: str | None = None
    stale_after: float | None = None
    limit: int | None = None
    max_attempts: int | None = None


@dataclass(frozen=True)
class Change:
    """What is paused or resumed, and why: either ``paused`` or ``active``.

    ``paused`` is about all sagas of a type, about those at ``step``, or about the saga ``saga_id``. With it, ``starts``
    accepts new sagas, which wait, and ``undos`` has undos wait, too. ``active`` is about new sagas only: false refuses
    them, true resumes the type.
    """

    active: bool | None = None
    paused: bool | None = None
    step: str | None = None
    saga_id: str | None = None
    starts: bool = False
    undos: bool = False
    reason: str | None = None


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
    """Return the request's body. None at all is an empty object.

    Args:
        request: the call.
        type_: one of the classes of this module.

    Raises:
        TooLarge, MalformedBody: as :meth:`Request.body`.
        InvalidRequest: it does not fit; ``problems`` lists the paths.
    """
    body: T = decode(request.body() if request.has_body else {}, type_)
    texts = {item.name: getattr(body, item.name) for item in fields(body)}  # pyright: ignore[reportArgumentType]
    problems = [
        Problem(f"$.{name}", f"has more than {LONGEST_NOTE} characters")
        for name, text in texts.items()
        if isinstance(text, str) and len(text) > LONGEST_NOTE
    ]
    if isinstance(body, Resolution) and not re.search(_SOMETHING, body.note):
        problems.append(Problem("$.note", "says nothing"))
    if isinstance(body, Attempts) and not 0 <= body.attempts <= MOST_RECOVERY_ATTEMPTS:
        problems.append(Problem("$.attempts", f"must be 0 to {MOST_RECOVERY_ATTEMPTS}"))
    if isinstance(body, Change):
        problems += _contradictions(body)
    if problems:
        raise InvalidRequest("the body does not fit", problems)
    return body


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
    if narrow and change.starts:
        problems.append(Problem("$.starts", "only for a whole type"))
    return problems


def describe_body(type_: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of what :func:`read_body` takes as ``type_``."""
    schema: dict[str, Any] = json_schema(type_)["$defs"][type_.__name__]
    for item in schema["properties"].values():
        for text in (one for one in item.get("anyOf", [item]) if one == {"type": "string"}):
            text["maxLength"] = LONGEST_NOTE
    if type_ is Resolution:
        schema["properties"]["note"]["pattern"] = _SOMETHING
    if type_ is Recovering:
        for name, bounds in _OF_RECOVERIES.items():
            given = next(one for one in schema["properties"][name]["anyOf"] if one != {"type": "null"})
            given |= bounds
    if type_ is Change:
        schema["anyOf"] = [{"required": [next(iter(shape))], "properties": shape} for shape in _CHANGES]
    if type_ is Attempts:
        schema["properties"]["attempts"] |= {"minimum": 0, "maximum": MOST_RECOVERY_ATTEMPTS}
    return schema
