"""The context of an attempt: what a step can read and do while it runs."""

from __future__ import annotations

import logging
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, SupportsFloat

from sagas.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class S3Object:
    """A pointer to an object in S3.

    Args:
        bucket: the bucket's name.
        key: the object's key.
        size: the number of bytes, if known.
        etag: the entity tag, if known.
    """

    bucket: str
    key: str
    size: int | None = None
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class OrphanedObject(S3Object):
    """An orphaned object in S3, as a sweep passes it to ``on_orphans()``.

    Args:
        last_modified: the time at which the object was stored (UTC).
    """

    last_modified: datetime | None = None


_RESERVED = frozenset({*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime"})
"""The names that ``logging`` keeps for itself. It raises a ``KeyError`` for a field of ``extra`` with such a name."""


class StepLogger(logging.Logger):
    """A step's logger. A field of ``extra`` whose name ``logging`` keeps for itself gets an underscore at its end, so
    that no log line fails a step.

    Args:
        logger: the logger that writes the lines.
    """

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger.name)
        self.parent = logger

    def makeRecord(  # noqa: N802 - as the base class has it
        self,
        name: str,
        level: int,
        fn: str,
        lno: int,
        msg: object,
        args: Any,
        exc_info: Any,
        func: str | None = None,
        extra: Mapping[str, object] | None = None,
        sinfo: str | None = None,
    ) -> logging.LogRecord:
        """Make a log record; see :meth:`logging.Logger.makeRecord`."""
        fields = {f"{key}_" if key in _RESERVED else key: value for key, value in (extra or {}).items()}
        return super().makeRecord(name, level, fn, lno, msg, args, exc_info, func, fields, sinfo)


class Context(Protocol):
    """The running attempt. A test double need not inherit from it: see ``sagas.testing.FakeContext``."""

    @property
    def saga_id(self) -> str:
        """The saga's id, a UUID."""
        ...

    @property
    def saga(self) -> str:
        """The saga type's name."""
        ...

    @property
    def step(self) -> str:
        """The step's name; in an undo, the name of the step that it undoes."""
        ...

    @property
    def attempt(self) -> int:
        """The number of this execution of the step or undo. It starts at 1 and is never reset."""
        ...

    @property
    def idempotency_key(self) -> str:
        """A key that is the same on every attempt of this step, or of this undo: pass it to whatever you call."""
        ...

    @property
    def forward_key(self) -> str:
        """The step's idempotency key; in an undo, the key of the step that it undoes."""
        ...

    @property
    def attempt_key(self) -> str:
        """A key that is different on every attempt."""
        ...

    @property
    def signal_path(self) -> str:
        """The path for signals to this step, relative to the API's URL: ``/sagas/{type}/{id}/signals/{step}``."""
        ...

    @property
    def callback_url(self) -> str:
        """The URL for signals to this step without AWS credentials. Anyone with the URL can send the signal.

        The URL is the same on every attempt, until the signing key is replaced. Only waits with ``public=True`` have
        such a URL. Elsewhere, reading this property raises a ``SagaError``.
        """
        ...

    @property
    def now(self) -> datetime:
        """The time of the saga's clock (UTC). Tests and ``sagas local tick --advance`` move this clock, but not
        ``datetime.now()``."""
        ...

    @property
    def deadline(self) -> datetime:
        """The time (UTC) when the attempt times out: the start of its code plus the step's timeout. An attempt that
        ends later fails with ``TimedOut``."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether to stop: the deadline of the attempt or the saga has passed, or a cancel was accepted, at most five
        seconds ago."""
        ...

    @property
    def logger(self) -> logging.Logger:
        """A logger that adds the saga, step and attempt to each line. A field of ``extra`` with a name that Python's
        ``logging`` keeps for itself, such as ``name`` or ``message``, is logged as ``name_``. Hidden values that the
        code was given are logged as ``***``."""
        ...

    @property
    def trace_headers(self) -> Mapping[str, str]:
        """Trace headers (``traceparent``, ``tracestate``) for calls that are not instrumented; empty without
        tracing."""
        ...

    def remaining_time(self) -> float:
        """Seconds until the deadline, never negative."""
        ...

    def raise_if_cancelled(self) -> None:
        """Raise ``Cancelled`` if a cancel was accepted or the deadline has passed."""
        ...

    def signal(self, value: object) -> None:
        """End this wait before it begins, as if the signal ``value`` had been sent.

        Use this when the answer is already there. As always, the first accepted signal counts. Call it only in the
        method of a ``@wait_for``; elsewhere it raises a ``SagaError``.
        """
        ...

    def client(self, service: str) -> Any:
        """Return a boto3 client. Each execution environment creates one client per service."""
        ...

    def s3_key(self, filename: str) -> str:
        """Return the S3 key under which this saga stores a file named ``filename``."""
        ...

    def progress(self, fraction: SupportsFloat, message: str = "") -> None:
        """Report how far the step has got, from 0 to 1. A value beyond is stored as 0 or 1; NaN is ignored."""
        ...


def share_of(fraction: SupportsFloat) -> float | None:
    """Return a reported progress as it is stored, from 0 to 1; ``None`` for NaN, which is not stored."""
    return None if math.isnan(fraction) else min(1.0, max(0.0, float(fraction)))


def object_key(prefix: str, saga_id: str, filename: str) -> str:
    """Return ``{prefix}{saga_id}/{filename}``: the saga's id can be read back from the key."""
    bad = not filename or "/" in filename or ".." in filename
    bad = bad or any(unicodedata.category(character) in ("Cc", "Cs") for character in filename)
    key = f"{prefix}{saga_id}/{filename}"
    if bad or len(key.encode()) > 1024:
        problem = "it is empty or too long, or has '/', '..' or control characters"
        raise InvalidRequest(f"s3_key: {filename!r} cannot be a file name: {problem}")
    return key
