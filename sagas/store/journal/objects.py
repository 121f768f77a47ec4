"""A bucket's objects: listed page by page, deleted by the thousand, archived one by one, here or elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from sagas.aws import S3_DENIED, STEPS, code_of, connect, translated
from sagas.core.text import NOT_XML
from sagas.errors import SagaError
from sagas.store.settings import StoreSettings

PAGE = 1_000
"""Keys S3 lists, and deletes, in one request at most."""

_LARGEST_COPY = 5 * 2**30
"""Bytes S3 copies in one request at most; a larger object is copied in parts."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a listing shows it. ``size`` in bytes, ``modified_at`` in epoch seconds."""

    key: str
    size: int
    etag: str
    modified_at: float


@dataclass(frozen=True, slots=True)
class Page:
    """Up to a thousand objects in the order of their keys. ``last``: there are no more."""

    objects: tuple[Listed, ...]
    last: bool


def connect_s3(settings: StoreSettings) -> Any:
    """Return a client of S3 for the region and endpoint of the store."""
    return connect("s3", STEPS, region=settings.region, endpoint_url=settings.endpoint_url)


class Objects:
    """The objects of one bucket.

    Args:
        client: boto3's, of S3.
        bucket: its name.
    """

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self.bucket = bucket

    def page(self, prefix: str, start_after: str = "") -> Page:
        """List up to a thousand objects under ``prefix`` whose keys come after ``start_after``: one request."""
        answer = self._list(prefix, start_after, PAGE)
        found = (
            Listed(
                item["Key"], int(item["Size"]), str(item.get("ETag", "")).strip('"'), item["LastModified"].timestamp()
            )
            for item in answer.get("Contents", ())
        )
        return Page(tuple(found), not answer.get("IsTruncated"))

    def first_after(self, prefix: str, start_after: str) -> str | None:
        """Return the first key under ``prefix`` after ``start_after``; ``None`` if there is none: one request."""
        found: list[dict[str, Any]] = self._list(prefix, start_after, 1).get("Contents", [])
        return found[0]["Key"] if found else None

    def _list(self, prefix: str, start_after: str, most: int) -> dict[str, Any]:
        more = {"StartAfter": start_after} if start_after else {}
        with translated("S3"):
            return self._client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, MaxKeys=most, **more)

    def delete(self, keys: Sequence[str]) -> dict[str, str]:
        """Delete up to a thousand objects, in one request but for keys that XML cannot say. One that is gone already
        counts as deleted. Returns s3's error code for each key it did not delete: it answers 200 all the same."""
        refused = dict[str, str]()
        for key in filter(NOT_XML.search, keys):
            if code := self._verdict(self._client.delete_object, Bucket=self.bucket, Key=key):
                refused[key] = code
        together = [{"Key": key} for key in keys if not NOT_XML.search(key)]
        if together:
            with translated("S3"):
                answer = self._client.delete_objects(Bucket=self.bucket, Delete={"Objects": together, "Quiet": True})
            refused |= {error["Key"]: str(error.get("Code", "unknown")) for error in answer.get("Errors", ())}
        return refused

    def archive(self, listed: Listed, prefix: str, bucket: str = "") -> str:
        """Copy an object to ``{prefix}{key}``. Returns why there is no copy, by S3's error code; empty when there is
        one."""
        source = {"Bucket": self.bucket, "Key": listed.key}
        bucket, key = bucket or self.bucket, f"{prefix}{listed.key}"
        if listed.size <= _LARGEST_COPY:
            code = self._verdict(self._client.copy_object, CopySource=source, Bucket=bucket, Key=key)
        else:
            code = self._verdict(self._client.copy, source, bucket, key)
        return "NoSuchKey" if code in S3_DENIED and self._is_gone(listed.key) else code

    def _is_gone(self, key: str) -> bool:
        """Whether an object is not listed; it counts as there if that may not be asked."""
        answer = dict[str, Any]()
        denied = self._verdict(
            lambda: answer.update(self._client.list_objects_v2(Bucket=self.bucket, Prefix=key, MaxKeys=1))
        )
        return not denied and all(one["Key"] != key for one in answer.get("Contents", ()))

    @staticmethod
    def _verdict(call: Callable[..., Any], *args: Any, **named: Any) -> str:
        """S3's own verdict on an object, which would be the same a moment later; empty if the call succeeds."""
        try:
            with translated("S3"):
                call(*args, **named)
        except SagaError as error:
            cause = error.__cause__
            if type(error) is not SagaError or not isinstance(cause, ClientError):
                raise
            return code_of(cause)
        return ""
