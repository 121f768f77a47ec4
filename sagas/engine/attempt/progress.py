"""The progress that a step reports. A thread writes it from time to time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from sagas.core.states import Progress, SagaState
from sagas.engine.clock import Clock
from sagas.errors import SagaError

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
    """

    def __init__(
        self,
        note: Callable[[SagaState, Progress], bool],
        state: SagaState,
        clock: Clock,
        lost: Callable[[], None],
        interval: float = INTERVAL,
    ) -> None:
        self._note = note
        self._state = state
        self._clock = clock
        self._lost = lost
        self._interval = interval
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
        with self._lock:
            if self._stop.is_set():
                return
            self._latest = Progress(round(fraction, 4), str(message)[:_LONGEST], self._clock.now())
            if self._thread is None:
                self._taken_at = time.monotonic()
                self._thread = threading.Thread(target=self._write, name="sagas-progress", daemon=True)
                self._thread.start()

    def take(self) -> Progress | None:
        """Return the report to write now, if there is a new one and the last write is not too recent."""
        with self._lock:
            latest, now = self._latest, time.monotonic()
            if latest is None or now - self._taken_at < self._interval:
                return None
            self._latest, self._taken_at = None, now
            return latest

    def _write(self) -> None:
        while not self._stop.wait(max(self._interval - (time.monotonic() - self._taken_at), self._interval / 10)):
            progress = self.take()
            if progress is None:
                continue
            # Ignore a failed write: the next write may succeed.
            with suppress(SagaError):
                if not self._note(self._state, progress):
                    self._lost()
                    return
