"""Tools that read OpenAPI documents and generate clients, from PyPI and npm's registry, in the versions named here."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from sagas.node import use_bundled_node
from tests.e2e.stack import REPOSITORY

_PYTHON = ("openapi-python-client==0.29.1", "openapi-spec-validator==0.9.0", "openapi-generator-cli==7.26.0")
_NODE = (
    "@redocly/cli@2.77.0",
    "@stoplight/spectral-cli@6.16.3",
    "openapi-typescript@7.13.0",
    "typescript@5.9.3",
)
_HOME = REPOSITORY / ".sagas/cache" / f"client-tools-{hashlib.sha256(repr((_PYTHON, _NODE)).encode()).hexdigest()[:12]}"


class Tools:
    """The installed tools."""

    def __init__(self) -> None:
        node: dict[str, str] = {}
        use_bundled_node(node)
        self._node = Path(node["JSII_NODE"])
        self.python = _HOME / "venv/bin/python"

    def install(self) -> None:
        """Install the tools, or take those that are there. Without a registry there are none; in CI that is a
        failure."""
        ready = _HOME / ".installed"
        if ready.exists():
            return
        npm = self._node.parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
        quiet = ("--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error")
        for command in (
            [sys.executable, "-m", "venv", str(_HOME / "venv")],
            [str(self.python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *_PYTHON],
            [str(self._node), str(npm), "install", "--prefix", str(_HOME), *quiet, *_NODE],
        ):
            done = self._run(command, _HOME.parent, {})
            if done.returncode and not os.environ.get("CI"):
                pytest.skip(f"the tools cannot be installed: {done.stdout[-500:]}")
            assert done.returncode == 0, done.stdout
        ready.touch()

    def run(self, name: str, *arguments: str, directory: Path, **variables: str) -> str:
        """Run a tool, which must succeed; return what it said.

        Args:
            name: of the command, of either registry.
            arguments: its own.
            directory: where it runs.
            variables: added to its environment.
        """
        script = _HOME / "node_modules/.bin" / name
        command = [str(self._node), str(script)] if script.exists() else [str(self.python.with_name(name))]
        done = self._run([*command, *arguments], directory, variables)
        assert done.returncode == 0, done.stdout[-10_000:]
        return done.stdout

    def _run(
        self, command: list[str], directory: Path, variables: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        directory.mkdir(parents=True, exist_ok=True)
        # Node for what npm runs, and ruff for the Python client, from our own virtual environment.
        path = f"{self._node.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.run(
            command,
            cwd=directory,
            env=os.environ | {"PATH": path, "NO_COLOR": "1", "REDOCLY_TELEMETRY": "off"} | dict(variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
