"""Finds the types that a class binds to the type variables of its generic bases."""

from __future__ import annotations

from typing import Any, TypeVar, get_args, get_origin


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
