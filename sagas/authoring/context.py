"""What a step is told about the attempt it runs in."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sagas.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class S3Object:
    """A pointer to an object in S3.

    Args:
        bucket: the bucket's name.
        key: the object's key.
        size: bytes, if known.
        etag: the entity tag, if known.
    """

    bucket: str
    key: str
    size: int | None = None
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class OrphanedObject(S3Object):
    """An object that a sweep found to be an orphan.

    Args:
        last_modified: when it was stored (UTC).
    """

    last_modified: datetime | None = None


class Context(Protocol):
    """The running attempt. A test double needs no inheritance: see ``sagas.testing.FakeContext``."""

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
        """The step's name, also in its undo."""
        ...

    @property
    def attempt(self) -> int:
        """Which execution of this step or undo it is, from 1; never restarts."""
        ...

    @property
    def idempotency_key(self) -> str:
        """The same on every attempt of this step (or of this undo): hand it to providers."""
        ...

    @property
    def forward_key(self) -> str:
        """The step's own idempotency key, also in its undo."""
        ...

    @property
    def attempt_key(self) -> str:
        """Different on every attempt."""
        ...

    @property
    def signal_path(self) -> str:
        """Where a signal for this step is sent: ``/sagas/{name}/{id}/signals/{step}``, below the API's URL."""
        ...

    @property
    def callback_url(self) -> str:
        """Where a signal for this step is sent without AWS credentials: who has the URL may send it.

        The same on every attempt, until the key that it is signed with is replaced. Only where the step is a wait that
        says ``public=True``; elsewhere reading it raises a ``SagaError`` that says so.
        """
        ...

    @property
    def now(self) -> datetime:
        """The time by the saga's clock (UTC), which tests and ``sagas local tick --advance`` move. ``datetime.now()``
        does not move with it."""
        ...

    @property
    def deadline(self) -> datetime:
        """When the attempt must have ended (UTC): its code's start and the step's timeout. What ends later counts as
        ``TimedOut``."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether to stop: the deadline has passed, or a cancel was accepted, which is at most five seconds stale."""
        ...

    @property
    def logger(self) -> logging.Logger:
        """A logger whose lines carry saga, step and attempt."""
        ...

    @property
    def trace_headers(self) -> Mapping[str, str]:
        """``traceparent`` and ``tracestate`` for calls that nothing instruments; empty where the saga is not traced."""
        ...

    def remaining_time(self) -> float:
        """Seconds until the deadline, never negative."""
        ...

    def raise_if_cancelled(self) -> None:
        """Raise ``Cancelled`` once a cancel was accepted, or the deadline has passed."""
        ...

    def signal(self, value: object) -> None:
        """Answer the wait that this code asks for, as if ``value`` had been sent: then nothing is waited for.

        For what needs nobody, or is known already. The first signal wins, as always: one that was accepted before
        stays. Only in the code that asks; elsewhere it raises a ``SagaError``.
        """
        ...

    def client(self, service: str) -> Any:
        """Return a boto3 client, one a service and environment."""
        ...

    def s3_key(self, filename: str) -> str:
        """Return the key under which this saga keeps a file of that name."""
        ...

    def progress(self, fraction: float, message: str = "") -> None:
        """Tell how far the step is, from 0 to 1."""
        ...


def object_key(prefix: str, saga_id: str, filename: str) -> str:
    """Return ``{prefix}{saga_id}/{filename}``: the saga's id can be read back from the key."""
    bad = not filename or "/" in filename or ".." in filename
    bad = bad or any(unicodedata.category(character) in ("Cc", "Cs") for character in filename)
    key = f"{prefix}{saga_id}/{filename}"
    if bad or len(key.encode()) > 1024:
        raise InvalidRequest(f"s3_key: {filename!r} cannot be a file name in S3 here")
    return key
