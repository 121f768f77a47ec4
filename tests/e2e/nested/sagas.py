"""A saga with more steps than a stack has room for, and a short one beside it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import new_class
from typing import Any

from sagas import Context, Retry, Saga, step

LENGTH = 42
TAKEN = (1, 2, 41, 42)
"""The steps that new sagas take, some in the first nested stack and some in the second. Each costs a process."""


@dataclass(frozen=True)
class Walk:
    """How many of the steps succeed."""

    until: int = LENGTH


def _long() -> type[Saga[Walk]]:
    """One step after the other, each of which can be undone."""

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(__module__=__name__, __doc__="More steps than a stack has room for.")
        for number in range(1, LENGTH + 1):
            retry = Retry.constant(max_retries=0, delay=0)
            walk = step(retry=retry, timeout=5, retired=number not in TAKEN)(_walking(number))
            namespace[f"step_{number}"] = walk
            namespace[f"back_{number}"] = walk.compensate(_going_back)

    return new_class("Long", (Saga[Walk],), exec_body=fill)


def _walking(number: int) -> Any:
    def walk(self: Any, request: Walk, ctx: Context) -> int:
        if number > request.until:
            raise RuntimeError("no further")
        return number

    return walk


def _going_back(self: Any, ctx: Context) -> None: ...


Long = _long()


class Short(Saga[Walk]):
    """Says which table of the app it was granted."""

    @step(timeout=5)
    def look(self, ctx: Context) -> str:
        """Read the app's bucket."""
        bucket = os.environ["NOTES_BUCKET"]
        ctx.client("s3").put_object(Bucket=bucket, Key=ctx.saga_id, Body=b"seen")
        return bucket

    @step(timeout=5)
    def tell(self, look: str, ctx: Context) -> str:
        """Pass it on."""
        return look
