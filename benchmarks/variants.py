"""The designs that are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

STEPS = ("reserve", "charge", "pack", "ship", "notify")
UNDONE = STEPS[:3]
"""Steps that have an undo. The last of all is the one that may refuse."""
ORDER: dict[str, Any] = {"order_id": "o-17", "amount": 4200, "refused": False}
REFUSED: dict[str, Any] = ORDER | {"refused": True}
"""Requests: of a saga that completes, and of one whose last step refuses, so that three are undone."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A design.

    Args:
        name: as in options and marks.
        title: as in tables.
        invocations: of its steps' functions, by a saga that completes.
        undoing: those of a saga that is undone, steps and undos; ``None`` if it knows no undos.
    """

    name: str
    title: str
    invocations: int
    undoing: int | None = None


OURS = Variant("ours", "this library", 5, 8)
CHAINED = Variant("ours", "chained", 1, 1)
"""This library, its steps chained in one function: measured in the place of ``OURS``."""
NAIVE = Variant("naive", "naive", 5, 8)
HOPS = Variant("hops", "bare hops", 5)
DURABLE = Variant("durable", "durable fn", 1)
VARIANTS = (OURS, NAIVE, HOPS, DURABLE)
BARE = "bare"
"""In marks: bare botocore, which does the requests of ours and no more."""
AT_A_TIME = 10
"""Sagas that are under way at a time where many are, and invocations that a queue may cause at a time. A durable
function has no limit, so no queue may bound the others any sooner."""
