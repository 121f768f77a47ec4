"""The parameters of a step or an undo, with their types resolved."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from sagas.authoring.signatures.generics import has_type_variables, substitute
from sagas.authoring.signatures.scope import NameScope, resolve
from sagas.errors import DefinitionError

MISSING: Any = inspect.Parameter.empty


class Signature(Struct, frozen=True):
    """A function's parameters by name, without ``self``, and its return type: ``MISSING`` if not annotated."""

    parameters: dict[str, Any]
    returns: Any

    @property
    def says_return(self) -> bool:
        """Whether the function has a return annotation."""
        return self.returns is not MISSING


def read_signature(function: Callable[..., Any], scope: NameScope, bound: dict[Any, Any], where: str) -> Signature:
    """Read a function's signature."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DefinitionError(f"{where}: it is a generator; a step must return its result")
    signature = _signature(function, where)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in _POSITIONAL:
        raise DefinitionError(f"{where}: missing 'self'; a step is a method of the saga class")
    module: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})

    def type_of(annotation: Any, what: str) -> Any:
        try:
            resolved = substitute(resolve(annotation, module, scope), bound)
        except DefinitionError as error:
            raise DefinitionError(f"{where}: the annotation of {what} {error}") from None
        if isinstance(resolved, _VALUES):
            raise DefinitionError(f"{where}: the annotation of {what} is {resolved!r}, which is not a type")
        if has_type_variables(resolved):
            raise DefinitionError(f"{where}: the annotation of {what} has an open type variable")
        return resolved

    types: dict[str, Any] = {}
    for parameter in parameters[1:]:
        _check_fillable(parameter, f'{where}: parameter "{parameter.name}"')
        types[parameter.name] = type_of(parameter.annotation, f'parameter "{parameter.name}"')
    returns = signature.return_annotation
    return Signature(types, returns if returns is MISSING else type_of(returns, "the return value"))


def as_method(function: Callable[..., Any], where: str) -> Callable[..., Any]:
    """Return a function as a method. If its first parameter is ``self``, return it unchanged."""
    own = _signature(function, where)
    if next(iter(own.parameters), "") == "self":
        return function

    @functools.wraps(function)
    def method(self: object, **arguments: Any) -> Any:
        return function(**arguments)

    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    vars(method)["__signature__"] = own.replace(parameters=[itself, *own.parameters.values()])
    return method


def _signature(function: Callable[..., Any], where: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError, NameError) as error:  # NameError: from Python 3.14 on, annotations are lazy
        raise DefinitionError(f"{where}: its signature cannot be read: {error}") from None


_VALUES = (int, float, complex, bytes, list, tuple, dict, set, frozenset)
"""Types of values that Python allows as annotations, although the values are not types."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _check_fillable(parameter: inspect.Parameter, where: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise DefinitionError(f"{where}: *args and **kwargs are not supported; parameters are filled by name")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise DefinitionError(f"{where}: positional-only parameters are not supported; parameters are filled by name")
    if parameter.annotation is MISSING:
        raise DefinitionError(f"{where}: add a type annotation")
    if parameter.default is not MISSING:
        raise DefinitionError(f"{where}: remove the default; it would never be used, as parameters are always filled")
