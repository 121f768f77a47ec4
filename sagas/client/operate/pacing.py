"""Makes calls for many sagas: several at a time, at a limited rate, with a stop if all fail."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from sagas.engine.clock import SystemClock

T = TypeVar("T")
R = TypeVar("R")

STOP_AFTER = 5
"""A job stops after this many failures in a row, because further calls would fail as well."""
_CALL = 0.8
"""Seconds that a call may take before the rate falls below the requested rate."""
_MOST_AT_ONCE = 32


def new_job() -> str:
    """Return a new name for a job. Each audit entry of the job contains it."""
    return SystemClock().new_id()[-8:]


def job_reason(job: str, reason: str) -> str:
    return f"bulk {job}: {reason}"


def paced(
    items: Iterable[T],
    call: Callable[[T], R],
    settle: Callable[[R], bool],
    *,
    rate: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
    stopped: Callable[[], str] = str,
) -> str:
    """Make a call for each item. Return the reason for an early stop, or an empty text. Until a call succeeds, at most
    five run at a time, so a service that is out of reach gets only five. ``clock`` is a monotonic clock in seconds, and
    ``sleep`` blocks for a number of seconds."""
    together = min(_MOST_AT_ONCE, math.ceil(rate * _CALL))
    running = deque[Future[R]]()
    reason = ""
    due = clock()
    in_a_row = 0
    room = min(together, STOP_AFTER)

    def take() -> None:
        nonlocal in_a_row, room
        in_a_row = in_a_row + 1 if settle(running[0].result()) else 0
        running.popleft()
        room = min(together, STOP_AFTER - in_a_row) if in_a_row else together

    with ThreadPoolExecutor(together, "bulk") as pool:
        try:
            for item in items:
                while running and (running[0].done() or len(running) >= room):
                    take()
                if in_a_row >= STOP_AFTER:
                    break
                sleep(max(0.0, due - clock()))
                reason = stopped()
                if reason:
                    break
                due = max(due, clock()) + 1 / rate
                running.append(pool.submit(call, item))
            while running:
                take()
        except KeyboardInterrupt:
            reason = "interrupted"
            while running:  # the outcomes of running calls are still needed
                take()
    return reason or (f"{in_a_row} failures in a row" if in_a_row >= STOP_AFTER else "")
