"""The CDK CLI as ``make`` calls it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.stack import REPOSITORY

# What is installed is taken as it is, whatever its time says: other tests are using it.
_MAKE = ("make", "-s", "-o", f"{sys.prefix}/.runs", f"VENV={sys.prefix}")


def make(target: str, arguments: str, environment: Mapping[str, str], deadline: float = 120) -> str:
    """Make a target with arguments for the CLI; it must succeed. Return what it said.

    Args:
        target: ``deploy``, ``diff`` or ``destroy``.
        arguments: for the CLI.
        environment: the whole of it.
        deadline: seconds.
    """
    return run([*_MAKE, target, f"ARGS={arguments}"], environment, deadline=deadline)


def run(argv: list[str], environment: Mapping[str, str], directory: Path = REPOSITORY, deadline: float = 120) -> str:
    """Run a command, which must succeed; return what it said."""
    own = {name: value for name, value in environment.items() if not name.startswith(("MAKE", "MFLAGS"))}
    own.setdefault("PYTHONPATH", str(REPOSITORY))
    with subprocess.Popen(
        argv, cwd=directory, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
    ) as process:
        try:
            output, _ = process.communicate(timeout=deadline)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # make, and the Node and Python that it runs
            raise
    assert process.returncode == 0, output
    return output


def command() -> list[str]:
    """Return the CLI's command that make runs, as it shows it."""
    shown = _plain("-n", "diff").stdout
    found = re.search(r'PATH="(\S+)/bin:\$PATH" node (\S+/bin/cdk) diff', shown)
    assert found is not None, shown
    return [f"{found[1]}/bin/node", str(REPOSITORY / found[2])]


def install() -> None:
    """Install the CLI, or take the one that is there. Without npm's registry there is none; in CI that is a failure."""
    ended = _plain("cdk-cli")
    reasons = [line for line in ended.stderr.splitlines() if line.startswith("npm error code")]
    if ended.returncode and reasons and not os.environ.get("CI"):
        pytest.skip(f"the CDK CLI cannot be installed: {reasons[0]}")
    assert ended.returncode == 0, ended.stderr


def _plain(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Make something in our own virtual environment, also when make runs the tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        [*_MAKE, *arguments], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
