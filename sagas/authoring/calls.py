"""Calls of what authors write: one that cannot be is told in one line, like every other mistake of a declaration."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sagas.errors import DefinitionError

P = ParamSpec("P")
R = TypeVar("R")


def told(call: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: arguments that the function does not take end in a DefinitionError that names those it
    does."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = inspect.signature(function)
        named = [one.name for one in known.parameters.values() if one.kind is not one.POSITIONAL_ONLY]
        takes = ", ".join(name for name in named if name not in ("self", "cls"))
        advice = f"; it takes {takes} by keyword" if takes else ""

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                known.bind(*args, **kwargs)
            except TypeError as error:
                raise DefinitionError(f"{call}: {error}{advice}") from None
            return function(*args, **kwargs)

        return checked

    return decorate
