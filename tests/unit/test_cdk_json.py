"""What `cdk.json` calls: it needs no package, and takes a Python that has the CDK."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
APP = "import sys\nprint('app', *sys.argv[1:])\nsys.exit(3)\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the command's file, and an app that prints a word and ends with 3."""
    (tmp_path / "infra").mkdir()
    shutil.copy(REPOSITORY / "infra" / "__main__.py", tmp_path / "infra")
    (tmp_path / "infra" / "__init__.py").touch()
    (tmp_path / "infra" / "app.py").write_text(APP)
    return tmp_path


def run(project: Path, **variables: str) -> tuple[int, str]:
    """Run the command as the CDK does, with a Python that has no packages."""
    command = json.loads((REPOSITORY / "cdk.json").read_text())["app"].split()
    assert command[0] == "python3"
    path = {"PATH": os.environ["PATH"], **variables}
    ended = subprocess.run(
        [sys.executable, "-S", *command[1:]], cwd=project, env=path, capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("target", ["deploy", "app"])
def test_make_installs_nothing_that_only_tests_need(tmp_path: Path, target: str) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    shown = subprocess.run(
        ["make", "-n", target, f"VENV={tmp_path}"], cwd=REPOSITORY, env=own, capture_output=True, text=True, check=True
    )
    assert "'.[local]'" in shown.stdout
    assert ".[dev]" not in shown.stdout


def test_without_the_cdk_one_line_says_what_to_install(project: Path) -> None:
    advice = "The CDK is not installed. Run: python3 -m venv .venv && .venv/bin/pip install -e '.[cdk]'\n"
    assert run(project) == (1, advice)


def test_the_python_that_runs_it_if_it_has_the_cdk(project: Path) -> None:
    (project / "aws_cdk").mkdir()
    assert run(project, PYTHONPATH=str(project)) == (3, "app\n")


def test_else_the_one_of_the_virtual_environment(project: Path) -> None:
    python = project / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "of .venv: $*"\n')
    python.chmod(0o755)
    assert run(project) == (0, "of .venv: -m infra.app\n")
