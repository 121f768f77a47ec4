"""The objects of a bucket: lists them by page, deletes up to 1,000 at a time, and archives each to any bucket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import ClientError
from msgspec import Struct

from sagas.aws import S3_DENIED, STEPS, code_of, connect, translated
from sagas.core.text import outside_xml
from sagas.errors import SagaError
from sagas.store.tables import StoreSettings

PAGE = 1_000
"""Maximum keys that S3 lists or deletes in one request."""

_LARGEST_COPY = 5 * 2**30
"""Maximum bytes that S3 copies in one request. Larger objects are copied in parts."""


class Listed(Struct, frozen=True):
    """An object in a listing. ``size`` is in bytes, ``modified_at`` in epoch seconds."""

    key: str
    size: int
    etag: str
    modified_at: float


class ObjectPage(Struct, frozen=True):
    """Up to 1,000 objects, ordered by key. ``last``: whether this is the last page."""

    objects: tuple[Listed, ...]
    last: bool


def connect_s3(settings: StoreSettings) -> Any:
    """Return an S3 client for the region and endpoint of the store."""
    return connect("s3", STEPS, region=settings.region, endpoint_url=settings.endpoint_url)


class Objects:
    """The objects of one bucket.

    Args:
        client: a boto3 S3 client.
        bucket: the bucket's name.
    """

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self.bucket = bucket

    def page(self, prefix: str, start_after: str = "") -> ObjectPage:
        """List up to 1,000 objects under ``prefix`` whose keys come after ``start_after``, with one request."""
        more = {"StartAfter": start_after} if start_after else {}
        with translated("S3"):
            answer = self._client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, MaxKeys=PAGE, **more)
        objects = (
            Listed(
                item["Key"], int(item["Size"]), str(item.get("ETag", "")).strip('"'), item["LastModified"].timestamp()
            )
            for item in answer.get("Contents", ())
        )
        return ObjectPage(tuple(objects), not answer.get("IsTruncated"))

    def delete(self, keys: Sequence[str]) -> dict[str, str]:
        """Delete up to 1,000 objects with one request, and one more for each key that XML cannot encode. Missing
        objects count as deleted. Returns S3's error code for each key that was not deleted."""
        errors = dict[str, str]()
        for key in filter(outside_xml, keys):
            if code := self._verdict(self._client.delete_object, Bucket=self.bucket, Key=key):
                errors[key] = code
        batch = [{"Key": key} for key in keys if not outside_xml(key)]
        if batch:
            with translated("S3"):
                answer = self._client.delete_objects(Bucket=self.bucket, Delete={"Objects": batch, "Quiet": True})
            errors |= {error["Key"]: str(error.get("Code", "unknown")) for error in answer.get("Errors", ())}
        return errors

    def archive(self, listed: Listed, prefix: str, bucket: str = "") -> str:
        """Copy an object to ``{prefix}{key}``. Returns S3's error code; empty if the copy succeeded."""
        source = {"Bucket": self.bucket, "Key": listed.key}
        bucket = bucket or self.bucket
        key = f"{prefix}{listed.key}"
        if listed.size <= _LARGEST_COPY:
            code = self._verdict(self._client.copy_object, CopySource=source, Bucket=bucket, Key=key)
        else:
            code = self._verdict(self._client.copy, source, bucket, key)
        return "NoSuchKey" if code in S3_DENIED and self._is_missing(listed.key) else code

    def _is_missing(self, key: str) -> bool:
        """Whether an object is missing. If listing is not permitted, it counts as existing."""
        answer = dict[str, Any]()
        denied = self._verdict(
            lambda: answer.update(self._client.list_objects_v2(Bucket=self.bucket, Prefix=key, MaxKeys=1))
        )
        return not denied and all(item["Key"] != key for item in answer.get("Contents", ()))

    @staticmethod
    def _verdict(call: Callable[..., Any], *args: Any, **named: Any) -> str:
        """Make a call. Returns S3's error code if a repeated call would fail the same way; empty if it succeeds."""
        try:
            with translated("S3"):
                call(*args, **named)
        except SagaError as error:
            cause = error.__cause__
            if type(error) is not SagaError or not isinstance(cause, ClientError):
                raise
            return code_of(cause)
        return ""
