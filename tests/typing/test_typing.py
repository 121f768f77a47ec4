"""The examples beside this file pass `make types`, which reports each wrong line in them."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_make_types_judges_each_line_that_is_wrong() -> None:
    # where pyright finds nothing to ignore, the comment is an error
    pyright = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["tool"]["pyright"]
    assert "tests" in pyright["include"]
    assert not any("typing" in pattern or "tests" in pattern for pattern in pyright["exclude"])
    assert pyright["typeCheckingMode"] == "strict"
    for name in ("right_uses.py", "wrong_uses.py"):
        assert (HERE / name).read_text().startswith("# pyright: strict, reportUnnecessaryTypeIgnoreComment=true\n")
    wrong = (HERE / "wrong_uses.py").read_text()
    assert "# type: ignore" not in wrong
    assert re.findall(r"# pyright: (?!strict|ignore\[\w+)", wrong) == [], "each names the error that it ignores"
    assert "pyright: ignore" not in (HERE / "right_uses.py").read_text().partition("\n")[2]


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
