"""A context for unit tests that is made of plain values."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, SupportsFloat

from sagas.authoring.context import StepLogger, object_key, share_of
from sagas.errors import Cancelled

_EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""The default time at which a test's attempt begins. It is constant, so tests are repeatable."""

_DEFAULT_ID = "00000000-0000-7000-8000-000000000000"


def fake_callback_url(saga: str, saga_id: str, step: str) -> str:
    """Return a callback URL that leads nowhere. It names the step instead of a token."""
    return f"https://sagas.invalid/callbacks/{saga}.{saga_id}.{step}"


class FakeContext:
    """The ``ctx`` of a step in a unit test. Every argument is optional; defaults follow from the others.

    Args:
        saga_id: the saga's id.
        saga: the saga type's name.
        step: the step's name.
        attempt: the number of the execution, from 1.
        undo: whether the step's undo runs. The idempotency key then ends in ``:undo``.
        idempotency_key: the key. Default: ``{saga_id}:{step}``, in an undo ``{saga_id}:{step}:undo``.
        forward_key: the step's key. Default: ``{saga_id}:{step}``.
        attempt_key: the attempt's key. Default: ``{idempotency_key}:{attempt}``.
        now: the time of the saga's clock. Default: ``deadline`` minus the remaining time.
        deadline: when the attempt must have ended. Default: ``now`` plus the remaining time, or a fixed time.
        remaining_time: seconds that ``remaining_time()`` returns, or a function that returns them.
        cancelled: whether a cancel was accepted. You can set it later, and it is always true once no time remains.
        raise_if_cancelled: a function to call instead of checking ``cancelled``.
        logger: the logger. Default: the logger named ``sagas.testing``.
        client: clients by service (``{"s3": stub}``), or a function from service to client.
        s3_key: a function that makes keys, instead of ``{prefix}{saga_id}/{filename}``.
        prefix: the S3 prefix. Default: ``{saga}/``.
        progress: a function that ``progress()`` calls after it records the call in ``progressed``.
        trace_headers: the headers of the saga's trace. Default: none.
        callback_url: the callback URL of a public wait. Default: a URL that leads nowhere.
        signal_path: the path for signals to the step. Default: the same as in a deployed saga.
        signal: a function that ``signal()`` calls after it records the value in ``signalled``.

    Attributes:
        progressed: each ``(fraction, message)`` that the step reported, the fraction as a float from 0 to 1.
        signalled: each value that the step sent to its own wait.
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
        self.logger = StepLogger(logging.getLogger("sagas.testing")) if logger is None else logger
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
        """The time passed as ``now``; by default the deadline minus the remaining time."""
        return self.deadline - timedelta(seconds=self.remaining_time()) if self._now is None else self._now

    @property
    def cancelled(self) -> bool:
        """Whether to stop: a cancel was accepted, or no time remains."""
        return self._cancelled or self.remaining_time() <= 0

    @cancelled.setter
    def cancelled(self, accepted: bool) -> None:
        self._cancelled = accepted

    def remaining_time(self) -> float:
        """Return the seconds passed as ``remaining_time``."""
        seconds = self._remaining_time
        return max(0.0, float(seconds() if callable(seconds) else seconds))

    def raise_if_cancelled(self) -> None:
        """Raise ``Cancelled`` if ``cancelled`` is set, or no time remains."""
        if self._raise_if_cancelled is not None:
            self._raise_if_cancelled()
        elif self._cancelled:
            raise Cancelled(f"saga {self.saga_id} was cancelled")
        elif self.cancelled:
            raise Cancelled(f"step {self.step} has no time left")

    def signal(self, value: object) -> None:
        """Record the value in ``signalled``, then call ``signal``."""
        self.signalled.append(value)
        if self._signal is not None:
            self._signal(value)

    def client(self, service: str) -> Any:
        """Return the client passed for a service.

        Raises:
            LookupError: no client was passed for it.
        """
        clients = self._client
        if callable(clients):
            return clients(service)
        if clients is None or service not in clients:
            raise LookupError(f'FakeContext has no client for "{service}": pass client={{"{service}": ...}}')
        return clients[service]

    def s3_key(self, filename: str) -> str:
        """Return the key for a file, as the real context does.

        Raises:
            InvalidRequest: the file name is not valid in S3.
        """
        return object_key(self._prefix, self.saga_id, filename) if self._s3_key is None else self._s3_key(filename)

    def progress(self, fraction: SupportsFloat, message: str = "") -> None:
        """Record the progress in ``progressed``, as a function stores it, then call ``progress``."""
        share = share_of(fraction)
        if share is None:
            return
        self.progressed.append((share, message))
        if self._progress is not None:
            self._progress(share, message)
