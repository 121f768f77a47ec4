"""The library's first example, as an author writes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sagas import (
    AutoDisable,
    CircuitBreaker,
    Context,
    Exhausted,
    OrphanSweep,
    Retry,
    S3Object,
    Saga,
    step,
)


@dataclass(frozen=True)
class CreateZipRequest:
    bucket: str
    keys: list[str]


class CreateZip(
    Saga[CreateZipRequest],
    name="create-zip",
    version="1",
    lock_expiry=timedelta(minutes=5),
    max_recovery_attempts=5,
    auto_disable=AutoDisable(threshold=5, window=timedelta(hours=1), cooldown=timedelta(minutes=30)),
    orphans=OrphanSweep(
        bucket_env="ZIPS_BUCKET",
        prefix="create-zip/",
        min_age=timedelta(hours=48),
        every=timedelta(hours=6),
        action="delete",
    ),
):
    """Zips S3 objects and announces the archive."""

    @step(retry=Retry.exponential(max_retries=5, base_delay=0.2), timeout=60)
    def upload(self, request: CreateZipRequest, ctx: Context) -> S3Object: ...

    @upload.compensate(retry=Retry.constant(max_retries=3, delay=1.0))
    def delete_upload(self, upload: S3Object, ctx: Context) -> None: ...

    @step(
        retry=Retry.exponential(max_retries=3, base_delay=0.5, on_exhausted=Exhausted.DEAD_LETTER),
        circuit_breaker=CircuitBreaker(failure_threshold=5, open_for=30),
    )
    def notify(self, request: CreateZipRequest, upload: S3Object, ctx: Context) -> None: ...
