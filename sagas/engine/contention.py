"""Retry contended writes. If a transaction and another write touch the same item at the same moment, DynamoDB may
refuse both. botocore does not retry such writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sagas.engine.clock import Clock
from sagas.store.outcomes import Contended

_T = TypeVar("_T")
_TRIES = 10
_PAUSE = 0.04
"""Maximum seconds between the first two tries. Later tries are further apart."""


def write_contended(clock: Clock, write: Callable[[], _T]) -> _T:
    """Write, and retry while other writes touch the same item. For example, many children end at once and update a few
    counters, or a signal comes while a worker commits. Returns the result of ``write``."""
    for tries in range(1, _TRIES):
        try:
            return write()
        except Contended:
            clock.sleep(_PAUSE * tries * clock.chance())
    return write()
