"""Extends the lease of a running step that may take longer."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from sagas.core.states import Progress, SagaState
from sagas.engine.clock import Clock
from sagas.errors import SagaError

_SHORTEST = 0.25
"""Minimum seconds between two extensions."""


class Heartbeat:
    """Extends a lease after half its length, in a thread that ends before the handler returns.

    A lease that lasts as long as its function can act needs no extension, no thread and no write. No lease is extended
    beyond ``until``, or beyond ``act_until``, when its holder can no longer act.

    Args:
        extend: the function that extends a lease; see :meth:`sagas.store.control.control.ControlItems.extend`.
        state: the claimed saga.
        length: seconds that a lease lasts.
        clock: the engine's clock.
        lost: called once when the lease was taken over.
        news: the function that returns the step's progress if it should be written with the extension.
        extended: called with the epoch seconds at which the extended lease expires.
        until: epoch seconds after which the lease is not needed. Default: ``act_until``.
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
    ) -> None:
        self._extend = extend
        self._state = state
        self._length = length
        self._clock = clock
        self._lost = lost
        self._news = news
        self._extended = extended
        self._until = min(until, state.lease.act_until) if state.lease is not None else until
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        lease = self._state.lease
        if lease is not None and lease.expires_at < self._until:
            self._thread = threading.Thread(target=self._beat, name="sagas-heartbeat", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(max(self._length / 2, _SHORTEST)):
            lease = self._state.lease
            now = self._clock.now()
            if lease is None or now >= self._until:
                return
            expires_at = min(now + self._length, self._until)
            try:
                held = self._extend(self._state, round(expires_at, 3), self._news())
            except SagaError:
                continue  # without a response, the lease may still be held: the next heartbeat tries again
            if held:
                self._extended(expires_at)
            else:
                self._lost()
            if not held or expires_at == self._until:
                return
