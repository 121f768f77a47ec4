"""Checks the arguments of calls in a declaration, so a wrong call is reported in one line like any other mistake."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sagas.errors import DefinitionError

P = ParamSpec("P")
R = TypeVar("R")


def checked_call(call: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator. For arguments that the function does not take, it raises a DefinitionError that lists the
    valid ones."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        parameters = signature.parameters.values()
        named = [parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY]
        names = ", ".join(name for name in named if name not in ("self", "cls"))
        advice = f"; it takes {names} by keyword" if names else ""

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise DefinitionError(f"{call}: {error}{advice}") from None
            return function(*args, **kwargs)

        return checked

    return decorate
