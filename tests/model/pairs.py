"""Two releases of a saga type as data: classes made of them, all pairs of two steps, and random ones of four."""

from __future__ import annotations

import types
from collections.abc import Iterator
from datetime import timedelta
from functools import lru_cache
from itertools import permutations, product
from random import Random
from typing import Any, NamedTuple

from sagas import Context, Saga, Secret, children, sleep, step, wait_for
from sagas.authoring.definition.definition import SagaDefinition, definition_of
from tests.faults.sagas import STAGE

WAIT = 1_200.0
"""Seconds that each wait takes: more than those for which a saga waits for a release."""


class Part(NamedTuple):
    """One step of a release.

    Args:
        name: its name.
        kind: ``""`` for a plain step, ``signal``, ``time`` or ``children``.
        undo: it has an undo of its own.
        retired: new sagas skip it.
    """

    name: str
    kind: str = ""
    undo: bool = False
    retired: bool = False


Release = tuple[Part, ...]


class Script(NamedTuple):
    """What happens to a saga.

    Args:
        fails: the position of the step that fails; -1 for none.
        signal: when each signal is sent: ``early`` (at the start), ``asked`` (once its wait has begun) or ``never``.
        deploys: the second release is deployed once the saga has done so many acts; -1 for never.
        cancels: it is cancelled likewise. ``WAITS``: while it waits for a release.
        settle: seconds for which it waits for a release.
        returns: the first release is deployed again while it waits for a release.
        back: the first release is deployed again once the saga has done so many acts; -1 for never.
        asks: an operator asks for its message at each look while it waits for a release.
        keeps_new_undos: the retry meets the first release with the undos that the second has added.
        mixed: until the first release is back, every so many-th function has it still; 0 for none.
        pauses: its type is paused once the saga has done so many acts, for ten minutes; -1 for never.
    """

    fails: int = -1
    signal: str = "asked"
    deploys: int = -1
    cancels: int = -1
    settle: float = 0.0
    returns: bool = False
    back: int = -1
    asks: bool = False
    keeps_new_undos: bool = False
    mixed: int = 0
    pauses: int = -1


WAITS = 1_000


class Leg(Saga[str], name="leg"):
    """A child."""

    @step
    def go(self, request: str, ctx: Context) -> int:
        STAGE.act(request, ctx)
        return 0


REQUESTS: dict[str, Any] = {"text": str, "secret": Secret[str], "number": int}
"""The types of requests, by name. The first two read the same values."""


def _members(part: Part, request_type: Any) -> Iterator[tuple[str, Any]]:
    name = part.name

    def code(self: Any, ctx: Context) -> None:
        STAGE.act(name, ctx)

    def reading(self: Any, request: Any, ctx: Context) -> None:
        STAGE.act(name, ctx)

    def undo(self: Any, ctx: Context) -> None:
        STAGE.act(f"undo_{name}", ctx)

    def legs(self: Any) -> list[str]:
        return [name]

    made: Any
    if part.kind == "children":
        made = children(Leg, retired=part.retired)(legs)
    elif part.kind == "time":
        made = sleep(timedelta(seconds=WAIT), retired=part.retired)
    elif part.kind == "signal":
        made = wait_for(str, timeout=timedelta(seconds=WAIT), retired=part.retired)
        made = made(code) if part.undo else made
    else:
        reading.__annotations__ = {"request": request_type, "ctx": Context, "return": None}
        made = step(retired=part.retired)(reading)
    yield name, made
    if part.undo:
        yield f"undo_{name}", made.compensate(undo)


@lru_cache(5_000)
def saga_class(release: Release, request: str = "text", *, upcast: bool = False) -> type[Any]:
    """Return the class of a release.

    Args:
        release: its steps. The plain ones take the request.
        request: a key of :data:`REQUESTS`.
        upcast: whether an older request is converted.
    """
    type_ = REQUESTS[request]
    members = dict(member for part in release for member in _members(part, type_))
    keywords = {"name": "pair"} | ({"upcast": {"request": int}} if upcast else {})
    return types.new_class("Pair", (Saga[type_],), keywords, lambda body: body.update(members))


@lru_cache(5_000)
def definition(release: Release) -> SagaDefinition:
    """Return the definition of a release."""
    return definition_of(saga_class(release))


def with_new_undos(old: Release, new: Release) -> Release:
    """Return the first release with the undos that the second has added."""
    added = {part.name for part in new if part.undo and part.kind in ("", "signal")}
    return tuple(part._replace(undo=part.undo or (part.name in added and part.kind in ("", "signal"))) for part in old)


KINDS = (("", False), ("", True), ("signal", False), ("signal", True), ("time", False), ("children", False))
OTHER = Part("other", "", True)


def of_two_steps() -> Iterator[tuple[Release, Release]]:
    """All pairs whose first release has two steps: each is gone, as it was or of another kind in the second one. Some
    of these have another order, a step more, or a retired one: no saga may notice."""
    number = 0
    for first, second in product(KINDS, repeat=2):
        old = (Part("a", *first), Part("b", *second))
        for one, two in product((None, *KINDS), repeat=2):
            kept = [Part(name, *kind) for name, kind in (("a", one), ("b", two)) if kind is not None]
            number += 1
            order = list(permutations(kept))[number % 2 if len(kept) == 2 else 0]
            more = (OTHER,) if not kept or number % 3 == 0 else ()
            some = tuple(part._replace(retired=number % 5 == 0 and bool(more)) for part in order)
            yield old, (*more, *some)


NAMES = "abcdefgh"


def some_pair(chance: Random) -> tuple[Release, Release]:
    """A release of up to four steps, and what one to three edits make of it."""
    old = [Part(name, *chance.choice(KINDS)) for name in NAMES[: chance.randint(1, 4)]]
    if len(old) > 1 and chance.random() < 0.2:
        spot = chance.randrange(len(old))
        old[spot] = old[spot]._replace(retired=True)
    new = list(old)
    for _ in range(chance.randint(1, 3)):
        _edit(new, chance)
    if all(part.retired for part in new):
        new.append(OTHER)
    return tuple(old), tuple(new)


def _edit(parts: list[Part], chance: Random) -> None:
    """Change a release as its author may: a step is added, removed, renamed, moved, retired, or is of another kind, or
    an undo comes or goes."""
    free = next(name for name in NAMES if name not in {part.name for part in parts})
    edits = ("add", "remove", "rename", "move", "kind", "undo", "undo", "retire")
    edit = chance.choice(edits) if parts else "add"
    if edit == "add":
        parts.insert(chance.randint(0, len(parts)), Part(free, *chance.choice(KINDS)))
        return
    spot = chance.randrange(len(parts))
    part = parts.pop(spot)
    if edit == "move":
        parts.insert(chance.randint(0, len(parts)), part)
    elif edit == "rename":
        parts.insert(spot, part._replace(name=free))
    elif edit == "kind":
        kind, undo = chance.choice(KINDS)
        parts.insert(spot, part._replace(kind=kind, undo=undo))
    elif edit == "undo":
        parts.insert(spot, part._replace(undo=not part.undo and part.kind in ("", "signal")))
    elif edit == "retire":
        parts.insert(spot, part._replace(retired=True))
