"""A context for unit tests: plain values, nothing behind them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sagas.authoring.context import object_key
from sagas.errors import Cancelled

_EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""When a test's attempt begins, if it does not say: always the same, so that tests repeat."""

_DEFAULT_ID = "00000000-0000-7000-8000-000000000000"


def fake_callback_url(saga: str, saga_id: str, step: str) -> str:
    """Return a callback URL that leads nowhere, and says what it is for instead of a token."""
    return f"https://sagas.invalid/callbacks/{saga}.{saga_id}.{step}"


class FakeContext:
    """What a step gets as ``ctx`` in a unit test. Everything may be given; the rest follows from what is.

    Args:
        saga_id: the saga's id.
        saga: the saga type's name.
        step: the step's name.
        attempt: which execution it is, from 1.
        undo: whether it is the step's undo that runs; the idempotency key then ends in ``:undo``.
        idempotency_key: by default ``{saga_id}:{step}``, in an undo ``{saga_id}:{step}:undo``.
        forward_key: by default ``{saga_id}:{step}``.
        attempt_key: by default ``{idempotency_key}:{attempt}``.
        now: the time by the saga's clock; by default ``deadline`` minus the remaining time.
        deadline: when the attempt must have ended; by default the remaining time after ``now``, or a fixed time.
        remaining_time: seconds until then, as ``remaining_time()`` answers; or a function that answers.
        cancelled: whether a cancel was accepted. May be set later; true in any case when no time remains.
        raise_if_cancelled: what to call instead of looking at ``cancelled``.
        logger: by default the logger named ``sagas.testing``.
        client: clients by service (``{"s3": stub}``), or a function from service to client.
        s3_key: what makes keys, instead of ``{prefix}{saga_id}/{filename}``.
        prefix: the S3 prefix; by default ``{saga}/``.
        progress: what to call on ``progress()``, besides keeping the call in ``progressed``.
        trace_headers: of the saga's trace; none by default.
        callback_url: of a public wait; by default one that leads nowhere.
        signal_path: where a signal for the step is sent; by default as deployed.
        signal: what to call on ``signal()``, besides keeping the value in ``signalled``.

    Attributes:
        progressed: each ``(fraction, message)`` the step told.
        signalled: each value by which it answered its own wait.
    """

    def __init__(
        self,
        *,
        saga_id: str = _DEFAULT_ID,
        saga: str = "saga",
        step: str = "step",
        attempt: int = 1,
        undo: bool = False,
        idempotency_key: str | None = None,
        forward_key: str | None = None,
        attempt_key: str | None = None,
        now: datetime | None = None,
        deadline: datetime | None = None,
        remaining_time: float | Callable[[], float] = 30.0,
        cancelled: bool = False,
        raise_if_cancelled: Callable[[], None] | None = None,
        logger: logging.Logger | None = None,
        client: Mapping[str, Any] | Callable[[str], Any] | None = None,
        s3_key: Callable[[str], str] | None = None,
        prefix: str | None = None,
        progress: Callable[[float, str], None] | None = None,
        trace_headers: Mapping[str, str] | None = None,
        callback_url: str | None = None,
        signal_path: str | None = None,
        signal: Callable[[object], None] | None = None,
    ) -> None:
        self.saga_id = saga_id
        self.saga = saga
        self.step = step
        self.attempt = attempt
        self.signal_path = f"/sagas/{saga}/{saga_id}/signals/{step}" if signal_path is None else signal_path
        self.callback_url = fake_callback_url(saga, saga_id, step) if callback_url is None else callback_url
        self.forward_key = f"{saga_id}:{step}" if forward_key is None else forward_key
        own_key = f"{self.forward_key}:undo" if undo else self.forward_key
        self.idempotency_key = own_key if idempotency_key is None else idempotency_key
        self.attempt_key = f"{self.idempotency_key}:{attempt}" if attempt_key is None else attempt_key
        self._cancelled = cancelled
        self.logger = logging.getLogger("sagas.testing") if logger is None else logger
        self.progressed: list[tuple[float, str]] = []
        self.signalled: list[object] = []
        self._remaining_time = remaining_time
        self._now = now
        begins = _EPOCH if now is None else now
        self.deadline = begins + timedelta(seconds=self.remaining_time()) if deadline is None else deadline
        self._raise_if_cancelled = raise_if_cancelled
        self._client = client
        self._s3_key = s3_key
        self._prefix = f"{saga}/" if prefix is None else prefix
        self._progress = progress
        self._signal = signal
        self.trace_headers: Mapping[str, str] = {} if trace_headers is None else trace_headers

    @property
    def now(self) -> datetime:
        """The time that was given, or the deadline minus the remaining time."""
        return self.deadline - timedelta(seconds=self.remaining_time()) if self._now is None else self._now

    @property
    def cancelled(self) -> bool:
        """Whether to stop: a cancel was accepted, or the time is over."""
        return self._cancelled or self.remaining_time() <= 0

    @cancelled.setter
    def cancelled(self, accepted: bool) -> None:
        self._cancelled = accepted

    def remaining_time(self) -> float:
        """Return the seconds that were given."""
        given = self._remaining_time
        return max(0.0, float(given() if callable(given) else given))

    def raise_if_cancelled(self) -> None:
        """Raise ``Cancelled`` if ``cancelled`` is set, or no time remains."""
        if self._raise_if_cancelled is not None:
            self._raise_if_cancelled()
        elif self._cancelled:
            raise Cancelled(f"saga {self.saga_id} was cancelled")
        elif self.cancelled:
            raise Cancelled(f"the time of step {self.step} is over")

    def signal(self, value: object) -> None:
        """Keep the value in ``signalled``; then call what was given."""
        self.signalled.append(value)
        if self._signal is not None:
            self._signal(value)

    def client(self, service: str) -> Any:
        """Return the client that was given for a service.

        Raises:
            LookupError: none was given.
        """
        given = self._client
        if callable(given):
            return given(service)
        if given is None or service not in given:
            raise LookupError(f'FakeContext has no client for "{service}": pass client={{"{service}": ...}}')
        return given[service]

    def s3_key(self, filename: str) -> str:
        """Return the key for a file, as the real context makes it.

        Raises:
            InvalidRequest: it cannot be a file name in S3.
        """
        return object_key(self._prefix, self.saga_id, filename) if self._s3_key is None else self._s3_key(filename)

    def progress(self, fraction: float, message: str = "") -> None:
        """Keep the call in ``progressed``."""
        self.progressed.append((fraction, message))
        if self._progress is not None:
            self._progress(fraction, message)
