"""Redaction: it replaces values of a saga that must be hidden from readers.

Authors mark values by type (``Secret[str]``) or by path (``redact=("$.request.card.number",)``). Steps and the store
have the real values. Whatever people and programs see has ``***`` instead.
"""

from __future__ import annotations

import collections.abc
import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, cast, get_args

from msgspec import Struct, field

from sagas.authoring.shapes.base import Shape, UnsupportedType
from sagas.authoring.shapes.compiler import shape_of
from sagas.authoring.shapes.containers import Array, FixedArray, Json, Mapping
from sagas.authoring.shapes.records import Model, Record
from sagas.authoring.shapes.scalars import Choice
from sagas.authoring.shapes.unions import Union
from sagas.authoring.signatures import SECRET, is_secret
from sagas.errors import DefinitionError
from sagas.paths import DEEP, EACH, Place, nested, parse_path, value_at
from sagas.spellings import HIDDEN, RULE

T = TypeVar("T")
Secret = Annotated[T, SECRET]
"""``Secret[str]``: a ``str`` that readers see as ``***``. For type checkers and your code, it is a plain ``str``."""

REQUEST = "request"

PlacesBySource = collections.abc.Mapping[str, Sequence[Place]]


class Redaction(Struct, frozen=True, dict=True):
    """The redacted values of a saga type.

    Args:
        types: the type of the request, under ``request``, and of each step's result, under the step's name.
        places: paths to redacted values in these types, under the same names. Parts are names of members, ``[*]`` for
            all items of an array or object, and ``[0]`` for the first item of an array.
        version: the version of the type.
    """

    types: dict[str, Any] = field(default_factory=dict[str, Any])
    places: dict[str, tuple[Place, ...]] = field(default_factory=dict[str, tuple[Place, ...]])
    version: str = ""

    def view(self, source: str, data: Any, stored: Iterable[Place] = ()) -> tuple[Any, list[str]]:
        """Return a redacted request or result, and its hidden values as texts to replace elsewhere. ``stored`` are the
        paths that were stored with the value, which may hide more than today's types."""
        places = (*dict.fromkeys((*stored, *self.hidden.get(source, ()))),)
        if not places:
            return data, []
        walk = _Walk(*self._known.get(source, (frozenset(), {})))
        for place in places:
            data = walk.at(data, place)
        return data, walk.secrets

    def hides(self, source: str, place: Place) -> bool:
        """Whether a value at a place without ``[*]`` is hidden, alone or with a value around it."""
        try:
            return value_at(self.view(source, nested(place, "value"))[0], place) != "value"
        except LookupError:
            return True

    @cached_property
    def mark(self) -> str:
        """The mark of texts that were redacted under this type: its version, and a hash of what it hides and of the
        rule by which texts are searched. Empty if it hides nothing."""
        if not self.hidden:
            return ""
        hidden = {source: [*map(list, places)] for source, places in self.hidden.items()}
        digest = hashlib.sha256(json.dumps([RULE, hidden], sort_keys=True).encode()).digest()
        return f"{self.version}#{urlsafe_b64encode(digest[:6]).decode()}"

    def covers(self, mark: str) -> bool:
        """Whether a text with this mark was redacted under a type that hides what this one hides."""
        return not self.mark or mark.rpartition("#")[2] == self.mark.rpartition("#")[2]

    @cached_property
    def _known(self) -> dict[str, tuple[frozenset[str], dict[Any, list[str]]]]:
        """The names of fields in the types, which are no part of a value, and the names of members of enumerations by
        their JSON, by which code may quote them."""
        return {
            source: (_field_names(shape_of(type_)), _member_names(shape_of(type_)))
            for source, type_ in self.types.items()
        }

    @cached_property
    def hidden(self) -> collections.abc.Mapping[str, tuple[Place, ...]]:
        """All paths to redacted values by source, including those that types mark. Sources without paths are left out.

        Each value is stored with these paths, so it stays hidden when the types change. They may hide more than the
        types: a path in one member of a union applies to all members.
        """
        by_source = dict[str, tuple[Place, ...]]()
        for source, type_ in self.types.items():
            paths = {*self.places.get(source, ()), *_hidden(shape_of(type_), ())}
            # A path below another hidden path adds nothing.
            outer = [path for path in paths if all(path[:length] not in paths for length in range(len(path)))]
            if outer:
                by_source[source] = tuple(sorted(outer))
        return by_source


def redaction_of(
    where: str,
    types: dict[str, Any],
    paths: Sequence[str],
    of_children: PlacesBySource = MappingProxyType({}),
    version: str = "",
) -> Redaction:
    """Return the redaction of a saga type."""
    places = {source: [*inner] for source, inner in of_children.items() if inner}
    for path in paths:
        try:
            source, *place = parse_path(path) or ("",)
        except ValueError as error:
            raise DefinitionError(f"{where}: redact: {error}") from None
        if source not in types:
            sources = ", ".join(f"$.{name}" for name in types)
            raise DefinitionError(f"{where}: redact: {path!r} must start with one of {sources}")
        if not _leads_somewhere(shape_of(types[source]), tuple(place)):
            raise DefinitionError(f"{where}: redact: {path!r} does not exist in the type")
        places.setdefault(source, []).append(tuple(place))
    return Redaction(types, {source: tuple(inner) for source, inner in places.items()}, version)


class _Walk:
    """A walk over JSON that hides values and collects them.

    Args:
        fields: the names of fields. Other keys of hidden objects are values, too.
        members: the names of members of enumerations, by the type and the value of their JSON.
    """

    def __init__(self, fields: frozenset[str], members: dict[Any, list[str]]) -> None:
        self.secrets: list[str] = []
        self._fields = fields
        self._members = members

    def hide(self, data: Any) -> Any:
        """Collect all values inside ``data`` and return their replacement. ``None`` stays visible."""
        if data is None:
            return None
        self._collect(data)
        return HIDDEN

    def _collect(self, data: Any) -> None:
        match data:
            case dict():
                for name, item in cast("dict[str, Any]", data).items():
                    self.secrets += () if name in self._fields else (name,)
                    self._collect(item)
            case list():
                for item in cast("list[Any]", data):
                    self._collect(item)
            case bool() | None:
                pass
            case _:
                self.secrets += (str(data), *self._members.get((type(data), data), ()))

    def at(self, data: Any, place: Place) -> Any:
        """Hide the value at a place."""
        if not place:
            return self.hide(data)
        first = place[0]
        remaining = place[1:]
        if first == DEEP:
            return self._deep(data, remaining[0])
        if isinstance(data, dict):
            members = cast("dict[str, Any]", data)
            return {name: self.at(item, remaining) if first in (name, EACH) else item for name, item in members.items()}
        if isinstance(data, list):
            items = enumerate(cast("list[Any]", data))
            return [self.at(item, remaining) if first in (EACH, f"[{index}]") else item for index, item in items]
        return data

    def _deep(self, data: Any, hidden: str) -> Any:
        """Hide all members with this name, at any depth."""
        if isinstance(data, dict):
            members = cast("dict[str, Any]", data)
            return {
                name: self.hide(item) if name == hidden else self._deep(item, hidden) for name, item in members.items()
            }
        return [self._deep(item, hidden) for item in cast("list[Any]", data)] if isinstance(data, list) else data


_ANYTHING = Json()
_HIDDEN_ANYTHING = Json()
_HIDDEN_ANYTHING.secret = True


def _model_members(shape: Model) -> list[tuple[Place, Shape]]:
    """The shapes of a pydantic model's fields, each by every name that it may have in JSON. A root has no name. Types
    that only pydantic supports are any JSON."""
    members = list[tuple[Place, Shape]]()
    for name, info in shape.type.model_fields.items():
        inner = _of_field(Annotated[info.annotation, SECRET] if SECRET in info.metadata else info.annotation)
        root = getattr(shape.type, "__pydantic_root_model__", False)
        aliases = (name, info.alias, info.serialization_alias, *_aliases(info.validation_alias))
        members += [(() if root else (key,), inner) for key in dict.fromkeys(aliases) if key]
    return members


def _aliases(alias: Any) -> list[str]:
    """The names of members in JSON that hold a field with this validation alias."""
    if alias is None or isinstance(alias, str):
        return [alias or ""]
    choices: list[Any] = getattr(alias, "choices", [alias])
    return [choice if isinstance(choice, str) else str(choice.path[0]) for choice in choices]


def _of_field(annotation: Any) -> Shape:
    """The shape of a field of a pydantic model. If only pydantic supports its type, it is hidden as a whole if a part
    of the type is hidden."""
    try:
        return shape_of(annotation)
    except UnsupportedType:
        parts = [part for part in get_args(annotation) if not isinstance(part, str | int | float | bytes)]
        secret = is_secret(annotation) or any(_hidden(_of_field(part), ()) for part in parts)
        return _HIDDEN_ANYTHING if secret else _ANYTHING


def _inside(shape: Shape) -> list[tuple[Place, Shape]]:
    """The shapes directly inside a shape, each with its relative path. Members of a union have an empty path."""
    if isinstance(shape, Union):
        return [((), member) for member in shape.members]
    if isinstance(shape, Array | Mapping):
        return [((EACH,), shape.item)]
    if isinstance(shape, FixedArray):
        return [((f"[{index}]",), item) for index, item in enumerate(shape.items)]
    if isinstance(shape, Record):
        return [((name,), record_field.shape) for name, record_field in shape.fields.items()]
    return _model_members(shape) if isinstance(shape, Model) else []


def _hidden_whole(shape: Shape) -> bool:
    """Whether all of a value is hidden: as a secret, or as a pydantic model whose references are unresolved."""
    if shape.secret or not isinstance(shape, Model):
        return shape.secret
    return not (shape.type.__pydantic_complete__ or shape.type.model_rebuild(raise_errors=False))


def _all_inside(shape: Shape) -> set[tuple[str, Shape]]:
    """The shapes at any depth inside a shape, each with the name of the innermost member that contains it."""
    found = set[tuple[str, Shape]]()
    ahead = [("", shape)]
    while ahead:
        name, outer = ahead.pop()
        for part, inner in [] if _hidden_whole(outer) else _inside(outer):
            pair = (part[0] if part and not part[0].startswith("[") else name, inner)
            if pair not in found:
                found.add(pair)
                ahead.append(pair)
    return found


def _hidden(shape: Shape, place: Place) -> list[Place]:
    """The paths to the hidden values of a type at a place. If a type contains itself, they have names at any depth."""
    if _hidden_whole(shape):
        return [place]
    inside = _all_inside(shape)
    names = {name for name, inner in inside if _hidden_whole(inner)}
    if not any(inner is shape for _, inner in inside):
        return [path for part, inner in _inside(shape) for path in (_hidden(inner, place + part) if names else ())]
    return [place] if "" in names else [(*place, DEEP, name) for name in names]


def _leads_somewhere(shape: Shape, place: Place) -> bool:
    """Whether a value of a shape can contain this place."""
    if not place or isinstance(shape, Json):
        return True
    first = place[0]
    remaining = place[1:]
    if isinstance(shape, Union):
        return any(_leads_somewhere(member, place) for member in shape.members)
    if first == EACH or isinstance(shape, Mapping) or (first.startswith("[") and isinstance(shape, Array | FixedArray)):
        return any(_leads_somewhere(inner, remaining) for _, inner in _inside(shape))
    if isinstance(shape, Record):
        return first in shape.fields and _leads_somewhere(shape.fields[first].shape, remaining)
    if isinstance(shape, Model):
        members = _model_members(shape)
        roots = [inner for part, inner in members if not part]
        named = [inner for part, inner in members if part == (first,)]
        return any(_leads_somewhere(inner, place) for inner in roots) or any(
            _leads_somewhere(inner, remaining) for inner in named
        )
    return False


def _all_shapes(shape: Shape) -> Iterator[Shape]:
    """A shape, and the shapes at any depth inside it."""
    seen = set[int]()
    ahead = [shape]
    while ahead:
        outer = ahead.pop()
        if id(outer) not in seen:
            seen.add(id(outer))
            yield outer
            ahead += [inner for _, inner in _inside(outer)]


def _field_names(shape: Shape) -> frozenset[str]:
    """The names of all fields inside a shape."""
    records = (inner for inner in _all_shapes(shape) if isinstance(inner, Record | Model))
    return frozenset(part[0] for record in records for part, _ in _inside(record) if part)


def _member_names(shape: Shape) -> dict[Any, list[str]]:
    """The names of members of all enumerations inside a shape, by the type and the value of their JSON."""
    names = dict[Any, list[str]]()
    for choice in _all_shapes(shape):
        for form, value in choice.values.items() if isinstance(choice, Choice) else ():
            if isinstance(value, Enum):
                names.setdefault(form, []).extend((value.name, f"{type(value).__name__}.{value.name}"))
    return names
