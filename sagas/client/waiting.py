"""Waits by polling until a saga has ended or stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sagas.core.states import ENDED, SagaStatus
from sagas.errors import Unavailable

if TYPE_CHECKING:
    from sagas.engine.read.answers import SagaView

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_GROWTH = 1.5
_FAILURES = 3
"""After this many failed reads in a row, the wait ends."""


def at_rest(status: str) -> bool:
    """Whether a saga with this status has ended, or waits for an operator."""
    return status in ENDED or status == SagaStatus.DEAD_LETTERED


@dataclass(frozen=True, slots=True)
class Waiting:
    """How to wait. Without a ``timeout`` in seconds there is no limit. ``clock`` is a monotonic clock in seconds."""

    timeout: float | None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def until_rest(
        self, read: Callable[[], SagaView], on_change: Callable[[SagaView], None] | None, after: str | None
    ) -> SagaView:
        end = None if self.timeout is None else self.clock() + self.timeout
        last: SagaView | None = None
        pause = _FIRST_PAUSE
        failures = 0
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
                # Pauses grow, and become short again after each change.
                pause = _FIRST_PAUSE if saga != last else min(pause * _GROWTH, _LONGEST_PAUSE)
                last = saga
            remaining = pause if end is None else end - self.clock()
            if remaining <= 0:
                status = f"still {last['status']}" if last else "not readable"
                raise TimeoutError(f"the saga is {status} after {self.timeout:g} s")
            self.sleep(min(pause, remaining))
