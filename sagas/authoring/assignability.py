"""Whether a parameter can hold what its producer makes. A wrong answer must be a yes: in doubt it is accepted."""

from __future__ import annotations

import typing
from typing import Any, get_args, get_origin

from sagas.authoring.annotations import bare, is_union
from sagas.authoring.context import Context


def can_hold(annotation: Any, produced: Any) -> bool:
    """Tell whether every value of ``produced`` may stand where ``annotation`` does.

    Args:
        annotation: the parameter's resolved annotation.
        produced: the type of what fills it.
    """
    annotation, produced = bare(annotation), bare(produced)
    if annotation in (Any, object) or produced is Any or annotation == produced:
        return True
    if isinstance(annotation, typing.TypeVar) or isinstance(produced, typing.TypeVar):
        return True
    if is_union(produced):
        return all(can_hold(annotation, member) for member in get_args(produced))
    if is_union(annotation):
        return any(can_hold(member, produced) for member in get_args(annotation)) or _covers(annotation, produced)
    if get_origin(produced) is typing.Literal:
        return _holds_literal(annotation, produced)
    if get_origin(annotation) is typing.Literal:
        return False
    return _holds_class(annotation, produced)


def can_hold_context(annotation: Any) -> bool:
    """Tell whether a parameter so annotated can take the running attempt's context."""
    annotation = bare(annotation)
    if is_union(annotation):
        return any(can_hold_context(member) for member in get_args(annotation))
    return annotation in (Any, object, Context) or getattr(annotation, "_is_protocol", False) is True


def is_optional(annotation: Any) -> bool:
    """Tell whether None may stand there."""
    annotation = bare(annotation)
    return annotation in (Any, object, type(None)) or (
        is_union(annotation) and any(is_optional(member) for member in get_args(annotation))
    )


def _covers(union: Any, produced: Any) -> bool:
    """Tell whether a literal's values are spread over the union's members."""
    values = get_args(produced) if get_origin(produced) is typing.Literal else ()
    return bool(values) and all(can_hold(union, typing.Literal[value]) for value in values if len(values) > 1)


def _holds_literal(annotation: Any, produced: Any) -> bool:
    values: list[tuple[Any, Any]] = [(type(value), value) for value in get_args(produced)]
    if get_origin(annotation) is typing.Literal:
        return set(values) <= {(type(value), value) for value in get_args(annotation)}
    return all(_holds_class(annotation, kind) for kind, _ in values)


def _holds_class(annotation: Any, produced: Any) -> bool:
    wanted, given = get_origin(annotation) or annotation, get_origin(produced) or produced
    if not isinstance(wanted, type) or not isinstance(given, type):
        return True
    if wanted is float and given is int:
        return True
    if hasattr(wanted, "__required_keys__"):
        return _holds_typed_dict(wanted, given)
    if getattr(wanted, "_is_protocol", False):
        return True  # structural: only a type checker can tell
    return issubclass(given, wanted) and _holds_arguments(annotation, produced)


def _holds_typed_dict(wanted: Any, given: Any) -> bool:
    keys: frozenset[str] | None = getattr(given, "__required_keys__", None)
    return keys is not None and set(wanted.__required_keys__) <= set(given.__annotations__)


def _holds_arguments(annotation: Any, produced: Any) -> bool:
    wanted, given = get_args(annotation), get_args(produced)
    if not wanted or not given:
        return True
    if (get_origin(annotation), get_origin(produced)) == (tuple, tuple):
        return _holds_tuple(wanted, given)
    if get_origin(produced) is tuple and len(wanted) == 1:
        return all(can_hold(wanted[0], item) for item in given if item is not Ellipsis)
    if len(wanted) != len(given):
        return True
    return all(can_hold(one, other) for one, other in zip(wanted, given, strict=True))


def _holds_tuple(wanted: tuple[Any, ...], given: tuple[Any, ...]) -> bool:
    if wanted[-1] is Ellipsis:
        return all(can_hold(wanted[0], item) for item in given if item is not Ellipsis)
    if given[-1] is Ellipsis or len(wanted) != len(given):
        return False
    return all(can_hold(one, other) for one, other in zip(wanted, given, strict=True))
