"""A saga that says which function ran each of its steps."""

from __future__ import annotations

import os
from dataclasses import dataclass

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
