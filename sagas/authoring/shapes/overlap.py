"""Whether a member of a union takes what a later member writes.

A union decodes as the first member that fits. So it gives back what it was given if, and only if, no member decodes
what a later member encodes, except to an equal value.
"""

from __future__ import annotations

from sagas.authoring.shapes.base import Path, Problems, Shape
from sagas.authoring.shapes.choices import Choice
from sagas.authoring.shapes.containers import Array, FixedArray, Json, Mapping
from sagas.authoring.shapes.models import Model
from sagas.authoring.shapes.records import Record
from sagas.authoring.shapes.scalars import Boolean, Formatted, Integer, Null, String
from sagas.authoring.shapes.unions import Union


def first_ambiguity(members: list[Shape]) -> tuple[Shape, Shape] | None:
    """Return the first member that takes what a later one writes, and that one; None if a union of them is sound."""
    for index, earlier in enumerate(members):
        for later in members[index + 1 :]:
            if is_ambiguous_with(earlier, later):
                return earlier, later
    return None


def is_ambiguous_with(earlier: Shape, later: Shape, seen: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Tell whether ``earlier`` may decode something ``later`` encodes, to another value than it was.

    Args:
        earlier: the member that comes first.
        later: the member that comes later.
        seen: pairs under examination: types may be recursive.
    """
    pair = (id(earlier), id(later))
    if pair in seen:
        return True
    seen |= {pair}
    if isinstance(earlier, Union):
        return any(is_ambiguous_with(member, later, seen) for member in earlier.members)
    if isinstance(later, Union):
        return any(is_ambiguous_with(earlier, member, seen) for member in later.members)
    if isinstance(earlier, Choice) or isinstance(later, Choice):
        return _choices(earlier, later)
    if isinstance(earlier, Json) or isinstance(later, Json):
        return _json(earlier, later)
    if not (earlier.json_types & later.json_types):
        return False
    if "array" in earlier.json_types:
        return _arrays(earlier, later, seen)
    if "object" in earlier.json_types:
        return _objects(earlier, later, seen)
    return _scalars(earlier, later)


def _choices(earlier: Shape, later: Shape) -> bool:
    choice, other = (earlier, later) if isinstance(earlier, Choice) else (later, earlier)
    return isinstance(choice, Choice) and any(
        _reads_otherwise(other, form, value) for (_, form), value in choice.values.items()
    )


def _reads_otherwise(shape: Shape, form: object, value: object) -> bool:
    problems = Problems()
    read = shape.decode(form, Path(), problems)
    return not problems and read != value


def _json(earlier: Shape, later: Shape) -> bool:
    other = later if isinstance(earlier, Json) else earlier
    return not isinstance(other, Json | String | Boolean | Null) and not isinstance(other, Integer)


def _scalars(earlier: Shape, later: Shape) -> bool:
    formats = (isinstance(earlier, Formatted), isinstance(later, Formatted))
    if formats == (True, True):
        return earlier is later or _open(earlier) or _open(later)
    return any(formats)


def _open(shape: Shape) -> bool:
    return isinstance(shape, Formatted) and shape.open_format


def _arrays(earlier: Shape, later: Shape, seen: frozenset[tuple[int, int]]) -> bool:
    if isinstance(earlier, Array) and isinstance(later, Array):
        return earlier.make is not later.make or is_ambiguous_with(earlier.item, later.item, seen)
    takes, writes = _items(earlier), _items(later)
    if takes is None or writes is None:
        fixed, item = (writes or takes or []), earlier if takes is None else later
        assert isinstance(item, Array)  # noqa: S101 -- the one without fixed items
        return all(_overlap(item.item, one, seen) for one in fixed)
    least = earlier.required if isinstance(earlier, FixedArray) else 0
    return least <= len(writes) <= len(takes) and all(
        _overlap(one, other, seen) for one, other in zip(takes, writes, strict=False)
    )


def _items(shape: Shape) -> list[Shape] | None:
    return shape.items if isinstance(shape, FixedArray) else None


def _overlap(one: Shape, other: Shape, seen: frozenset[tuple[int, int]]) -> bool:
    """Tell whether a value may be of both: then, with all its siblings, one of the wholes is taken for the other."""
    if "array" in one.json_types & other.json_types:
        return True
    if "object" in one.json_types & other.json_types:
        return is_ambiguous_with(one, other, seen) or is_ambiguous_with(other, one, seen)
    if isinstance(one, Choice) and isinstance(other, Choice):
        return any(other.accepts(form) for _, form in one.values)
    kinds = one.json_types & other.json_types or {"integer", "number"} <= one.json_types | other.json_types
    both = isinstance(one, Formatted) and isinstance(other, Formatted)
    return bool(kinds) and (not both or is_ambiguous_with(one, other, seen))


def _objects(earlier: Shape, later: Shape, seen: frozenset[tuple[int, int]]) -> bool:
    if isinstance(earlier, Mapping) and isinstance(later, Mapping):
        return is_ambiguous_with(earlier.key, later.key, seen) or is_ambiguous_with(earlier.item, later.item, seen)
    if isinstance(earlier, Mapping):
        return all(_overlap(earlier.item, shape, seen) for shape in _always(later).values())
    if isinstance(later, Mapping):
        return all(_overlap(later.item, shape, seen) for shape in _required(earlier).values())
    return _records(earlier, later, seen)


def _records(earlier: Shape, later: Shape, seen: frozenset[tuple[int, int]]) -> bool:
    always, known = _always(later), _known(earlier)
    if not (set(_required(earlier)) <= set(_known(later)) and set(always) <= set(known)):
        return False
    return all(_overlap(known[name], shape, seen) for name, shape in always.items())


def _known(shape: Shape) -> dict[str, Shape]:
    fields = shape.fields.values() if isinstance(shape, Record | Model) else ()
    return {field.name: field.shape for field in fields}


def _required(shape: Shape) -> dict[str, Shape]:
    fields = shape.fields.values() if isinstance(shape, Record | Model) else ()
    return {field.name: field.shape for field in fields if field.required}


def _always(shape: Shape) -> dict[str, Shape]:
    fields = shape.fields.values() if isinstance(shape, Record | Model) else ()
    return {field.name: field.shape for field in fields if field.always}
