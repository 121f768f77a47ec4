"""Options of the archive of the audit trail."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from aws_cdk import aws_s3 as s3

from sagas.cdk.options.checks import within
from sagas.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class Archive:
    """A copy of the audit trail in S3, safe from principals that can write to the tables. The copy has no payloads.

    Args:
        bucket: your own bucket. Default: the service creates a versioned bucket, to which ``removal_policy`` applies.
        lock: how long S3 refuses to overwrite or delete objects (Object Lock), in whole days. Default: no lock.
            Your own bucket keeps its own settings.
        compliance: whether the lock binds everybody, including the account's owner, until it expires. If False,
            principals with ``s3:BypassGovernanceRetention`` can bypass it.

    Raises:
        DefinitionError: ``lock`` is out of range, is combined with ``bucket``, or is missing with ``compliance``.
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
            raise DefinitionError("Archive: lock cannot be used with bucket; set Object Lock on your bucket")
        if self.compliance and self.lock is None:
            raise DefinitionError("Archive: compliance requires lock")
