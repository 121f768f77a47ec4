"""``python3 infra``, which ``cdk.json`` calls, runs the app with a Python that has the CDK.

This file needs no packages. If the Python that runs it has no CDK, the Python of ``.venv`` runs the app.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

_OF_VENV = ("bin/python", "Scripts/python.exe")


def main(project: Path) -> int | str:
    """Run the app of a project. Return the exit status, or a text that says what to do first."""
    venv = next((python for name in _OF_VENV if (python := project / ".venv" / name).exists()), None)
    python = sys.executable if find_spec("aws_cdk") else venv
    if python is None:
        return "The CDK is not installed. Run: python3 -m venv .venv && .venv/bin/pip install -e '.[cdk]'"
    return subprocess.run([python, "-m", "infra.app"], cwd=project, check=False).returncode  # noqa: S603 - own argv


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[1]))
