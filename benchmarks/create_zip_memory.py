"""Peak memory of the create-zip saga's upload step, for 1 GiB of sources.

Run it: ``python benchmarks/create_zip_memory.py [--mebibytes 1024] [--objects 4]``. It prints one line and fails if
the peak exceeds the limit. S3 is replaced by one that makes up what is read and forgets what is written, so that
the figure is the step's own: the interpreter, boto3 and what the step holds.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import logging
import os
import resource
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, SupportsFloat, cast

import boto3

from functions.create_zip import CreateZip, CreateZipRequest, Sources
from functions.sources import Source

MIB = 2**20
LIMIT = 200 * MIB

# Noise, the worst case: the archive is as long as its sources. It repeats beyond the reach of deflate's 32 KiB window.
_NOISE = os.urandom(MIB)


class GeneratedBody(io.RawIOBase):
    """So many bytes of noise, to be read once."""

    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes, at most one MiB."""
        taken = min(self._left, MIB if size < 0 else size, MIB)
        self._left -= taken
        return _NOISE[:taken]


class GeneratedS3:
    """The part of an S3 client that ``upload`` uses. A key's object is as long as the number the key ends in."""

    class exceptions:  # noqa: N801 - boto3's own spelling
        """What boto3 keeps under this name."""

        class ClientError(Exception):
            """Never raised here."""

    def __init__(self) -> None:
        self.received = 0
        self.parts: list[int] = []

    def get_object(self, *, Bucket: str, Key: str, IfMatch: str) -> dict[str, Any]:  # noqa: N803 - boto3's names
        """Make the object up."""
        return {"Body": GeneratedBody(int(Key.rsplit("-", 1)[1]))}

    def create_multipart_upload(self, **_: Any) -> dict[str, str]:
        """Begin."""
        return {"UploadId": "upload"}

    def upload_part(self, *, Body: bytes, PartNumber: int, **_: Any) -> dict[str, str]:  # noqa: N803 - boto3's names
        """Count the part and forget it."""
        self.parts.append(len(Body))
        self.received += len(Body)
        return {"ETag": hashlib.md5(Body, usedforsecurity=False).hexdigest()}

    def complete_multipart_upload(self, **_: Any) -> dict[str, str]:
        """End."""
        return {"ETag": f"generated-{len(self.parts)}"}

    def abort_multipart_upload(self, **_: Any) -> None:
        """Forget it."""


class BenchmarkContext:
    """A context that hands out the generated client."""

    saga_id = "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17"
    saga = "create-zip"
    step = "upload"
    attempt = 1
    idempotency_key = forward_key = f"{saga_id}:{step}"
    attempt_key = f"{idempotency_key}:{attempt}"
    now, deadline = datetime(2099, 12, 31, 23, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    cancelled = False
    trace_headers: Mapping[str, str] = MappingProxyType({})
    signal_path = callback_url = ""
    logger = logging.getLogger("benchmark")

    def __init__(self, s3: GeneratedS3) -> None:
        self._s3 = s3

    def remaining_time(self) -> float:
        """All the time there is."""
        return timedelta(hours=1).total_seconds()

    def raise_if_cancelled(self) -> None:
        """Nobody cancels."""

    def signal(self, value: object) -> None:
        """Nothing waits."""

    def client(self, service: str) -> Any:
        """The generated S3, whatever is asked for."""
        return self._s3

    def s3_key(self, filename: str) -> str:
        """As the real one."""
        return f"create-zip/{self.saga_id}/{filename}"

    def progress(self, fraction: SupportsFloat, message: str = "") -> None:
        """Nobody watches."""


def generated_sources(count: int, size: int) -> Sources:
    """Return ``count`` objects of ``size`` bytes each, as ``check`` would."""
    names = [f"object-{n}-{size}" for n in range(count)]
    return Sources([Source(name, name, size, "etag") for name in names], count * size)


def peak_rss() -> int:
    """The most memory this process has held at any time, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--mebibytes", type=int, default=1024)
    arguments.add_argument("--objects", type=int, default=4)
    options = arguments.parse_args()
    cast(Any, boto3).client("s3", region_name="eu-central-1")  # a function has loaded it, so it counts
    before = peak_rss()
    sources = generated_sources(options.objects, options.mebibytes * MIB // options.objects)
    s3, started = GeneratedS3(), time.perf_counter()
    request = CreateZipRequest("sources", [source.key for source in sources.objects])
    CreateZip("zips", "topic").upload(request=request, sources=sources, ctx=BenchmarkContext(s3))
    seconds = time.perf_counter() - started
    peak = peak_rss()
    print(
        f"sources {sources.total_bytes / MIB:.0f} MiB in {options.objects}, archive {s3.received / MIB:.0f} MiB in "
        f"{len(s3.parts)} parts, {seconds:.1f} s ({sources.total_bytes / MIB / seconds:.0f} MiB/s), "
        f"peak RSS {peak / MIB:.0f} MiB ({before / MIB:.0f} before), limit {LIMIT / MIB:.0f}"
    )
    if peak > LIMIT:
        raise SystemExit("over the limit")


if __name__ == "__main__":
    main()
