"""The S3 objects for an archive. They are checked first and read later, and must not change in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from functions.archive_names import archive_names
from sagas import PermanentError, Rejected

MAX_SOURCES = 1_000
MAX_TOTAL_BYTES = 20 * 2**30
"""A function can compress this many bytes in its maximum running time, with a margin."""

_CHUNK = 2**20
_MISSING = {"404", "NoSuchKey", "NotFound", "NoSuchBucket"}
_CHANGED = {"412", "PreconditionFailed"}


@dataclass(frozen=True, slots=True)
class Source:
    """An object, as it was when it was checked.

    Args:
        key: the object's key.
        name: the path in the archive.
        size: the size in bytes.
        etag: the entity tag from S3.
    """

    key: str
    name: str
    size: int
    etag: str


def inspect_sources(s3: Any, bucket: str, keys: Sequence[str], checkpoint: Callable[[], None]) -> list[Source]:
    """Return the object of each key, without reading its content.

    Args:
        s3: a boto3 client.
        bucket: the bucket that contains the objects.
        keys: the keys of the objects.
        checkpoint: called before every request. An exception that it raises ends the inspection.

    Raises:
        Rejected: the objects cannot become an archive. This is a mistake of the caller, so it does not count as a
            failure of the saga type.
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
    """Yield the content of an object in chunks of one MiB.

    Raises:
        PermanentError: the object was changed or deleted after the check.
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
        # A response that is not read to its end would keep its connection out of the pool.
        body.close()


def _code(error: Any) -> str:
    return str(error.response["Error"]["Code"])
