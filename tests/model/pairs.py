"""Two releases of a saga type as data: classes made of them, all pairs of two steps, and random ones of four."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import lru_cache, partial
from inspect import Parameter, Signature
from itertools import permutations, product
from random import Random
from typing import Any, Literal, NamedTuple

from sagas import Context, NotYet, Saga, Secret, children, sleep, step, wait_for
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
        result: the type of its result or signal, a key of :data:`TYPES`.
        of: the types of its children, in order: names in :data:`CHILDREN`.
        takes: the earlier step whose result it takes; empty for none.
        own: its undo takes its result.
        gives: its result is the saga's.
        started: its undo is owed once it has begun.
        polls: it is not ready when it is called first.
        when: what its condition says, ``yes`` or ``no``; empty without one.
    """

    name: str
    kind: str = ""
    undo: bool = False
    retired: bool = False
    result: str = "text"
    of: str = "leg"
    takes: str = ""
    own: bool = False
    gives: bool = False
    started: bool = False
    polls: bool = False
    when: str = ""

    def __repr__(self) -> str:
        return brief(self)

    @property
    def stored(self) -> str:
        """What is stored of it. Values are read as what they are stored as, or not at all."""
        if self.kind == "children":
            return f"results of {self.of}"
        return "null" if self.kind == "time" else self.result.replace("secret", "text")

    @property
    def value(self) -> Any:
        """Its result, as JSON."""
        if self.kind == "children":
            return [*range(len(self.of.split()))]
        return None if self.kind == "time" else 7 if self.result == "number" else f"said by {self.name}"


def brief(one: Any) -> str:
    """Return the code that makes a named tuple, without what it has by default."""
    default: dict[str, Any] = one._field_defaults
    given = [(name, value) for name, value in one._asdict().items() if name not in default or value != default[name]]
    return f"{type(one).__name__}({', '.join(f'{name}={value!r}' for name, value in given)})"


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
        loses: the position of the step whose first undo never reports, and during which the second release is deployed;
            -1 for none.
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
    loses: int = -1

    def __repr__(self) -> str:
        return brief(self)


WAITS = 1_000


class Case(NamedTuple):
    """Two releases, and what happens to a saga of the first one.

    Args:
        requests: the types of the request in each release, keys of :data:`TYPES`.
        upcast: the second release converts values that it cannot read.
        faults: numbers of requests, and the name of what happens at each.
    """

    old: Release
    new: Release
    script: Script = Script()
    requests: tuple[str, str] = ("text", "text")
    upcast: bool = False
    faults: tuple[tuple[int, str], ...] = ()

    def __repr__(self) -> str:
        return brief(self)


class Leg(Saga[str], name="leg"):
    """A child, which results in its place. Its request is the name of its parent's step and this place."""

    @step
    def go(self, request: str, ctx: Context) -> int:
        STAGE.act(request[:-1], ctx)
        return int(request[-1])


class Arm(Saga[str], name="arm"):
    """Another, whose result has the same type."""

    @step
    def go(self, request: str, ctx: Context) -> int:
        STAGE.act(request[:-1], ctx)
        return int(request[-1])


CHILDREN: dict[str, type[Any]] = {"leg": Leg, "arm": Arm}
"""Types of children by name."""
TYPES: dict[str, Any] = {"text": str, "secret": Secret[str], "number": int}
"""The types of requests and results, by name. The first two read the same values."""


def _type_of(part: Part) -> Any:
    """The type of its result."""
    if part.kind == "children":
        return list[int] if len(part.value) == 1 else tuple[int, int]
    return None if part.kind == "time" else TYPES[part.result]


def _method(code: Callable[[Context], Any], returns: Any, takes: dict[str, Any]) -> Any:
    """A method that takes a context and values of these types."""

    def method(self: Any, ctx: Context, **values: Any) -> Any:
        return code(ctx)

    names = {"self": Parameter.empty, "ctx": Context} | takes
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=one) for name, one in names.items()]
    vars(method)["__signature__"] = Signature(parameters, return_annotation=returns)
    return method


def yes() -> bool:
    return True


def no() -> bool:
    return False


CONDITIONS: dict[str, Callable[..., bool] | None] = {"": None, "yes": yes, "no": no}
"""Conditions, by what they say."""


def _members(part: Part, values: dict[str, Any], skippable: set[str]) -> Iterator[tuple[str, Any]]:
    name = part.name
    condition = CONDITIONS[part.when]
    takes = {part.takes: values[part.takes]} if part.takes else {}
    takes = {source: one | None if source in skippable else one for source, one in takes.items()}

    def code(ctx: Context) -> Any:
        if part.polls and ctx.attempt == 1:
            raise NotYet(2)
        STAGE.act(name, ctx)
        return part.value

    def asks(ctx: Context) -> None:
        STAGE.act(name, ctx)

    def undo(ctx: Context) -> None:
        STAGE.act(f"undo_{name}", ctx)

    def legs(ctx: Context) -> Any:
        requests = [f"{name}{place}" for place in part.value]
        return tuple(requests) if len(requests) > 1 else requests

    made: Any
    when: Literal["started", "completed"] = "started" if part.started else "completed"
    if part.kind == "children":
        made = children(*map(CHILDREN.__getitem__, part.of.split()), retired=part.retired, when=condition)
        made = made(_method(legs, list[str] if len(part.value) == 1 else tuple[str, str], takes))
    elif part.kind == "time":
        made = sleep(timedelta(seconds=WAIT), retired=part.retired, when=condition)
    elif part.kind == "signal":
        length = timedelta(seconds=WAIT)
        made = wait_for(TYPES[part.result], timeout=length, retired=part.retired, undo_when=when, when=condition)
        made = made(_method(asks, None, takes)) if part.undo else made
    else:
        takes |= {"request": values["request"]}
        made = step(retired=part.retired, undo_when=when, when=condition)(_method(code, values[name], takes))
    yield name, made
    if part.undo:
        own = values[name] | None if part.started else values[name]
        yield f"undo_{name}", made.compensate(_method(undo, None, {name: own} if part.own else {}))


@lru_cache(5_000)
def saga_class(release: Release, request: str = "text", *, upcast: bool = False) -> type[Any]:
    """Return the class of a release.

    Args:
        release: its steps. The plain ones take the request.
        request: a key of :data:`TYPES`.
        upcast: whether values of an older shape are converted.
    """
    values = {"request": TYPES[request]} | {part.name: _type_of(part) for part in release}
    skippable = {part.name for part in release if part.when}
    members = dict(member for part in release for member in _members(part, values, skippable))
    keywords: dict[str, Any] = {"name": "pair", "result": next((part.name for part in release if part.gives), None)}
    if upcast:
        converted = {part.name: partial(_instead, part) for part in release if part.kind != "time"}
        keywords["upcast"] = {"request": int} | converted
    return types.new_class("Pair", (Saga[values["request"]],), keywords, lambda body: body.update(members))


def _instead(part: Part, _old: Any) -> Any:
    return tuple(part.value) if part.kind == "children" and len(part.value) > 1 else part.value


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
_CONDITIONS = ("", "", "", "", "yes", "no")


def some_pair(chance: Random, *, values: bool = False) -> tuple[Release, Release]:
    """A release of up to four steps, and what one to three edits make of it; with ``values`` steps take results."""
    old = [_some_part(name, chance, values=values) for name in NAMES[: chance.randint(1, 4)]]
    if len(old) > 1 and chance.random() < 0.2:
        spot = chance.randrange(len(old))
        old[spot] = old[spot]._replace(retired=True)
    if values:
        _take(old, chance)
    old = [*consistent(old)]
    new = list(old)
    for _ in range(chance.randint(1, 3)):
        _edit(new, chance, values=values)
    if all(part.retired for part in new):
        new.append(OTHER)
    return tuple(old), consistent(new)


def _some_part(name: str, chance: Random, *, values: bool) -> Part:
    part = Part(name, *chance.choice(KINDS))
    part = part._replace(started=chance.random() < 0.3, polls=not part.kind and chance.random() < 0.3)
    part = part._replace(own=part.undo and chance.random() < 0.3, when=chance.choice(_CONDITIONS))
    return _with_value(part, chance)._replace(own=chance.random() < 0.5) if values else part


def _with_value(part: Part, chance: Random) -> Part:
    of = chance.choice(("leg", "arm", "leg arm", "arm leg")) if part.kind == "children" else "leg"
    return part._replace(result=chance.choice((*TYPES, "text")), of=of)


def _take(parts: list[Part], chance: Random) -> None:
    """Have each step take the result of an earlier one, or of none, and one of them, perhaps, give the saga's."""
    gives = chance.choice(("", *(part.name for part in parts)))
    for place, part in enumerate(parts):
        takes = chance.choice(("", *(earlier.name for earlier in parts[:place])))
        parts[place] = part._replace(takes=takes, gives=part.name == gives)


def consistent(parts: Iterable[Part]) -> Release:
    """Return the steps, without what a class would not be accepted for: each takes the result of an earlier step that
    the same sagas have."""
    kept = list[Part]()
    for part in parts:
        earlier = {one.name: one for one in kept if one.kind != "time" and (part.retired or not one.retired)}
        codeless = part.kind == "time" or (part.kind == "signal" and not part.undo)
        takes = "" if codeless or part.takes not in earlier else part.takes
        kept.append(part._replace(takes=takes, gives=part.gives and not part.retired))
    return tuple(kept)


def _edit(parts: list[Part], chance: Random, *, values: bool) -> None:
    """Change a release as its author may: a step is added, removed, renamed, moved, retired, or is of another kind, or
    an undo comes or goes. With ``values`` a type changes, or what takes or gives which result."""
    free = next(name for name in NAMES if name not in {part.name for part in parts})
    edits = ("add", "remove", "rename", "move", "kind", "undo", "undo", "retire", "when")
    more = ("type", "type", "type", "take") if values else ()
    edit = chance.choice((*edits, *more)) if parts else "add"
    if edit == "add":
        parts.insert(chance.randint(0, len(parts)), _some_part(free, chance, values=values))
        return
    if edit == "take":
        _take(parts, chance)
        return
    read = [place for place, one in enumerate(parts) if one.own or one.name in {other.takes for other in parts}]
    spot = chance.choice(read) if edit == "type" and read else chance.randrange(len(parts))
    part = parts.pop(spot)
    if edit == "move":
        parts.insert(chance.randint(0, len(parts)), part)
    elif edit == "rename":
        parts.insert(spot, part._replace(name=free))
        parts[:] = [one._replace(takes=free if one.takes == part.name else one.takes) for one in parts]
    elif edit == "kind":
        kind, undo = chance.choice(KINDS)
        parts.insert(spot, part._replace(kind=kind, undo=undo))
    elif edit == "undo":
        parts.insert(spot, part._replace(undo=not part.undo and part.kind in ("", "signal")))
    elif edit == "when":
        said = chance.choice([one for one in CONDITIONS if one != part.when])
        parts.insert(spot, part._replace(started=not part.started, own=chance.random() < 0.5, when=said))
    elif edit == "retire":
        parts.insert(spot, part._replace(retired=True))
    elif edit == "type":
        parts.insert(spot, next(other for _ in range(100) if (other := _with_value(part, chance)) != part))
