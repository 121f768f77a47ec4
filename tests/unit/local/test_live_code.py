"""Noticing edits, and telling those of code alone from those that the stack depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from sagas.local.deploy.live_code import changes, outline, seen
from sagas.local.errors import LocalStackError

HERE = Path("trip.py")
SAGA = """
import os
class Trip(Saga[Order]):
    @step(timeout=5)
    def book(self, request: Order) -> int:
        return 1
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("return 1", "return 2", True),
        ("timeout=5", "timeout=6", False),
        ("request: Order", "request: Other", False),
        ("return 1", "import json; return 1", False),
        ("import os", "import os  # the variables", True),
    ],
)
def test_only_the_inside_of_a_method_is_code_alone(old: str, new: str, same: bool) -> None:
    assert (outline(SAGA, HERE) == outline(SAGA.replace(old, new), HERE)) is same


def test_what_does_not_compile_is_told_by_place() -> None:
    with pytest.raises(LocalStackError, match=r"trip\.py:6: "):
        outline(SAGA.replace("return 1", "return (1"), HERE)


def test_changes_come_together_and_what_is_built_is_not_watched(tmp_path: Path) -> None:
    for name in ("functions/trip.py", ".venv/x.py", "env/pyvenv.cfg", "env/y.py", "tests/test_trip.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("old")
    before = seen(tmp_path)
    assert set(before) == {HERE.parent / "functions" / "trip.py"}
    (tmp_path / "functions" / "trip.py").write_text("newer")
    (tmp_path / "functions" / "more.py").write_text("new")
    (tmp_path / "tests" / "test_trip.py").write_text("newer")
    assert next(changes(tmp_path, before, lambda: True)) == [Path("functions/more.py"), Path("functions/trip.py")]
    assert list(changes(tmp_path, seen(tmp_path), lambda: False)) == []
