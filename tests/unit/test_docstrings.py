"""What docstrings refer to is there."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _is_module(parts: list[str]) -> bool:
    path = ROOT.joinpath(*parts)
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_a_module_that_is_named_is_there() -> None:
    gone = list[str]()
    for path in sorted((ROOT / "sagas").rglob("*.py")):
        for name in re.findall(r"`~?(sagas(?:\.\w+)+)`", path.read_text()):
            parts = name.split(".")
            modules = [*takewhile(str.islower, parts)]
            # Of a function the last part is its name.
            there = _is_module(modules) or (modules == parts and _is_module(modules[:-1]))
            gone += [] if there else [f"{path.relative_to(ROOT)}: {name}"]
    assert gone == []
