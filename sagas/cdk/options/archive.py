"""What the archive of the audit trail is to be like."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from aws_cdk import aws_s3 as s3

from sagas.cdk.options.checks import within
from sagas.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class Archive:
    """A copy of the audit trail in S3, out of reach of those who may write the tables. It holds no payloads.

    Args:
        bucket: where it goes; when absent a bucket is made, versioned, and kept when it leaves the stack.
        lock: how long S3 refuses to let objects be overwritten or deleted (Object Lock), in whole days; not at all when
            absent. Of a bucket of your own its own settings decide.
        compliance: whether the lock holds for everybody, the account's owner included, until it ends. Without,
            ``s3:BypassGovernanceRetention`` lifts it.

    Raises:
        DefinitionError: the time is out of range, or is that of a bucket of your own; or nothing is locked.
    """

    bucket: s3.IBucket | s3.BucketBase | None = None
    lock: timedelta | None = None
    compliance: bool = False

    def __post_init__(self) -> None:
        lock = cast("object", self.lock)
        if lock is not None and not isinstance(lock, timedelta):
            raise DefinitionError(f"Archive: lock must be a timedelta, not {lock!r}")
        seconds = None if self.lock is None else self.lock.total_seconds()
        within("Archive", "lock (in seconds)", seconds, 86_400, 100 * 365 * 86_400)
        if self.lock is not None and self.lock % timedelta(days=1):
            raise DefinitionError(f"Archive: lock must be whole days, not {self.lock}")
        if self.lock is not None and self.bucket is not None:
            raise DefinitionError("Archive: lock is a setting of the bucket that you gave")
        if self.compliance and self.lock is None:
            raise DefinitionError("Archive: compliance takes a lock")
