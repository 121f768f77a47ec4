"""Whether a member of a union takes what another member writes.

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


def first_capture(members: list[Shape]) -> tuple[Shape, Shape] | None:
    """Return the first member that takes what a later one writes, and that one; None if a union of them is sound."""
    for index, earlier in enumerate(members):
        for later in members[index + 1 :]:
            if captures(earlier, later):
                return earlier, later
    return None


def captures(taker: Shape, writer: Shape, seen: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Tell whether ``taker`` may decode something ``writer`` encodes, to another value than it was.

    Args:
        taker: the member that comes first.
        writer: the member that comes later.
        seen: pairs under examination: types may be recursive.
    """
    pair = (id(taker), id(writer))
    if pair in seen:
        return True
    seen |= {pair}
    if isinstance(taker, Union):
        return any(captures(member, writer, seen) for member in taker.members)
    if isinstance(writer, Union):
        return any(captures(taker, member, seen) for member in writer.members)
    if isinstance(taker, Choice) or isinstance(writer, Choice):
        return _choices(taker, writer)
    if isinstance(taker, Json) or isinstance(writer, Json):
        return _json(taker, writer)
    if not (taker.json_types & writer.json_types):
        return False
    if "array" in taker.json_types:
        return _arrays(taker, writer, seen)
    if "object" in taker.json_types:
        return _objects(taker, writer, seen)
    return _scalars(taker, writer)


def _choices(taker: Shape, writer: Shape) -> bool:
    choice, other = (taker, writer) if isinstance(taker, Choice) else (writer, taker)
    return isinstance(choice, Choice) and any(
        _reads_otherwise(other, form, value) for (_, form), value in choice.values.items()
    )


def _reads_otherwise(shape: Shape, form: object, value: object) -> bool:
    problems = Problems()
    read = shape.decode(form, Path(), problems)
    return not problems and read != value


def _json(taker: Shape, writer: Shape) -> bool:
    other = writer if isinstance(taker, Json) else taker
    return not isinstance(other, Json | String | Boolean | Null) and not isinstance(other, Integer)


def _scalars(taker: Shape, writer: Shape) -> bool:
    formats = (isinstance(taker, Formatted), isinstance(writer, Formatted))
    if formats == (True, True):
        return taker is writer or _open(taker) or _open(writer)
    return any(formats)


def _open(shape: Shape) -> bool:
    return isinstance(shape, Formatted) and shape.open_format


def _arrays(taker: Shape, writer: Shape, seen: frozenset[tuple[int, int]]) -> bool:
    if isinstance(taker, Array) and isinstance(writer, Array):
        return taker.make is not writer.make or captures(taker.item, writer.item, seen)
    takes, writes = _items(taker), _items(writer)
    if takes is None or writes is None:
        fixed, item = (writes or takes or []), taker if takes is None else writer
        assert isinstance(item, Array)  # noqa: S101 -- the one without fixed items
        return all(_overlap(item.item, one, seen) for one in fixed)
    least = taker.required if isinstance(taker, FixedArray) else 0
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
        return captures(one, other, seen) or captures(other, one, seen)
    if isinstance(one, Choice) and isinstance(other, Choice):
        return any(other.accepts(form) for _, form in one.values)
    kinds = one.json_types & other.json_types or {"integer", "number"} <= one.json_types | other.json_types
    both = isinstance(one, Formatted) and isinstance(other, Formatted)
    return bool(kinds) and (not both or captures(one, other, seen))


def _objects(taker: Shape, writer: Shape, seen: frozenset[tuple[int, int]]) -> bool:
    if isinstance(taker, Mapping) and isinstance(writer, Mapping):
        return captures(taker.key, writer.key, seen) or captures(taker.item, writer.item, seen)
    if isinstance(taker, Mapping):
        return all(_overlap(taker.item, shape, seen) for shape in _always(writer).values())
    if isinstance(writer, Mapping):
        return all(_overlap(writer.item, shape, seen) for shape in _required(taker).values())
    return _records(taker, writer, seen)


def _records(taker: Shape, writer: Shape, seen: frozenset[tuple[int, int]]) -> bool:
    always, known = _always(writer), _known(taker)
    if not (set(_required(taker)) <= set(_known(writer)) and set(always) <= set(known)):
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
