"""The names that an annotation can use: those of its module, and local ones of the function that creates the class."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

from sagas.errors import DefinitionError


class NameScope:
    """The local names where a class is created.

    Args:
        near: names of the innermost function, which hide names of the module.
        far: names of the function's callers, tried last. The callers of a closure may enclose it.
    """

    def __init__(self, near: dict[str, Any], far: dict[str, Any]) -> None:
        self.near = near
        self.far = far

    @property
    def names(self) -> dict[str, Any]:
        """All names."""
        return {**self.far, **self.near}

    def within(self, cls: type[Any]) -> NameScope:
        """Return the names that annotations in a class can use."""
        nested = {
            name: value
            for base in reversed(cls.__mro__)
            for name, value in vars(base).items()
            if isinstance(value, type | typing.NewType) or typing.get_origin(value) is not None
        }
        return NameScope(self.near, {**self.far, **nested, cls.__name__: cls})


def scope_of(frame: FrameType | None) -> NameScope:
    """Return the local names of ``frame``, in which a class statement runs."""
    near: dict[str, Any] = {}
    far: dict[str, Any] = {}
    names = near
    while frame is not None and frame.f_locals is not frame.f_globals:
        for name, value in frame.f_locals.items():
            names.setdefault(name, value)  # an inner name hides an outer one
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            names = far  # the next frames are of outer functions
        caller = frame.f_back
        in_file = caller is not None and caller.f_code.co_filename == frame.f_code.co_filename
        frame = caller if in_file else None
    return NameScope(near, far)


def resolve(annotation: Any, module: dict[str, Any], scope: NameScope) -> Any:
    """Return the type that an annotation stands for."""
    try:
        return _evaluate(annotation, module, scope.near)
    except NameError:
        pass
    except Exception as error:  # noqa: BLE001 -- an annotation can be any expression
        raise DefinitionError(f"cannot be resolved: {type(error).__name__}: {error}") from None
    try:
        return _evaluate(annotation, {**scope.far, **module}, scope.near)
    except NameError as error:
        raise DefinitionError(
            f"cannot be resolved: {error.name!r} is not defined when the class is created; it is imported under "
            "TYPE_CHECKING only, defined later, or local to another function"
        ) from None


def _evaluate(annotation: Any, module: dict[str, Any], names: dict[str, Any]) -> Any:
    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    read = cast("Callable[..., dict[str, Any]]", typing.get_type_hints)
    return read(holder, globalns=module, localns=names, include_extras=True)["it"]
