"""Values that are not to be shown: which they are, and what is shown in their place.

An author names them by type (``Secret[str]``) or by place (``redact=("$.request.card.number",)``). They are stored and
handed to steps as they are; what is shown to people and programs has ``***`` there.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, cast

from sagas.authoring.shapes.base import Shape, UnsupportedType, json_type_of
from sagas.authoring.shapes.compiler import shape_of
from sagas.authoring.shapes.containers import Array, FixedArray, Json, Mapping
from sagas.authoring.shapes.models import Model
from sagas.authoring.shapes.records import Record
from sagas.authoring.shapes.unions import Union
from sagas.authoring.signatures.annotations import SECRET
from sagas.errors import DefinitionError
from sagas.paths import EACH, Place, parse_path

T = TypeVar("T")
Secret = Annotated[T, SECRET]
"""``Secret[str]``: a ``str`` that is shown as ``***``. For type checkers, and for the code that takes it, a ``str``."""

HIDDEN = "***"
REQUEST = "request"
_SHORTEST = 4
"""Characters of a value that is looked for in texts: shorter ones are found everywhere."""

PlacesBySource = collections.abc.Mapping[str, Sequence[Place]]


@dataclass(frozen=True, slots=True)
class Redaction:
    """What of a saga type is not shown.

    Args:
        types: of the request, under ``request``, and of each step's result, under its name.
        places: below these, by the same names: members by name, ``[*]`` for all of an array or object, ``[0]`` for the
            first of an array.
        hides: whether anything may not be shown.
    """

    types: dict[str, Any] = field(default_factory=dict[str, Any])
    places: dict[str, tuple[Place, ...]] = field(default_factory=dict[str, tuple[Place, ...]])
    hides: bool = False

    def shown(self, source: str, data: Any) -> tuple[Any, list[str]]:
        """Return what is shown of a request or a result, and the values that are not, as texts to look for."""
        walk = _Walk()
        if source not in self.types:
            return (walk.hide(data) if self.hides else data), walk.found
        for place in self.places.get(source, ()):
            data = walk.at(data, place)
        return walk.typed(data, shape_of(self.types[source])), walk.found


def without(text: str, secrets: Iterable[str]) -> str:
    """Return a text with ``***`` in place of values that are not to be shown; the longest first."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, HIDDEN)
    return text


def redaction_of(
    where: str, types: dict[str, Any], paths: Sequence[str], of_children: PlacesBySource = MappingProxyType({})
) -> Redaction:
    """Return what is not shown of a saga type."""
    places = {source: [*found] for source, found in of_children.items() if found}
    for path in paths:
        try:
            source, *place = parse_path(path) or ("",)
        except ValueError as error:
            raise DefinitionError(f"{where}: redact: {error}") from None
        if source not in types:
            sources = ", ".join(f"$.{name}" for name in types)
            raise DefinitionError(f"{where}: redact: {path!r} must start with one of {sources}")
        if not _leads_somewhere(shape_of(types[source]), tuple(place)):
            raise DefinitionError(f"{where}: redact: {path!r} matches nothing")
        places.setdefault(source, []).append(tuple(place))
    hides = bool(places) or any(_has_secret(shape_of(type_), set()) for type_ in types.values())
    return Redaction(types, {source: tuple(found) for source, found in places.items()}, hides)


class _Walk:
    """A walk over JSON that hides values and notes them."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def hide(self, data: Any) -> Any:
        """Note all that is inside ``data``; what is shown instead. That there is nothing is shown."""
        if data is None:
            return None
        self._note(data)
        return HIDDEN

    def _note(self, data: Any) -> None:
        match data:
            case dict():
                for item in cast("dict[str, Any]", data).values():
                    self._note(item)
            case list():
                for item in cast("list[Any]", data):
                    self._note(item)
            case str():
                self.found.append(data)
            case bool() | None:
                pass
            case _:
                self.found.append(str(data))

    def at(self, data: Any, place: Place) -> Any:
        """Hide what is at a place."""
        if not place:
            return self.hide(data)
        first, rest = place[0], place[1:]
        if isinstance(data, dict):
            members = cast("dict[str, Any]", data)
            return {name: self.at(item, rest) if first in (name, EACH) else item for name, item in members.items()}
        if isinstance(data, list):
            items = enumerate(cast("list[Any]", data))
            return [self.at(item, rest) if first in (EACH, f"[{index}]") else item for index, item in items]
        return data

    def typed(self, data: Any, shape: Shape) -> Any:
        """Hide what a type says. What does not fit the type, which may have changed since, is shown."""
        if shape.secret:
            return self.hide(data)
        if isinstance(shape, Union):
            for member in shape.members:
                if json_type_of(data) in member.json_types:
                    data = self.typed(data, member)
            return data
        if isinstance(data, dict):
            members = cast("dict[str, Any]", data)
            return {name: self.typed(item, _member(shape, name)) for name, item in members.items()}
        if isinstance(data, list):
            items = cast("list[Any]", data)
            if isinstance(shape, Array):
                return [self.typed(item, shape.item) for item in items]
            if isinstance(shape, FixedArray):
                known = [*shape.items, *[_UNKNOWN] * len(items)]
                return [self.typed(item, one) for item, one in zip(items, known, strict=False)]
        return cast("Any", data)


_UNKNOWN = Json()


def _member(shape: Shape, name: str) -> Shape:
    """The shape of an object's member, as far as anything is known of it."""
    if isinstance(shape, Mapping):
        return shape.item
    if isinstance(shape, Record):
        return shape.fields[name].shape if name in shape.fields else _UNKNOWN
    return _model_members(shape).get(name, _UNKNOWN) if isinstance(shape, Model) else _UNKNOWN


def _model_members(shape: Model) -> dict[str, Shape]:
    """The shapes of a pydantic model's fields, as far as its types are known here too."""
    found = dict[str, Shape]()
    for name, info in shape.type.model_fields.items():
        known = info.serialization_alias or info.alias or name
        try:
            found[known] = shape_of(Annotated[info.annotation, SECRET] if SECRET in info.metadata else info.annotation)
        except UnsupportedType:
            found[known] = _UNKNOWN
    return found


def _inside(shape: Shape) -> list[Shape]:
    if isinstance(shape, Union):
        return shape.members
    if isinstance(shape, Array | Mapping):
        return [shape.item]
    if isinstance(shape, FixedArray):
        return shape.items
    if isinstance(shape, Record):
        return [one.shape for one in shape.fields.values()]
    return [*_model_members(shape).values()] if isinstance(shape, Model) else []


def _has_secret(shape: Shape, seen: set[int]) -> bool:
    """Whether there may be a secret inside. What a pydantic model refers to may not be known yet."""
    if id(shape) in seen:
        return False
    seen.add(id(shape))
    return shape.secret or isinstance(shape, Model) or any(_has_secret(one, seen) for one in _inside(shape))


def _leads_somewhere(shape: Shape, place: Place) -> bool:
    """Whether a place may be there in values of a shape."""
    if not place or isinstance(shape, Json):
        return True
    first, rest = place[0], place[1:]
    if isinstance(shape, Union):
        return any(_leads_somewhere(member, place) for member in shape.members)
    if first == EACH or isinstance(shape, Mapping) or (first.startswith("[") and isinstance(shape, Array | FixedArray)):
        return any(_leads_somewhere(one, rest) for one in _inside(shape))
    if isinstance(shape, Record):
        return first in shape.fields and _leads_somewhere(shape.fields[first].shape, rest)
    if isinstance(shape, Model):
        known = _model_members(shape)
        return first in known and _leads_somewhere(known[first], rest)
    return False
