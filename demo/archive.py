"""First act: files of this repository become an archive, and the archive is compared with the files."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

from demo.stack import Api, DemoFailed, LocalStack

_PREFIX = "sources/demo/"


def _files(root: Path) -> list[Path]:
    chosen = [root / "README.md", root / "LICENSE", root / "pyproject.toml"]
    for folder in ("sagas", "functions", "infra"):
        chosen += sorted((root / folder).rglob("*.py"))
    return chosen


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def archive_files(stack: LocalStack, api: Api, root: Path) -> tuple[dict[str, Any], str]:
    """Upload files, archive them with create-zip, download the archive and compare all checksums.

    Args:
        stack: the local stack.
        api: its API.
        root: the repository.

    Returns:
        The saga, and a line about the comparison.

    Raises:
        DemoFailed: the archive does not contain exactly these files.
    """
    s3, bucket = stack.client("s3"), stack.outputs["ZipsBucket"]
    contents = {path.relative_to(root).as_posix(): path.read_bytes() for path in _files(root)}
    for name, data in contents.items():
        s3.put_object(Bucket=bucket, Key=_PREFIX + name, Body=data)
    saga = api.run("create-zip", {"bucket": bucket, "keys": [_PREFIX + name for name in contents]})
    if saga["status"] != "COMPLETED":
        raise DemoFailed(f"create-zip ended {saga['status']}: {saga['error']}")
    upload = next(step["result"] for step in saga["steps"] if step["name"] == "upload")
    archive = s3.get_object(Bucket=upload["bucket"], Key=upload["key"])["Body"].read()
    _compare(archive, contents)
    size = sum(map(len, contents.values()))
    return saga, f"{len(contents)} files, {size:,} bytes, in an archive of {len(archive):,} bytes: all checksums equal"


def _compare(archive: bytes, contents: dict[str, bytes]) -> None:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        found = {name: _digest(opened.read(name)) for name in opened.namelist()}
    sources = {_PREFIX + name: _digest(data) for name, data in contents.items()}
    if found != sources:
        wrong = sorted(name for name in sources.keys() | found.keys() if sources.get(name) != found.get(name))
        raise DemoFailed(f"the archive differs from its sources in {wrong[:3]}")
