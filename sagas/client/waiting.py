"""Waiting for a saga to come to rest, by asking again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sagas.core.states import OVER, SagaStatus
from sagas.engine.read.answers import SagaView
from sagas.errors import Unavailable

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_GROWTH = 1.5
_FAILURES = 3
"""So many failed reads in a row end the wait."""


def at_rest(status: str) -> bool:
    """Whether nothing happens to a saga of this status by itself: it is over, or waits for a person."""
    return status in OVER or status == SagaStatus.DEAD_LETTERED


@dataclass(frozen=True, slots=True)
class Wait:
    """How to wait.

    Args:
        timeout: seconds; ``None`` waits for ever.
        clock: seconds that only go up.
        sleep: blocks for that many seconds.
    """

    timeout: float | None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def until_rest(
        self, read: Callable[[], SagaView], on_change: Callable[[SagaView], None] | None, after: str | None
    ) -> SagaView:
        """Read until the saga is at rest."""
        end = None if self.timeout is None else self.clock() + self.timeout
        last: SagaView | None = None
        pause, failures = _FIRST_PAUSE, 0
        while True:
            try:
                saga = read()
            except Unavailable:
                failures += 1
                if failures >= _FAILURES:
                    raise
            else:
                failures = 0
                if saga != last and on_change is not None:
                    on_change(saga)
                if at_rest(saga["status"]) and saga["updated_at"] != after:
                    return saga
                # At growing intervals, and at short ones again after each change.
                pause = _FIRST_PAUSE if saga != last else min(pause * _GROWTH, _LONGEST_PAUSE)
                last = saga
            left = pause if end is None else end - self.clock()
            if left <= 0:
                where = f"still {last['status']}" if last else "unknown"
                raise TimeoutError(f"the saga is {where} after {self.timeout:g} s")
            self.sleep(min(pause, left))
