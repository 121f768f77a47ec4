"""What is explored of a saga and its two children."""

from __future__ import annotations

from collections.abc import Mapping

from tests.faults.families import OneParked, Only, OnlyParked, Pairs, PairsAndLast
from tests.interleavings.explorer import Story


def _pairs(*refused: str, chained: bool = False, fail: Mapping[str, int] | None = None, **budget: int) -> Story:
    """A story of a saga whose last step can be refused, if it is to be, or one of its children's."""
    saga = PairsAndLast if "last" in refused else Pairs
    return Story(saga, budget, fail or {}, frozenset(refused), chained=chained, kin=(Only,))


FAMILIES: dict[str, Story] = {
    "two children": _pairs(),
    "two children, one fails": _pairs("book 1", switch=1),
    "two children, undone": _pairs("last", switch=1),
    "two children and a cancel, unswitched": _pairs(cancel=1, switch=0),
    "two children and a cancel": _pairs(cancel=1, switch=1),
    "two children and a death": _pairs(crash=1, switch=0),
    "two children, each message twice": _pairs(duplicate=1, switch=1),
    "two children, undone, a message twice": _pairs("last", duplicate=1, switch=0),
    "two children and a supervisor": _pairs(visit=1, switch=0),
    "two children, messages lost": _pairs(loss=2, switch=0),
    "two children and a lost answer": _pairs(lost=1, switch=0),
    "two children and a repeated request": _pairs(repeat=1, switch=0),
    "two children and an echo": _pairs(echo=1, switch=0),
    "two children, undone, and an echo": _pairs("last", echo=1, switch=0),
    "two children, the undo of one retried": _pairs("last", retry=1, switch=0, fail={"unbook 1": 1}),
    "two children, purged, and a death": _pairs(purge=2, crash=1, switch=0),
    "a child that waits for an operator, retried and resolved": Story(
        OneParked, {"retry": 1, "resolve": 1, "switch": 1}, {"book 0": 1}, kin=(OnlyParked,)
    ),
    "a child that waits for an operator, retried and resolved as it was read": Story(
        OneParked, {"retry": 1, "resolve": 1, "switch": 1}, {"book 0": 1}, kin=(OnlyParked,), named=True
    ),
    "chained: two children and a cancel": _pairs(cancel=1, switch=0, chained=True),
}
"""For ``make check``."""

LONG_FAMILIES: dict[str, Story] = {
    "two children, undone, and a death": _pairs("last", crash=1, switch=0),
    "two children, one fails, whenever": _pairs("book 1"),
    "two children, undone, whenever": _pairs("last"),
    "two children, a cancel and a death": _pairs(cancel=1, crash=1, switch=0),
    "two children, a cancel and a lost answer": _pairs(cancel=1, lost=1, switch=0),
    "two children, a cancel and two switches": _pairs(cancel=1, switch=2),
    "two children and a death, switched": _pairs(crash=1, switch=1),
    "two children and a pause": _pairs(pause=1, switch=0),
    "two children and a late request": _pairs(late=1, switch=0),
    "two children, undone, and a lost answer": _pairs("last", lost=1, switch=0),
    "two children, undone, and a repeated request": _pairs("last", repeat=1, switch=0),
    "two children, undone, and a pause": _pairs("last", pause=1, switch=0),
    "two children, one fails, a message twice": _pairs("book 1", duplicate=1, switch=0),
    "two children, one fails, and a death": _pairs("book 1", crash=1, switch=0),
    "two children, one stuck, and a death": _pairs("last", crash=1, retry=1, switch=0, fail={"unbook 1": 1}),
    "two children, cancelled and purged": _pairs(cancel=1, purge=1, switch=1),
}
"""Larger."""
