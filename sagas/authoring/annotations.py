"""What an annotation comes down to."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any, get_args, get_origin

_TRANSPARENT = (typing.Annotated, typing.Required, typing.NotRequired)


def bare(type_: Any, keep: Callable[[Any], bool] = lambda alias: False) -> Any:
    """Strip what does not change which values are meant: Annotated, NotRequired, NewType, an alias, None for its type.

    Args:
        type_: the resolved annotation.
        keep: tells which aliases stay.
    """
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


def is_union(type_: Any) -> bool:
    """Tell whether it is a union, however it is spelt."""
    return get_origin(type_) in (typing.Union, types.UnionType)
