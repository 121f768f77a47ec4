"""``docs/contributing/where-it-happens.md`` names functions that are there, four at the most for each question."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_ROWS = [
    re.findall(r"`([\w/]+\.py)`: `([\w.]+)`", row.split("|")[2])
    for row in (ROOT / "docs/contributing/where-it-happens.md").read_text().splitlines()
    if row.startswith("| ") and "`" in row
]


def _functions(path: Path) -> set[str]:
    """The functions of a module by name, those of its classes after the class."""
    found = set[str]()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


def test_there_are_questions() -> None:
    assert len(_ROWS) > 10


@pytest.mark.parametrize("hops", _ROWS, ids=lambda hops: hops[0][1])
def test_the_way_to_an_answer_is_short_and_there(hops: list[tuple[str, str]]) -> None:
    assert 1 < len(hops) <= 4
    assert [hop for hop in hops if hop[1] not in _functions(ROOT / "sagas" / hop[0])] == []
