"""What threads write while a step runs: a longer lease, and the progress that the step reports."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from sagas.core.states import Progress, SagaState
from sagas.engine.clock import Clock

_LOGGER = logging.getLogger("sagas")
_SHORTEST = 0.25
"""Minimum seconds between two extensions."""


def _repeating(
    name: str, wait: Callable[[], bool], act: Callable[[], bool], logger: logging.Logger
) -> threading.Thread:
    from sagas import threads  # imported here, because most steps need no thread

    return threads.repeat(name, wait, act, logger)


class Heartbeat:
    """Extends a lease after half its length, in a thread that ends before the handler returns.

    A lease that lasts as long as its function can act needs no extension, no thread and no write. No lease is extended
    beyond ``until``, or beyond ``act_until``, when its holder can no longer act. Code that holds the interpreter's lock
    keeps the thread from running. If that lasts until the lease has expired, it is logged.

    Args:
        extend: the function that extends a lease; see :meth:`sagas.store.control.control.ControlItems.extend`.
        state: the claimed saga.
        length: seconds that a lease lasts.
        clock: the engine's clock.
        lost: called once when the lease was taken over.
        news: the function that returns the step's progress if it should be written with the extension.
        extended: called with the epoch seconds at which the extended lease expires.
        until: epoch seconds after which the lease is not needed. Default: ``act_until``.
        logger: logs an extension that failed. The next heartbeat tries again, since the lease may still be held.
    """

    def __init__(
        self,
        extend: Callable[[SagaState, float, Progress | None], bool],
        state: SagaState,
        length: float,
        clock: Clock,
        lost: Callable[[], None],
        news: Callable[[], Progress | None] = lambda: None,
        extended: Callable[[float], None] = lambda expires_at: None,
        until: float = math.inf,
        logger: logging.Logger = _LOGGER,
    ) -> None:
        self._extend = extend
        self._state = state
        self._length = length
        self._clock = clock
        self._lost = lost
        self._news = news
        self._extended = extended
        self._until = min(until, state.lease.act_until) if state.lease is not None else until
        self._logger = logger
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._starved = 0.0

    def __enter__(self) -> Self:
        lease = self._state.lease
        if lease is not None and lease.expires_at < self._until:
            self._thread = _repeating("sagas-heartbeat", self._wait, self._beat, self._logger)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is None:
            return
        self._thread.join()
        if self._starved > self._length / 2:  # a lease outlives the time of its extension by so long
            step = self._state.steps[self._state.cursor].name
            fields = {
                "saga_id": self._state.saga_id,
                "step": step,
                "seconds": round(self._starved, 1),
                "lock_expiry": self._length,
            }
            text = f"step {step} let no other thread run for {self._starved:.1f} s, so its lease was not extended"
            cure = "must be longer than any call that holds the interpreter's lock"
            taken = "and another worker may have taken the saga over"
            self._logger.error(f"{text}, {taken}: lock_expiry, {self._length:g} s, {cure}", extra=fields)

    def _wait(self) -> bool:
        began = time.monotonic()
        pause = max(self._length / 2, _SHORTEST)
        stopped = self._stop.wait(pause)
        self._starved = max(self._starved, time.monotonic() - began - pause)
        return stopped

    def _beat(self) -> bool:
        now = self._clock.now()
        if now >= self._until:
            return False
        expires_at = min(now + self._length, self._until)
        held = self._extend(self._state, round(expires_at, 3), self._news())
        if held:
            self._extended(expires_at)
        else:
            self._lost()
        return held and expires_at < self._until


INTERVAL = 2.0
"""Minimum seconds before the first write and between writes, so a short step causes no write."""
_LONGEST = 200


class ProgressReport:
    """Keeps a step's last report and writes it, in a thread that ends before the handler returns.

    The step never waits for a write and never fails because of a failed write. A step that reports nothing starts no
    thread.

    Args:
        note: the function that stores a report; see :meth:`sagas.store.control.control.ControlItems.note_progress`.
        state: the claimed saga.
        clock: the engine's clock.
        lost: called when the lease was taken over.
        interval: seconds between two writes.
        logger: logs a write that failed. Its report is not written again.
        redact: returns a message without hidden values, cut to a number of characters.
        mark: the mark of messages that ``redact`` returns.
    """

    def __init__(
        self,
        note: Callable[[SagaState, Progress], bool],
        state: SagaState,
        clock: Clock,
        lost: Callable[[], None],
        interval: float = INTERVAL,
        logger: logging.Logger = _LOGGER,
        redact: Callable[[str, int], str] = lambda text, longest: text[:longest],
        mark: str = "",
    ) -> None:
        self._redact = redact
        self._mark = mark
        self._note = note
        self._state = state
        self._clock = clock
        self._lost = lost
        self._interval = interval
        self._logger = logger
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._latest: Progress | None = None
        self._taken_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def report(self, fraction: float, message: str) -> None:
        """Keep a report of the step. ``fraction`` is from 0 to 1."""
        text = self._redact(str(message), _LONGEST)
        with self._lock:
            if self._stop.is_set():
                return
            self._latest = Progress(round(fraction, 4), text, self._clock.now(), redacted_by=self._mark)
            if self._thread is None:
                self._taken_at = time.monotonic()
                self._thread = _repeating("sagas-progress", self._wait, self._write, self._logger)

    def take(self) -> Progress | None:
        """Return the report to write now, if there is a new one and the last write is not too recent."""
        with self._lock:
            latest = self._latest
            now = time.monotonic()
            if latest is None or now - self._taken_at < self._interval:
                return None
            self._latest = None
            self._taken_at = now
            return latest

    def _wait(self) -> bool:
        remaining = self._interval - (time.monotonic() - self._taken_at)
        return self._stop.wait(max(remaining, self._interval / 10))

    def _write(self) -> bool:
        progress = self.take()
        held = progress is None or self._note(self._state, progress)
        if not held:
            self._lost()
        return held
