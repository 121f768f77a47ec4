"""The S3 objects that go into an archive: looked at first, read later, and the same ones both times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from functions.archive_names import archive_names
from sagas import PermanentError, Rejected

MAX_SOURCES = 1_000
MAX_TOTAL_BYTES = 20 * 2**30
"""What is compressed within the longest time a function may run, with a margin."""

_CHUNK = 2**20
_MISSING = {"404", "NoSuchKey", "NotFound", "NoSuchBucket"}
_CHANGED = {"412", "PreconditionFailed"}


@dataclass(frozen=True, slots=True)
class Source:
    """An object as it was when it was looked at.

    Args:
        key: its key.
        name: its path in the archive.
        size: bytes.
        etag: its entity tag, as S3 gave it.
    """

    key: str
    name: str
    size: int
    etag: str


def inspect_sources(s3: Any, bucket: str, keys: Sequence[str], checkpoint: Callable[[], None]) -> list[Source]:
    """Return each key's object without reading its content.

    Args:
        s3: a boto3 client.
        bucket: where the objects are.
        keys: which ones.
        checkpoint: called before every request; what it raises ends the inspection.

    Raises:
        Rejected: the request cannot be served as it stands. A caller's mistake, so no reason to distrust the saga.
    """
    if not 0 < len(keys) <= MAX_SOURCES:
        raise Rejected(f"an archive takes 1 to {MAX_SOURCES} objects, not {len(keys)}")
    try:
        names = archive_names(keys)
    except ValueError as error:
        raise Rejected(str(error)) from error
    sources: list[Source] = []
    for key, name in zip(keys, names, strict=True):
        checkpoint()
        sources.append(_inspect(s3, bucket, key, name))
    total = sum(source.size for source in sources)
    if total > MAX_TOTAL_BYTES:
        raise Rejected(f"the objects have {total} bytes together; an archive takes {MAX_TOTAL_BYTES}")
    return sources


def _inspect(s3: Any, bucket: str, key: str, name: str) -> Source:
    try:
        head = s3.head_object(Bucket=bucket, Key=key)
    except s3.exceptions.ClientError as error:
        if _code(error) in _MISSING:
            raise Rejected(f"bucket {bucket!r} has no object {key!r}") from error
        raise
    return Source(key, name, head["ContentLength"], head["ETag"])


def read_source(s3: Any, bucket: str, source: Source) -> Iterator[bytes]:
    """Yield the object's content in chunks of one MiB.

    Raises:
        PermanentError: it changed, or went away, since it was looked at.
    """
    try:
        body = s3.get_object(Bucket=bucket, Key=source.key, IfMatch=source.etag)["Body"]
    except s3.exceptions.ClientError as error:
        if _code(error) in _MISSING | _CHANGED:
            raise PermanentError(f"object {source.key!r} changed since it was checked") from error
        raise
    try:
        while chunk := body.read(_CHUNK):
            yield chunk
    finally:
        # An unread rest would keep the connection out of the pool.
        body.close()


def _code(error: Any) -> str:
    return str(error.response["Error"]["Code"])
