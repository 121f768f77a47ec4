"""``docs/contributing/where-it-happens.md`` names functions that are there, four at the most for each question, and
shows changes that still apply."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PAGE = (ROOT / "docs/contributing/where-it-happens.md").read_text()
_ROWS = [
    re.findall(r"`([\w/]+\.py)`: `([\w.]+)`", row.split("|")[2])
    for row in _PAGE.splitlines()
    if row.startswith("| ") and "`" in row
]
assert len(_ROWS) > 10, "the page has lost its questions"
_CHANGES = dict(re.findall(r"^### (.+?)\n.*?^```diff\n(.*?)^```", _PAGE, re.MULTILINE | re.DOTALL))
"""The diff of each typical change, by its heading."""
MOST_FILES = {
    "A new action when a step is exhausted": 5,
    "A new audit action": 4,
    "A new CLI verb on one saga": 4,
    "A new alarm": 2,
    "A new retry policy": 1,
    "A new field of the start request": 4,
}
"""How many files below ``sagas/`` each may take. One that needs more asks for a refactoring first."""


def _functions(path: Path) -> set[str]:
    """The functions of a module by name, those of its classes after the class."""
    found = set[str]()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


def _hunks(diff: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Each file of a diff, with the lines of its hunks."""
    for part in re.split(r"^--- a/", diff, flags=re.MULTILINE)[1:]:
        header, *hunks = re.split(r"^@@\n", part, flags=re.MULTILINE)
        old, new = header.splitlines()
        assert new == f"+++ b/{old}"
        yield old, [hunk.splitlines() for hunk in hunks]


def _stale(text: str, hunks: list[list[str]]) -> list[str]:
    """Those hunks, as text, whose context and removed lines do not follow each other in the text; hunks are in the
    order of the file."""
    stale = list[str]()
    for hunk in hunks:
        before = "".join(f"{line[1:]}\n" for line in hunk if not line.startswith("+"))
        _, match, after = f"\n{text}".partition(f"\n{before}")
        stale += [] if match else [before]
        text = after if match else text
    return stale


@pytest.mark.parametrize("hops", _ROWS, ids=lambda hops: hops[0][1])
def test_the_way_to_an_answer_is_short_and_there(hops: list[tuple[str, str]]) -> None:
    assert 1 < len(hops) <= 4
    assert [hop for hop in hops if hop[1] not in _functions(ROOT / "sagas" / hop[0])] == []


def test_the_typical_changes_are_these() -> None:
    assert _CHANGES.keys() == MOST_FILES.keys()


@pytest.mark.parametrize("change", MOST_FILES)
def test_a_typical_change_takes_few_files(change: str) -> None:
    files = [file for file, _ in _hunks(_CHANGES[change])]
    assert files
    assert [file for file in files if not (file.startswith("sagas/") and (ROOT / file).is_file())] == []
    assert len(files) == len(set(files)) <= MOST_FILES[change]


@pytest.mark.parametrize("change", MOST_FILES)
def test_a_typical_change_still_applies(change: str) -> None:
    for file, hunks in _hunks(_CHANGES[change]):
        assert hunks
        text = (ROOT / file).read_text()
        stale = _stale(text, hunks)
        assert stale == [], f"{file} has changed: make the change again, and write its hunks anew under {change!r}"
