"""The commit protocol's page, the code and the harness that switches its rules off mean the same rule by a number."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_CITED = re.compile(r"\brules? (\d+(?:(?:, | and )\d+)*)", re.IGNORECASE)


def _numbers(text: str) -> set[int]:
    return {int(number) for cited in _CITED.findall(text) for number in re.findall(r"\d+", cited)}


def _of_the_page() -> list[int]:
    page = (ROOT / "docs/contributing/protocol.md").read_text()
    return [int(number) for number in re.findall(r"^(\d+)\. \*\*", page, re.MULTILINE)]


def test_the_rules_are_numbered_without_a_gap() -> None:
    assert _of_the_page() == [*range(1, len(_of_the_page()) + 1)]


def test_each_rule_is_cited_where_it_is_kept_and_no_other() -> None:
    cited = {number for path in (ROOT / "sagas").rglob("*.py") for number in _numbers(path.read_text())}
    assert cited == {*_of_the_page()}


def test_each_rule_is_switched_off_by_its_number() -> None:
    text = "".join(
        (ROOT / "tests/faults" / name).read_text() for name in ("rules.py", "pivot_rules.py", "skipping_rules.py")
    )
    cited = re.findall(r'@_rule\(\s*"([\d, ]+):', text)
    switched = {int(number) for numbers in cited for number in numbers.split(", ")}
    assert switched == {*_of_the_page()}
