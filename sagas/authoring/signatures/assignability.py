"""Checks whether a parameter can hold the values of its producer. If that is uncertain, the answer is yes."""

from __future__ import annotations

import typing
from typing import Any, get_args, get_origin

from sagas.authoring.context import Context
from sagas.authoring.signatures.annotations import bare, is_union


def can_hold(annotation: Any, produced: Any) -> bool:
    """Whether a parameter of type ``annotation`` can take every value of type ``produced``."""
    annotation, produced = bare(annotation), bare(produced)
    if annotation in (Any, object) or produced is Any or annotation == produced:
        return True
    if isinstance(annotation, typing.TypeVar) or isinstance(produced, typing.TypeVar):
        return True
    if is_union(produced):
        return all(can_hold(annotation, member) for member in get_args(produced))
    literals: tuple[Any, ...] = get_args(produced) if get_origin(produced) is typing.Literal else ()
    if is_union(annotation):
        if any(can_hold(member, produced) for member in get_args(annotation)):
            return True
        # the union's members together may hold all values
        return len(literals) > 1 and all(can_hold(annotation, typing.Literal[value]) for value in literals)
    if get_origin(annotation) is typing.Literal:
        # since 1 == True, compare the types, too
        accepted: set[tuple[Any, Any]] = {(type(value), value) for value in get_args(annotation)}
        return bool(literals) and all((type(value), value) in accepted for value in literals)
    if literals:
        return all(_holds_class(annotation, type(value)) for value in literals)
    return _holds_class(annotation, produced)


def can_hold_context(annotation: Any) -> bool:
    """Whether a parameter with this annotation can take the context of the attempt."""
    annotation = bare(annotation)
    if is_union(annotation):
        return any(can_hold_context(member) for member in get_args(annotation))
    return annotation in (Any, object, Context) or getattr(annotation, "_is_protocol", False) is True


def is_optional(annotation: Any) -> bool:
    """Whether an annotation allows None."""
    annotation = bare(annotation)
    return annotation in (Any, object, type(None)) or (
        is_union(annotation) and any(is_optional(member) for member in get_args(annotation))
    )


def _holds_class(annotation: Any, produced: Any) -> bool:
    expected, actual = get_origin(annotation) or annotation, get_origin(produced) or produced
    if not isinstance(expected, type) or not isinstance(actual, type):
        return True
    if expected is float and actual is int:
        return True
    required: frozenset[str] | None = getattr(expected, "__required_keys__", None)
    if required is not None:
        return hasattr(actual, "__required_keys__") and required <= actual.__annotations__.keys()
    if getattr(expected, "_is_protocol", False):
        return True  # for a structural type, only a type checker can decide
    return issubclass(actual, expected) and _holds_arguments(annotation, produced)


def _holds_arguments(annotation: Any, produced: Any) -> bool:
    """Whether a container can take the items of another, if both annotations name the types of their items."""
    expected, actual = get_args(annotation), get_args(produced)
    if not expected or not actual:
        return True
    if get_origin(produced) is tuple:
        of_tuple = get_origin(annotation) is tuple
        if of_tuple and expected[-1] is not Ellipsis:
            if actual[-1] is Ellipsis or len(expected) != len(actual):
                return False
        elif of_tuple or len(expected) == 1:
            return all(can_hold(expected[0], item) for item in actual if item is not Ellipsis)
    return len(expected) != len(actual) or all(can_hold(*pair) for pair in zip(expected, actual, strict=True))
