"""The context of a running step."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, SupportsFloat

from msgspec import Struct, field

from sagas.authoring.context import object_key, share_of
from sagas.engine.clock import Clock
from sagas.errors import Cancelled, SagaError

_CANCEL_CHECK = 4.0
"""Seconds between two checks for a cancel: code must learn of a cancel within five seconds."""
_CLEANUP = 3.0
"""Seconds for which an ``async`` step may clean up after its deadline."""
_LEAST_CLEANUP = 1.0
"""Minimum seconds to clean up, even if the function ends very soon."""


def _client(service: str) -> Any:
    from sagas.aws import STEPS, connect  # imported here, so a saga that runs in process does not load boto3

    return connect(service, STEPS)


class StepContext(Struct):
    """One attempt of one step or undo, as user code sees it.

    Args:
        deadline_at: epoch seconds by which the function must end; once the code has started, by which the code must
            end.
        saga_ends_at: epoch seconds of the saga's own deadline, at which the step should stop; 0 if it need not.
        callback: the function that makes the URL of a public wait; ``None`` for other steps.
        answer: the function that sends a signal to the step itself; ``None`` if the step waits for no signal.
    """

    saga_id: str
    saga: str
    step: str
    attempt: int
    undo: bool
    prefix: str
    deadline_at: float
    clock: Clock
    logger: logging.Logger
    check_cancelled: Callable[[], bool] = lambda: False
    saga_ends_at: float = 0.0
    report: Callable[[float, str], None] = lambda fraction, message: None
    connect: Callable[[str], Any] = _client
    trace: Callable[[], dict[str, str]] = dict
    callback: Callable[[], str] | None = None
    answer: Callable[[object], None] | None = None
    _cancelled: bool = False
    _lost: bool = False
    _refused: bool = False
    _checked_at: float = field(default=0.0)
    _began_at: float = field(default=0.0)
    _ends_at: float = field(default=0.0)
    _ended_at: float = field(default=0.0)

    def begin(self, timeout: float) -> None:
        """Start the code's ``timeout``, which does not include the time for reading its inputs."""
        self._began_at = self.clock.now()
        self._ends_at = self.deadline_at
        self.deadline_at = min(self._began_at + timeout, self._ends_at)

    def end(self) -> None:
        """Record that the code has ended. Tasks that still run do not count towards its time."""
        self._ended_at = self.clock.now()

    def resume(self) -> None:
        """Record that tasks which ran after the code have ended. What follows has the code's remaining time."""
        if self._ended_at:
            self.deadline_at += self.clock.now() - self._ended_at
            self._ended_at = 0.0

    @property
    def overtime(self) -> float:
        """Seconds from the deadline to the end of the code, or to now if it still runs; may be negative."""
        return (self._ended_at or self.clock.now()) - self.deadline_at

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return self.clock.now() >= self.deadline_at

    def refuse(self) -> None:
        """Note that the code ended after its deadline, so what it returned or raised does not count."""
        self._refused = True

    @property
    def refused(self) -> bool:
        """Whether the code ended after its deadline."""
        return self._refused

    @property
    def cleanup_until(self) -> float:
        """Epoch seconds until which code may clean up after it was stopped at its deadline."""
        latest = min(self.deadline_at + _CLEANUP, self._ends_at)
        return max(latest, self.deadline_at + _LEAST_CLEANUP)

    @property
    def lost(self) -> bool:
        """Whether the lease was taken over."""
        return self._lost

    @property
    def cancel_check_due(self) -> bool:
        """Whether the code has not checked for a cancel for several seconds."""
        return not self.undo and self.clock.now() - max(self._checked_at, self._began_at) >= _CANCEL_CHECK

    @property
    def forward_key(self) -> str:
        """The step's idempotency key, which its undo can use, too."""
        return f"{self.saga_id}:{self.step}"

    @property
    def idempotency_key(self) -> str:
        """The idempotency key of this step or undo, the same on every attempt."""
        return f"{self.forward_key}:undo" if self.undo else self.forward_key

    @property
    def attempt_key(self) -> str:
        """A key that is different on every attempt."""
        return f"{self.idempotency_key}:{self.attempt}"

    @property
    def signal_path(self) -> str:
        """The path for signals to this step, below the API's URL."""
        return f"/sagas/{self.saga}/{self.saga_id}/signals/{self.step}"

    @property
    def callback_url(self) -> str:
        """The URL for signals to this step without AWS credentials."""
        if self.callback is None:
            fault = "is not public; declare it with wait_for(..., public=True)"
            raise SagaError(f"ctx.callback_url: step {self.step} of saga {self.saga} {fault}")
        return self.callback()

    def signal(self, value: object) -> None:
        """Answer this step's wait at once, as if a caller had sent ``value``."""
        if self.answer is None:
            raise SagaError(f"ctx.signal: step {self.step} of saga {self.saga} does not wait for a signal")
        self.answer(value)

    @property
    def now(self) -> datetime:
        """The current time of the saga's clock (UTC)."""
        return datetime.fromtimestamp(self.clock.now(), UTC)

    @property
    def deadline(self) -> datetime:
        """The time by which the attempt must end (UTC)."""
        return datetime.fromtimestamp(self.deadline_at, UTC)

    def remaining_time(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(0.0, self.deadline_at - self.clock.now())

    def mark_lost(self) -> None:
        """Note that the lease was taken over: the result of this attempt will be refused."""
        self._lost = True

    @property
    def cancelled(self) -> bool:
        """Whether to stop: the timeout has expired, the lease is lost or, except in an undo, a cancel was accepted or
        the saga's own deadline has passed."""
        now = self.clock.now()
        if self._lost or self.late:
            return True
        self._cancelled = self._cancelled or 0.0 < self.saga_ends_at <= now
        if not self.undo and not self._cancelled and now - self._checked_at >= _CANCEL_CHECK:
            self._cancelled = self.check_cancelled()
            self._checked_at = now
        return self._cancelled

    @property
    def knows_of_cancel(self) -> bool:
        """Whether the code already knows of an accepted cancel, or of the saga's deadline. Sends no request."""
        return self._cancelled

    def raise_if_cancelled(self) -> None:
        """Raise ``Cancelled`` if a cancel was accepted, the lease was lost, or the timeout or the saga's deadline has
        passed."""
        if not self.cancelled:
            return
        if self._lost:
            raise Cancelled(f"saga {self.saga_id} was taken over by another worker: this attempt took too long")
        if 0.0 < self.saga_ends_at <= self.clock.now():
            raise Cancelled(f"the deadline of saga {self.saga_id} has passed")
        if self._cancelled:
            raise Cancelled(f"saga {self.saga_id} was cancelled")
        raise Cancelled(f"the timeout of step {self.step} has expired")

    @property
    def trace_headers(self) -> dict[str, str]:
        """Headers for calls to other services; empty if the saga is not traced."""
        return self.trace()

    def client(self, service: str) -> Any:
        """Return a boto3 client, cached per service in this environment."""
        return self.connect(service)

    def s3_key(self, filename: str) -> str:
        """Return the S3 key of this saga's file ``name``."""
        return object_key(self.prefix, self.saga_id, filename)

    def progress(self, fraction: SupportsFloat, message: str = "") -> None:
        """Report the step's progress, from 0 to 1; NaN is ignored."""
        share = share_of(fraction)
        if share is not None:
            self.report(share, message)
