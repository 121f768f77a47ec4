"""The wheel in virtual environments that uv makes: they have no pip but the one that the package asks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.api import Api
from tests.e2e.stack import REPOSITORY, Stack, free_port
from tests.e2e.test_own_project import Installed, wheel

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.embedded("it is about `sagas local`"),
]

_ = wheel
_UV = Path(sys.executable).with_name("uv")
_REFUSED = ("error: Failed to fetch", "client error (Connect)")


def _uv(*arguments: str, **variables: str) -> None:
    """Run uv. What it needs comes from its cache, or from the registry; without either, the test is skipped locally."""
    if not _UV.exists():
        assert not os.environ.get("CI"), "uv is not installed"
        pytest.skip("uv is not installed")
    done = subprocess.run(
        [_UV, *arguments], env=os.environ | variables, capture_output=True, text=True, timeout=400, check=False
    )
    if any(text in done.stderr for text in _REFUSED) and not os.environ.get("CI"):
        pytest.skip(done.stderr[-500:])
    assert done.returncode == 0, done.stderr


def _runs(bin: Path, directory: Path) -> None:
    """Make a project with the command in ``bin``, synthesize it without a cache, and run a saga of it."""
    directory.mkdir()
    installed = Installed(bin, directory)
    installed.run("sagas", "init", ".", "--name", "first-project")
    try:
        installed.run("sagas", "local", "up", "--port", str(free_port()), "--detach", deadline=300)
        event = (directory / "events" / "trip.json").read_text()
        api = Api(Stack(directory))
        assert api.run("trip", json.loads(event))["status"] == "COMPLETED"
    finally:
        installed.run("sagas", "local", "down")


def test_a_virtual_environment_without_pip(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=60)
    assert not list(home.glob("lib/python3*/site-packages/pip"))
    pins = str(REPOSITORY / ".ci/constraints.txt")
    _uv("pip", "install", "-q", "--python", str(home / "bin/python"), "--constraint", pins, f"{wheel}[local]")
    _runs(home / "bin", tmp_path / "project")


def test_a_tool_of_uv(wheel: Path, tmp_path: Path) -> None:
    places = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    pins = str(REPOSITORY / ".ci/constraints.txt")
    _uv("tool", "install", "-q", "--python", sys.executable, "--constraints", pins, f"{wheel}[local]", **places)
    _runs(tmp_path / "bin", tmp_path / "project")
