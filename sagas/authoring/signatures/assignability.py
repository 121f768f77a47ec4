"""Whether a parameter can hold what its producer makes. A wrong answer must be a yes: in doubt it is accepted."""

from __future__ import annotations

import typing
from typing import Any, get_args, get_origin

from sagas.authoring.context import Context
from sagas.authoring.signatures.annotations import bare, is_union


def can_hold(annotation: Any, produced: Any) -> bool:
    """Tell whether every value of ``produced`` may stand where ``annotation`` does."""
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
        # several values may be spread over the members
        return len(literals) > 1 and all(can_hold(annotation, typing.Literal[value]) for value in literals)
    if get_origin(annotation) is typing.Literal:
        # 1 == True: the type belongs to the value
        wanted: set[tuple[Any, Any]] = {(type(value), value) for value in get_args(annotation)}
        return bool(literals) and all((type(value), value) in wanted for value in literals)
    if literals:
        return all(_holds_class(annotation, type(value)) for value in literals)
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


def _holds_class(annotation: Any, produced: Any) -> bool:
    wanted, given = get_origin(annotation) or annotation, get_origin(produced) or produced
    if not isinstance(wanted, type) or not isinstance(given, type):
        return True
    if wanted is float and given is int:
        return True
    required: frozenset[str] | None = getattr(wanted, "__required_keys__", None)
    if required is not None:
        return hasattr(given, "__required_keys__") and required <= given.__annotations__.keys()
    if getattr(wanted, "_is_protocol", False):
        return True  # structural: only a type checker can tell
    return issubclass(given, wanted) and _holds_arguments(annotation, produced)


def _holds_arguments(annotation: Any, produced: Any) -> bool:
    """Tell whether the items of a container may be those of another, as far as it says what its items are."""
    wanted, given = get_args(annotation), get_args(produced)
    if not wanted or not given:
        return True
    if get_origin(produced) is tuple:
        of_tuple = get_origin(annotation) is tuple
        if of_tuple and wanted[-1] is not Ellipsis:
            if given[-1] is Ellipsis or len(wanted) != len(given):
                return False
        elif of_tuple or len(wanted) == 1:
            return all(can_hold(wanted[0], item) for item in given if item is not Ellipsis)
    return len(wanted) != len(given) or all(can_hold(one, other) for one, other in zip(wanted, given, strict=True))
