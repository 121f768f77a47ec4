"""What ``cdk synth`` wrote: stacks in the order they can be deployed, with their templates and assets."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sagas.local.errors import LocalStackError
from sagas.local.nested import flattened

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip can hold: equal files make equal archives."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file or directory that the template expects in a bucket."""

    path: Path
    zipped: bool
    bucket: str
    key: str

    def content(self) -> bytes:
        """Return what is uploaded: the file, or the directory as a zip archive."""
        return _zip(self.path) if self.zipped else self.path.read_bytes()


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack to be deployed."""

    name: str
    template: dict[str, Any]
    assets: tuple[Asset, ...]


def read_assembly(directory: Path, account: str, region: str) -> list[Stack]:
    """Read the stacks, those that others depend on first.

    Args:
        directory: the app's output.
        account: fills placeholders in bucket names.
        region: likewise.

    Raises:
        LocalStackError: there is no stack.
    """
    artifacts: dict[str, Any] = json.loads((directory / "manifest.json").read_text())["artifacts"]
    places = {"AWS::AccountId": account, "AWS::Region": region, "AWS::Partition": "aws"}
    stacks = [
        _stack(directory, name, artifact["properties"], places)
        for name, artifact in _in_order(artifacts)
        if artifact["type"] == "aws:cloudformation:stack"
    ]
    if not stacks:
        raise LocalStackError("the app has no stack")
    return stacks


def _in_order(artifacts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    done: set[str] = set()

    def visit(name: str) -> Iterator[tuple[str, Any]]:
        if name in done or name not in artifacts:
            return
        done.add(name)
        for needed in artifacts[name].get("dependencies", ()):
            yield from visit(needed)
        yield name, artifacts[name]

    for name in artifacts:
        yield from visit(name)


def _stack(directory: Path, artifact: str, properties: Any, places: dict[str, str]) -> Stack:
    template: dict[str, Any] = json.loads((directory / properties["templateFile"]).read_text())
    assets = tuple(_assets(directory, directory / f"{artifact}.assets.json", places))
    flat = flattened(template, lambda url: _nested_template(url, assets))
    return Stack(properties.get("stackName", artifact), flat, assets)


def _nested_template(url: Any, assets: Iterable[Asset]) -> dict[str, Any]:
    named = str(url)
    for asset in assets:
        if asset.key in named:
            return json.loads(asset.path.read_text())
    raise LocalStackError(f"a nested stack's template is none of the app's files: {named}")


def _assets(directory: Path, listing: Path, places: dict[str, str]) -> Iterator[Asset]:
    files: dict[str, Any] = json.loads(listing.read_text())["files"] if listing.is_file() else {}
    for file in files.values():
        source = file["source"]
        for destination in file["destinations"].values():
            bucket = _fill(destination["bucketName"], places)
            yield Asset(directory / source["path"], source["packaging"] == "zip", bucket, destination["objectKey"])


def _fill(text: str, places: dict[str, str]) -> str:
    for name, value in places.items():
        text = text.replace(f"${{{name}}}", value)
    return text


def _zip(directory: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(path.relative_to(directory).as_posix(), _EPOCH)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
