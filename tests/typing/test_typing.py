"""The examples beside this file pass pyright strict, and the wrong ones among them are reported."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.timeout(300)
def test_pyright_accepts_what_is_right_and_reports_what_is_wrong() -> None:
    # in wrong_uses.py an error that is not reported is an unnecessary ignore, which is an error
    names = ("create_zip.py", "right_uses.py", "wrong_uses.py")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *(str(HERE / name) for name in names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE.parent.parent)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["create_zip", "right_uses"])
def test_what_is_right_can_be_imported(name: str) -> None:
    spec = importlib.util.spec_from_file_location(f"typing_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
