"""What the README shows is true: its first saga is a saga, its test passes; and the tests that pages name exist."""

from __future__ import annotations

import re
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
WHAT_HAPPENS = (ROOT / "docs" / "concepts" / "what-happens-when.md").read_text()
STAND_INS = """
seats: dict[str, int] = {}
def reserve_seats(number: int, key: str) -> str:
    seats[key] = number
    return key
def cancel_seats(reference: str) -> None:
    seats.pop(reference, None)
def take_money(order_id: str, key: str) -> str:
    return "paid"
"""


def test_the_first_saga_and_its_test(monkeypatch: pytest.MonkeyPatch) -> None:
    saga, test = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[:2]
    module = types.ModuleType("readme")
    monkeypatch.setitem(__import__("sys").modules, "readme", module)
    exec(compile(STAND_INS + saga + test, "README.md", "exec"), module.__dict__)  # noqa: S102 - our own page
    assert module.__dict__["outcome"].error["step"] == "charge"


def test_the_tests_that_are_named_exist() -> None:
    for path, name in re.findall(r"`((?:tests/)?[\w/]+\.py)(?:::(\w+))?`", WHAT_HAPPENS):
        found = [file for file in ROOT.glob("tests/**/*.py") if file.as_posix().endswith(path)]
        assert found, path
        assert not name or any(f"def {name}(" in file.read_text() for file in found), f"{path}::{name}"


def test_the_pages_it_links_exist() -> None:
    pages = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert pages
    assert [page for page in pages if not (ROOT / page).is_file()] == []


def test_it_is_a_page() -> None:
    assert len(README.splitlines()) <= 90
