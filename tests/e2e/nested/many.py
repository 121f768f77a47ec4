"""Many saga types."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import new_class
from typing import Any

from sagas import Context, Saga, step

TYPES = int(os.environ.get("SAGAS_TEST_TYPES", "60"))
STEPS = 8


@dataclass(frozen=True)
class Order:
    """What each of them is started with."""

    amount: int = 1


def _work(self: Any, request: Order, ctx: Context) -> int:
    return request.amount


def _type(number: int) -> type[Saga[Order]]:
    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(__module__=__name__, __doc__="One of many.")
        for position in range(1, STEPS + 1):
            namespace[f"step_{position}"] = step(timeout=20)(_work)

    return new_class(f"Type{number:02}", (Saga[Order],), exec_body=fill)


SAGAS = [_type(number) for number in range(1, TYPES + 1)]
globals().update({one.__name__: one for one in SAGAS})
