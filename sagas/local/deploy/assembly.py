"""Reads the output of ``cdk synth``: stacks in the order of deployment, with their templates and assets."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from sagas.local.emulator.nested import flattened
from sagas.local.errors import LocalStackError

_MOST_BYTES = 1_000_000
"""CloudFormation's limit for the size of a template, in bytes."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file can store. With a fixed time, equal files make equal archives."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file or directory that the template expects in a bucket."""

    path: Path
    zipped: bool
    bucket: str
    key: str

    def content(self) -> bytes:
        """Return the bytes to upload: those of the file, or of a zip archive of the directory."""
        if not self.zipped:
            return self.path.read_bytes()
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path in sorted(self.path.rglob("*")):
                if path.is_file():
                    entry = zipfile.ZipInfo(path.relative_to(self.path).as_posix(), _EPOCH)
                    entry.external_attr = 0o644 << 16
                    archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
        return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack to deploy."""

    name: str
    template: dict[str, Any]
    assets: tuple[Asset, ...]


def read_assembly(directory: Path, account: str, region: str) -> list[Stack]:
    """Read the stacks of a cloud assembly. A stack comes after the stacks that it depends on."""
    artifacts: dict[str, Any] = json.loads((directory / "manifest.json").read_text())["artifacts"]
    dependencies = {name: artifact.get("dependencies", ()) for name, artifact in artifacts.items()}
    stacks = [
        _read_stack(directory, name, artifacts[name]["properties"], account, region)
        for name in TopologicalSorter(dependencies).static_order()
        if name in artifacts and artifacts[name]["type"] == "aws:cloudformation:stack"
    ]
    if not stacks:
        raise LocalStackError("the app has no stacks")
    return stacks


def _read_stack(directory: Path, artifact: str, properties: Any, account: str, region: str) -> Stack:
    listing = directory / f"{artifact}.assets.json"
    text = listing.read_text() if listing.is_file() else '{"files": {}}'
    for placeholder, value in (("AccountId", account), ("Region", region), ("Partition", "aws")):
        text = text.replace(f"${{AWS::{placeholder}}}", value)
    assets = tuple(
        Asset(
            directory / file["source"]["path"],
            file["source"]["packaging"] == "zip",
            destination["bucketName"],
            destination["objectKey"],
        )
        for file in json.loads(text)["files"].values()
        for destination in file["destinations"].values()
    )

    def nested(url: Any) -> dict[str, Any]:
        address = str(url)
        for asset in assets:
            if asset.key in address:
                return _read_template(asset.path)
        raise LocalStackError(f"the template of a nested stack is not among the app's files: {address}")

    template = _read_template(directory / properties["templateFile"])
    return Stack(properties.get("stackName", artifact), flattened(template, nested), assets)


def _read_template(path: Path) -> dict[str, Any]:
    text = path.read_bytes()
    if len(text) > _MOST_BYTES:
        raise LocalStackError(f"{path.name} is {len(text):,} bytes; CloudFormation's limit is {_MOST_BYTES:,}")
    return json.loads(text)
