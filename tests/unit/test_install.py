"""How `make` installs, and what it shows meanwhile: where pip does it, a line for each file, and its errors."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import distributions, requires
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

INSTALL = Path(__file__).resolve().parents[2] / ".ci" / "install.py"
CONSTRAINTS = INSTALL.with_name("constraints.txt")


def module() -> Any:
    spec = spec_from_file_location("install", INSTALL)
    assert spec is not None
    assert spec.loader is not None
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_each_file_that_is_fetched_is_shown() -> None:
    said = """Collecting aws-cdk-lib
  Downloading aws_cdk_lib-2.275.0-py3-none-any.whl.metadata (24 kB)
  Downloading https://example.org/simple/aws_cdk_lib-2.275.0-py3-none-any.whl (47.1 MB)
Collecting rich
  Using cached rich-15.0.0-py3-none-any.whl (310 kB)
Installing collected packages: aws-cdk-lib, rich
Successfully installed aws-cdk-lib-2.275.0 rich-15.0.0
"""
    assert list(module().progress(said.splitlines(keepends=True))) == [
        "  1  aws_cdk_lib-2.275.0-py3-none-any.whl (47.1 MB)",
        "  2  rich-15.0.0-py3-none-any.whl (310 kB)",
        "unpacking 2 packages ...",
        "2 packages installed",
    ]


def test_what_pip_is_told_is_read() -> None:
    said = ["global.index-url='https://packages.example.org/simple'", ":env:.find-links='here\\nthere'", "", "nonsense"]
    assert module().configured(said) == {
        "index-url": "https://packages.example.org/simple",
        "find-links": "here\nthere",
    }


def test_what_fails_is_told_and_ends_with_pips_code(tmp_path: Path) -> None:
    # An index of one's own is pip's affair.
    command = [sys.executable, INSTALL, "--no-index", "--target", tmp_path, "no-such-package-of-ours"]
    own = {**os.environ, "PIP_INDEX_URL": "https://packages.example.org/simple"}
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "No matching distribution found for no-such-package-of-ours" in done.stderr
    assert "uv" not in done.stderr


@pytest.mark.parametrize("given", [{"PIP_INDEX_URL": "https://packages.example.org/simple"}, {"PIP_NO_INDEX": "1"}])
def test_uv_is_not_asked_for_what_it_would_not_know(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert not module().by_uv(["--dry-run", "--target", str(tmp_path), "six"])


def test_what_is_pinned_installs_with_any_python_3_11() -> None:
    # A version that asks for a later Python than this machine's is found here, not by who has Debian's 3.11.2.
    lines = CONSTRAINTS.read_text().splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
    installed = [one for one in distributions() if canonicalize_name(one.name) in pinned]
    asked = {f"{one.name} {one.version}": one.metadata.json.get("requires_python", "") for one in installed}
    assert asked
    assert [what for what, python in asked.items() if "3.11.0" not in SpecifierSet(str(python))] == []


def test_the_local_extra_pins_what_the_emulator_pins() -> None:
    """Otherwise pip downloads version after version of boto3 until one fits. The pin comes before other requirements,
    because pip downloads the newest version that the first requirement allows."""
    emulator = [Requirement(line) for line in requires("ministack") or ()]
    botocore = next(requirement for requirement in emulator if requirement.name == "botocore")
    project = tomllib.loads((INSTALL.parents[1] / "pyproject.toml").read_text())["project"]
    ours = [Requirement(line) for line in project["dependencies"]]
    first = next(requirement for requirement in ours if requirement.name == "boto3")
    assert (first.specifier, str(first.marker)) == (botocore.specifier, 'extra == "local"')
