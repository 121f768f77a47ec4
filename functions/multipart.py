"""Multipart uploads to S3 that are completed or leave nothing behind."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any, Self

logger = logging.getLogger(__name__)


class MultipartUpload:
    """Writes one object in parts.

    Use it as a context manager. If the block ends without :meth:`complete`, for example with an error, the upload is
    aborted. S3 keeps and bills the parts of uploads that are neither completed nor aborted.
    """

    def __init__(self, s3: Any, bucket: str, key: str, content_type: str) -> None:
        self._s3 = s3
        self._target = {"Bucket": bucket, "Key": key}
        self._content_type = content_type
        self._parts: list[dict[str, Any]] = []
        self._done = False
        self.size = 0
        """Bytes sent so far."""

    def __enter__(self) -> Self:
        created = self._s3.create_multipart_upload(**self._target, ContentType=self._content_type)
        self._target["UploadId"] = created["UploadId"]
        return self

    def add(self, part: bytes) -> None:
        """Send the next part. Each part except the last has at least 5 MiB, and an upload has at most 10,000 parts."""
        number = len(self._parts) + 1
        sent = self._s3.upload_part(**self._target, PartNumber=number, Body=part)
        # If S3 returns a checksum for a part, the call that completes the upload must repeat the checksum.
        checksums = {
            name: value for name, value in sent.items() if name.startswith("Checksum") and name != "ChecksumType"
        }
        self._parts.append({"PartNumber": number, "ETag": sent["ETag"], **checksums})
        self.size += len(part)

    def complete(self) -> str:
        """Complete the upload, so the object becomes visible. It replaces an object with the same key. Return its
        entity tag."""
        completed = self._s3.complete_multipart_upload(**self._target, MultipartUpload={"Parts": self._parts})
        self._done = True
        return str(completed["ETag"])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if self._done:
            return
        try:
            self._s3.abort_multipart_upload(**self._target)
        except Exception:
            # The error that ended the block decides what happens next, so this error must not replace it. The undo, or
            # the next attempt, aborts the upload.
            logger.warning("multipart upload not aborted", exc_info=True)


def abort_unfinished(s3: Any, bucket: str, key: str) -> int:
    """Abort the uploads to ``key`` that killed attempts left unfinished. Return their number."""
    aborted = 0
    pages = s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=key)
    for upload in (upload for page in pages for upload in page.get("Uploads", ()) if upload["Key"] == key):
        try:
            s3.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload["UploadId"])
        except s3.exceptions.NoSuchUpload:
            continue  # another process has aborted it
        aborted += 1
    return aborted
