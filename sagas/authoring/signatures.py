"""Reads the annotations of an author's methods: type variables, names in scope, and which types can hold which."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar, cast, get_args, get_origin

from msgspec import Struct

from sagas.authoring.context import Context
from sagas.errors import DefinitionError


def bindings(type_: Any) -> dict[Any, Any]:
    """Return, for each type variable in the bases of ``type_``, the type to which it is bound."""
    origin = get_origin(type_) or type_
    parameters = getattr(origin, "__parameters__", ())
    arguments = get_args(type_)
    bound: dict[Any, Any] = dict(zip(parameters, arguments, strict=False)) if get_origin(type_) else {}
    own: dict[str, Any] = getattr(origin, "__dict__", {})
    for base in own.get("__orig_bases__", getattr(origin, "__bases__", ())):
        inherited = bindings(base)
        bound = {variable: substitute(value, bound) for variable, value in inherited.items()} | bound
    return bound


def substitute(type_: Any, bound: dict[Any, Any]) -> Any:
    """Return ``type_`` with its bound type variables replaced."""
    if isinstance(type_, TypeVar):
        return bound.get(type_, type_)
    parameters: tuple[Any, ...] = getattr(type_, "__parameters__", ()) if get_args(type_) else ()
    return type_[tuple(bound.get(parameter, parameter) for parameter in parameters)] if parameters else type_


def has_type_variables(type_: Any) -> bool:
    """Whether ``type_`` has a type variable that is not bound."""
    return isinstance(type_, TypeVar) or (bool(get_args(type_)) and bool(getattr(type_, "__parameters__", ())))


class _Secret:
    """The marker of a redacted value."""

    def __repr__(self) -> str:
        return "SECRET"


SECRET = _Secret()
_TRANSPARENT = (typing.Annotated, typing.Required, typing.NotRequired)


def bare(type_: Any, keep: Callable[[Any], bool] = lambda alias: False) -> Any:
    """Strip what does not change the set of values: Annotated, NotRequired, NewType and aliases. None becomes
    NoneType."""
    while True:
        if get_origin(type_) in _TRANSPARENT or getattr(get_origin(type_), "__name__", "") == "ReadOnly":
            type_ = get_args(type_)[0]
        elif isinstance(type_, typing.NewType):
            type_ = type_.__supertype__
        elif hasattr(type_, "__value__") and not isinstance(type_, type) and not keep(type_):
            type_ = type_.__value__
        elif type_ in (None, typing.NoReturn, typing.Never):
            return type(None)
        else:
            return type_


def is_secret(type_: Any) -> bool:
    """Whether a type is marked as secret, at any level of aliases."""
    while True:
        if SECRET in getattr(type_, "__metadata__", ()):
            return True
        inner = type_
        if get_origin(type_) in _TRANSPARENT or getattr(get_origin(type_), "__name__", "") == "ReadOnly":
            inner = get_args(type_)[0]
        elif isinstance(type_, typing.NewType):
            inner = type_.__supertype__
        elif hasattr(type_, "__value__") and not isinstance(type_, type):
            inner = type_.__value__
        if inner is type_:
            return False
        type_ = inner


def metadata_of(type_: Any) -> list[Any]:
    """Return what ``Annotated`` adds to a type, at all levels of aliases, except the marker of redacted values."""
    found = list[Any]()
    while True:
        found += [item for item in getattr(type_, "__metadata__", ()) if item is not SECRET]
        if get_origin(type_) in _TRANSPARENT or getattr(get_origin(type_), "__name__", "") == "ReadOnly":
            type_ = get_args(type_)[0]
        elif isinstance(type_, typing.NewType):
            type_ = type_.__supertype__
        elif hasattr(type_, "__value__") and not isinstance(type_, type):
            type_ = type_.__value__
        else:
            return found


def is_union(type_: Any) -> bool:
    """Whether a type is a union, written as ``Union`` or with ``|``."""
    return get_origin(type_) in (typing.Union, types.UnionType)


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


def can_hold(annotation: Any, produced: Any) -> bool:
    """Whether a parameter of type ``annotation`` can take every value of type ``produced``."""
    annotation = bare(annotation)
    produced = bare(produced)
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


def names_none(annotation: Any) -> bool:
    """Whether an annotation says ``None``, as ``int | None`` does. ``Any`` only allows it."""
    annotation = bare(annotation)
    return annotation is type(None) or (is_union(annotation) and any(map(names_none, get_args(annotation))))


def _holds_class(annotation: Any, produced: Any) -> bool:
    expected = get_origin(annotation) or annotation
    actual = get_origin(produced) or produced
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
    expected = get_args(annotation)
    actual = get_args(produced)
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
