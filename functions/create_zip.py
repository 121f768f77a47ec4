"""Saga *create-zip*: zips S3 objects into one archive, and announces the archive."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from functions.multipart import MultipartUpload, abort_unfinished
from functions.sources import Source, inspect_sources, read_source
from functions.zip_stream import ArchiveEntry, in_parts, stream_zip
from sagas import CircuitBreaker, Context, Exhausted, OrphanSweep, Retry, S3Object, Saga, step

ARCHIVE = "archive.zip"

PART_SIZE = 8 * 2**20
"""Bytes per part. S3 accepts 10,000 parts, so an archive can reach 78 GiB. Every function has memory for two parts."""

_LAST_SECOND = 1.0


@dataclass(frozen=True)
class CreateZipRequest:
    """The objects to archive, and their bucket."""

    bucket: str
    keys: list[str]


@dataclass(frozen=True)
class Sources:
    """The objects, as they were when the saga checked them."""

    objects: list[Source]
    total_bytes: int


class CreateZip(
    Saga[CreateZipRequest],
    name="create-zip",
    retry=Retry.exponential(max_retries=3, base_delay=0.5),
    # Uploads can take long, but recovery from a worker's death should not. Heartbeats extend this short lease.
    lock_expiry=timedelta(seconds=20),
    orphans=OrphanSweep(
        bucket_env="ZIPS_BUCKET",
        prefix="create-zip/",
        min_age=timedelta(hours=48),
        every=timedelta(hours=6),
        action="delete",
    ),
):
    """Zips S3 objects, and announces the archive."""

    def __init__(self, bucket: str, topic_arn: str) -> None:
        self._bucket = bucket
        self._topic_arn = topic_arn

    @classmethod
    def create(cls) -> Self:
        """Take the archive bucket and the topic from the environment."""
        return cls(bucket=os.environ["ZIPS_BUCKET"], topic_arn=os.environ["ANNOUNCE_TOPIC_ARN"])

    @step(result="sources", timeout=120)
    def check(self, request: CreateZipRequest, ctx: Context) -> Sources:
        """Refuse objects that cannot become an archive, before any content is read."""
        objects = inspect_sources(ctx.client("s3"), request.bucket, request.keys, ctx.raise_if_cancelled)
        return Sources(objects, sum(source.size for source in objects))

    # The step is undone even if it never completed: an attempt may be killed after it has written the archive.
    @step(retry=Retry.exponential(max_retries=5, base_delay=0.2), timeout=840, undo_when="started")
    def upload(self, request: CreateZipRequest, sources: Sources, ctx: Context) -> S3Object:
        """Stream the objects into an archive. Every attempt writes the same bytes to the same key."""
        s3, key = ctx.client("s3"), ctx.s3_key(ARCHIVE)
        if ctx.attempt > 1:
            abort_unfinished(s3, self._bucket, key)
        archive = stream_zip(_entries(request.bucket, sources, ctx))
        with MultipartUpload(s3, self._bucket, key, "application/zip") as target:
            for part in in_parts(archive, PART_SIZE):
                target.add(part)
            ctx.raise_if_cancelled()
            etag = target.complete()
        ctx.logger.info("archive written", extra={"entries": len(sources.objects), "bytes": target.size})
        return S3Object(self._bucket, key, target.size, etag)

    @upload.compensate(retry=Retry.exponential(max_retries=5, base_delay=1.0), timeout=60)
    def delete_upload(self, upload: S3Object | None, ctx: Context) -> None:
        """Delete the archive, and abort unfinished uploads."""
        s3 = ctx.client("s3")
        # The configuration may have changed, so prefer the bucket in the result.
        bucket, key = (upload.bucket, upload.key) if upload else (self._bucket, ctx.s3_key(ARCHIVE))
        aborted = abort_unfinished(s3, bucket, key)
        s3.delete_object(Bucket=bucket, Key=key)
        ctx.logger.info("archive deleted", extra={"unfinished_uploads": aborted})

    @step(
        retry=Retry.exponential(max_retries=3, base_delay=0.5, on_exhausted=Exhausted.DEAD_LETTER),
        circuit_breaker=CircuitBreaker(failure_threshold=5, open_for=30),
    )
    def announce(self, sources: Sources, upload: S3Object, ctx: Context) -> str:
        """Publish the place of the archive. Return the id of the message.

        A repeated attempt publishes the message again. Subscribers recognize it by the attribute ``idempotency_key``.
        """
        archive = {"bucket": upload.bucket, "key": upload.key, "size": upload.size, "etag": upload.etag}
        message = {"saga_id": ctx.saga_id, "archive": archive, "entries": len(sources.objects)}
        attributes = {"saga": ctx.saga, "saga_id": ctx.saga_id, "idempotency_key": ctx.idempotency_key}
        published = ctx.client("sns").publish(
            TopicArn=self._topic_arn,
            Message=json.dumps(message),
            MessageAttributes={k: {"DataType": "String", "StringValue": v} for k, v in attributes.items()},
        )
        return str(published["MessageId"])


def _entries(bucket: str, sources: Sources, ctx: Context) -> Iterator[ArchiveEntry]:
    """Yield the entries of the archive. An object is opened only when its content is read."""
    done = 0
    for source in sources.objects:
        yield ArchiveEntry(source.name, source.size, _chunks(bucket, source, ctx, done, sources.total_bytes))
        done += source.size


def _chunks(bucket: str, source: Source, ctx: Context, done: int, total: int) -> Iterator[bytes]:
    """Yield an object's content while the attempt has time left, and report progress."""
    for chunk in read_source(ctx.client("s3"), bucket, source):
        ctx.raise_if_cancelled()
        if ctx.remaining_time() <= _LAST_SECOND:
            # This error aborts the upload. If the function were killed, the uploaded parts would stay.
            raise TimeoutError("the archive was not finished in time")
        yield chunk
        done += len(chunk)
        ctx.progress(done / total, "zipping")
