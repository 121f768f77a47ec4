"""Reduces annotations to the types that they stand for."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any, get_args, get_origin


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


def is_union(type_: Any) -> bool:
    """Whether a type is a union, written as ``Union`` or with ``|``."""
    return get_origin(type_) in (typing.Union, types.UnionType)
