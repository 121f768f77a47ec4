"""Packages for pip, without an index."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Self

import pytest


class Wheels:
    """Packages in a directory. Each consists of one empty module."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, name: str, version: str, more: str = "") -> str:
        """Write the wheel of a package. Return its hash."""
        plain = name.replace("-", "_")
        path = self.directory / f"{plain}-{version}-py3-none-any.whl"
        described = f"{plain}-{version}.dist-info"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(f"{plain}/__init__.py", "")
            wheel.writestr(
                f"{described}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}\n"
            )
            wheel.writestr(f"{described}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{described}/RECORD", "")
        return hashlib.sha256(path.read_bytes()).hexdigest()

    @classmethod
    def of_the_library(cls, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Self:
        """Have pip find the packages of a function's layer here, and nothing else."""
        from sagas.cdk.compute.layer import pinned_requirements

        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
        wheels = cls(directory)
        for pin in pinned_requirements():
            wheels.write(*pin.split("=="))
        return wheels
