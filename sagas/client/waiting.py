"""Waits by polling until a saga has ended or stopped, or waits for a signal."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from sagas.core.states import ENDED, SagaStatus
from sagas.errors import Conflict, Unavailable

if TYPE_CHECKING:
    from sagas.engine.read.answers import SagaView

Until = Literal["end", "waiting"]
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_GROWTH = 1.5
_FAILURES = 3
"""After this many failed reads in a row, the wait ends."""


def at_rest(status: str) -> bool:
    """Whether a saga with this status has ended, or waits for an operator."""
    return status in ENDED or status == SagaStatus.DEAD_LETTERED


def _reached(saga: SagaView, until: Until) -> bool:
    """Whether a wait ends with this saga. A saga that has ended never waits for a signal."""
    status = saga["status"]
    if until == "waiting" and status in ENDED:
        raise Conflict(f"the saga is {status}; it no longer waits for a signal")
    signal = until == "waiting" and any(step.get("waiting_for") == "signal" for step in saga["steps"])
    return signal or at_rest(status)


@dataclass(frozen=True, slots=True)
class Waiting:
    """How to wait. Without a ``timeout`` in seconds there is no limit. ``clock`` is a monotonic clock in seconds."""

    timeout: float | None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def until_rest(
        self,
        read: Callable[[], SagaView],
        on_change: Callable[[SagaView], None] | None,
        after: str | None,
        until: Until = "end",
    ) -> SagaView:
        if until not in get_args(Until):
            raise ValueError(f'until must be "end" or "waiting", not {until!r}')
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
                if saga["updated_at"] != after and _reached(saga, until):
                    return saga
                # Pauses grow, and become short again after each change.
                pause = _FIRST_PAUSE if saga != last else min(pause * _GROWTH, _LONGEST_PAUSE)
                last = saga
            remaining = pause if end is None else end - self.clock()
            if remaining <= 0:
                status = f"still {last['status']}" if last else "not readable"
                raise TimeoutError(f"the saga is {status} after {self.timeout:g} s")
            self.sleep(min(pause, remaining))
