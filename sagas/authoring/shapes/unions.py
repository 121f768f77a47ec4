"""Unions. A value must be decoded as the member that encoded it, so members that look alike in JSON are refused."""

from __future__ import annotations

from typing import Any

from sagas.authoring.shapes.base import Path, Problems, SchemaDefinitions, Shape, json_type_of
from sagas.authoring.shapes.containers import Array, FixedArray, Json, Mapping
from sagas.authoring.shapes.records import Annotated, Model, Record
from sagas.authoring.shapes.scalars import Boolean, Choice, Float, Formatted, Integer, Null, String


class Union(Shape):
    """One of several types. The first member that fits encodes or decodes a value.

    Args:
        members: the members' shapes, in order.
    """

    def __init__(self, members: list[Shape]) -> None:
        self.members = members
        self.json_types = frozenset(kind for member in members for kind in member.json_types)
        self.hashable = all(member.hashable for member in members)
        self.label = " or ".join(member.label for member in members)

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        return self._first([m for m in self.members if m.holds(value)], "encode", value, at, problems)

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        """Decode with the first member that accepts the data. If a member is float, ``1.0`` is decoded as a float."""
        fitting = [member for member in self.members if member.accepts(data)]
        if isinstance(data, float):
            fitting.sort(key=lambda member: not isinstance(member, Float))
        if not fitting:
            kind = json_type_of(data)
            near = [member for member in self.members if kind in member.json_types]
            fitting = near if len(near) == 1 else []  # if only one member has this kind, its problems say most
        return self._first(fitting, "decode", data, at, problems)

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return {"anyOf": [member.schema(definitions) for member in self.members]}

    def holds(self, value: Any) -> bool:
        return any(member.holds(value) for member in self.members)

    def accepts(self, data: Any) -> bool:
        return any(member.accepts(data) for member in self.members)

    def _first(self, candidates: list[Shape], method: str, value: Any, at: Path, problems: Problems) -> Any:
        if len(candidates) == 1:
            return getattr(candidates[0], method)(value, at, problems)
        key = (id(self), id(value), method)
        if key not in problems.tried:
            outcome = (value, False, None)
            for candidate in candidates:
                trial = Problems(problems)
                result = getattr(candidate, method)(value, at, trial)
                if not trial:
                    outcome = (value, True, result)
                    break
            problems.tried[key] = outcome
        _, fits, result = problems.tried[key]
        return result if fits else self.expected(at, problems, value)


def first_ambiguity(members: list[Shape]) -> tuple[Shape, Shape] | None:
    """Return the first two members in the wrong order: the earlier can decode the output of the later. None without
    any."""
    for index, earlier in enumerate(members):
        for later in members[index + 1 :]:
            if is_ambiguous_with(earlier, later):
                return earlier, later
    return None


def is_ambiguous_with(earlier: Shape, later: Shape, seen: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Whether ``earlier`` can decode the output of ``later`` to a different value."""
    pair = (id(earlier), id(later))
    if pair in seen:
        return True
    seen |= {pair}
    if isinstance(earlier, Union):
        return any(is_ambiguous_with(member, later, seen) for member in earlier.members)
    if isinstance(later, Union):
        return any(is_ambiguous_with(earlier, member, seen) for member in later.members)
    if isinstance(earlier, Annotated) or isinstance(later, Annotated):
        return bool(earlier.json_types & later.json_types)
    choice = next((shape for shape in (earlier, later) if isinstance(shape, Choice)), None)
    if choice is not None:
        return _reads_otherwise(later if choice is earlier else earlier, choice)
    if isinstance(earlier, Json) or isinstance(later, Json):
        other = later if isinstance(earlier, Json) else earlier
        return not isinstance(other, Json | String | Boolean | Null | Integer)
    if not (earlier.json_types & later.json_types):
        return False
    if "array" in earlier.json_types:
        return _arrays(earlier, later, seen)
    if "object" in earlier.json_types:
        return _objects(earlier, later, seen)
    return _formats(earlier, later)


def _formats(earlier: Shape, later: Shape) -> bool:
    formats = [shape for shape in (earlier, later) if isinstance(shape, Formatted)]
    alike = earlier is later or any(shape.open_format for shape in formats)
    return len(formats) == 1 or (len(formats) == 2 and alike)


def _reads_otherwise(shape: Shape, choice: Choice) -> bool:
    """Whether ``shape`` decodes some form of the choice to a different value than the choice itself does."""
    for (_, form), value in choice.values.items():
        problems = Problems()
        read = shape.decode(form, Path(), problems)
        if not problems and read != value:
            return True
    return False


def _arrays(earlier: Shape, later: Shape, seen: frozenset[tuple[int, int]]) -> bool:
    match earlier, later:
        case Array(), Array():
            return earlier.make is not later.make or is_ambiguous_with(earlier.item, later.item, seen)
        case (Array(item=item), FixedArray(items=items)) | (FixedArray(items=items), Array(item=item)):
            return all(_overlap(item, other, seen) for other in items)
        case FixedArray(), FixedArray():
            pairs = zip(earlier.items, later.items, strict=False)
            fits = earlier.required <= len(later.items) <= len(earlier.items)
            return fits and all(_overlap(*pair, seen) for pair in pairs)
        case _:
            return False


def _overlap(shape: Shape, other: Shape, seen: frozenset[tuple[int, int]]) -> bool:
    """Whether a value can have both shapes. Shapes whose parts all overlap can be mistaken for each other."""
    if "array" in shape.json_types & other.json_types:
        return True
    if "object" in shape.json_types & other.json_types:
        return is_ambiguous_with(shape, other, seen) or is_ambiguous_with(other, shape, seen)
    if isinstance(shape, Choice) and isinstance(other, Choice):
        return any(other.accepts(form) for _, form in shape.values)
    kinds = shape.json_types & other.json_types or {"integer", "number"} <= shape.json_types | other.json_types
    both = isinstance(shape, Formatted) and isinstance(other, Formatted)
    return bool(kinds) and (not both or is_ambiguous_with(shape, other, seen))


def _objects(earlier: Shape, later: Shape, seen: frozenset[tuple[int, int]]) -> bool:
    if isinstance(earlier, Mapping) and isinstance(later, Mapping):
        return is_ambiguous_with(earlier.key, later.key, seen) or is_ambiguous_with(earlier.item, later.item, seen)
    readable = earlier.fields if isinstance(earlier, Record | Model) else {}
    written = later.fields if isinstance(later, Record | Model) else {}
    required = {name: field.shape for name, field in readable.items() if field.required}
    always = {name: field.shape for name, field in written.items() if field.always}
    if isinstance(earlier, Mapping):
        return all(_overlap(earlier.item, shape, seen) for shape in always.values())
    if isinstance(later, Mapping):
        return all(_overlap(later.item, shape, seen) for shape in required.values())
    if not (required.keys() <= written.keys() and always.keys() <= readable.keys()):
        return False
    return all(_overlap(readable[name].shape, shape, seen) for name, shape in always.items())
