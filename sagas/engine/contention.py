"""Writes that others contend for: a transaction of DynamoDB's is refused where another write is at one of its items at
this moment, and so is that write. botocore repeats neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sagas.engine.clock import Clock
from sagas.store.outcomes import Contended

_T = TypeVar("_T")
_TRIES = 10
_PAUSE = 0.04
"""Seconds between the first two tries, at most; later ones are further apart."""


def patiently(clock: Clock, write: Callable[[], _T]) -> _T:
    """Write, again where another write was at the same item at this moment: many children end at once, and each adds to
    one of a few counters; a signal comes while a worker commits. Returns what ``write`` returns."""
    for tries in range(1, _TRIES):
        try:
            return write()
        except Contended:
            clock.sleep(_PAUSE * tries * clock.chance())
    return write()
