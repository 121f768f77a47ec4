"""Many calls, one for each of many sagas: so many a second at most, several at a time, and no more once all fail."""

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
"""Failures in a row after which a job stops: what follows would fail as well."""
_CALL = 0.8
"""Seconds that a call may take for the rate to be kept."""
_MOST_AT_ONCE = 32


def new_job() -> str:
    """Return a name for a job, for the reason that each of its sagas keeps."""
    return SystemClock().new_id()[-8:]


def job_reason(job: str, reason: str) -> str:
    """Return the reason that each saga of a job keeps."""
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
    """Make a call for each item, and return why that was stopped early; nothing if it was not.

    Until one has not failed, no more are under way than may fail in a row: a service that is away gets five calls.
    ``clock``, ``sleep``: seconds that only go up, and a way to let them pass.
    """
    together = min(_MOST_AT_ONCE, math.ceil(rate * _CALL))
    under_way, why, due = deque[Future[R]](), "", clock()
    in_a_row, room = 0, min(together, STOP_AFTER)

    def take() -> None:
        nonlocal in_a_row, room
        in_a_row = in_a_row + 1 if settle(under_way[0].result()) else 0
        under_way.popleft()
        room = min(together, STOP_AFTER - in_a_row) if in_a_row else together

    with ThreadPoolExecutor(together, "bulk") as pool:
        try:
            for item in items:
                while under_way and (under_way[0].done() or len(under_way) >= room):
                    take()
                if in_a_row >= STOP_AFTER:
                    break
                sleep(max(0.0, due - clock()))
                why = stopped()
                if why:
                    break
                due = max(due, clock()) + 1 / rate
                under_way.append(pool.submit(call, item))
            while under_way:
                take()
        except KeyboardInterrupt:
            why = "interrupted"
            while under_way:  # what was called is settled all the same
                take()
    return why or (f"{in_a_row} failures in a row" if in_a_row >= STOP_AFTER else "")
