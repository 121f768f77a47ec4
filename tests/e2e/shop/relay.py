"""Sagas that say which function ran each of their steps, and in which invocation."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sagas import Context, Retry, Saga, step


@dataclass(frozen=True)
class Baton:
    """Whether the last step fails."""

    drop: bool = False


class Relay(Saga[Baton]):
    """Three steps, two of which can be undone."""

    @step(timeout=5)
    def first(self, ctx: Context) -> str:
        """Name the function."""
        return os.environ["AWS_LAMBDA_FUNCTION_NAME"]

    @first.compensate
    def undo_first(self, first: str, ctx: Context) -> None:
        """Undo it."""

    @step(timeout=10)
    def second(self, first: str, ctx: Context) -> str:
        """Name the function."""
        return os.environ["AWS_LAMBDA_FUNCTION_NAME"]

    @second.compensate
    def undo_second(self, second: str, ctx: Context) -> None:
        """Undo it."""

    @step(timeout=5, retry=Retry.constant(max_retries=1, delay=0.1))
    def third(self, request: Baton, second: str, ctx: Context) -> str:
        """Fail when asked to."""
        if request.drop:
            raise RuntimeError("dropped")
        return os.environ["AWS_LAMBDA_FUNCTION_NAME"]


@dataclass(frozen=True)
class Notebook:
    """A file in which each execution is noted."""

    path: str


class Mortal(Saga[Notebook]):
    """Three steps in one function; the second kills its process once."""

    @step(timeout=2)
    def first(self, request: Notebook, ctx: Context) -> str:
        """Note it."""
        return _noted(request, ctx)

    @step(timeout=2)
    def second(self, request: Notebook, ctx: Context) -> str:
        """Note it, and die."""
        noted = _noted(request, ctx)
        if ctx.attempt == 1:
            os._exit(1)
        return noted

    @step(timeout=2)
    def third(self, request: Notebook, ctx: Context) -> str:
        """Note it."""
        return _noted(request, ctx)


def _noted(request: Notebook, ctx: Context) -> str:
    with Path(request.path).open("a") as file:
        file.write(f"{ctx.step} {ctx.attempt}\n")
    return str(os.getpid())
