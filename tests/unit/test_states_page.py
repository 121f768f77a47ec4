"""The page about states is what the table says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sagas.core.automaton import ROWS
from sagas.core.states import ENDED, SagaStatus, StepStatus

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "_ext"))

from states_page import page, svg


def test_the_page_explains_every_status() -> None:
    for status in (*SagaStatus, *StepStatus):
        assert f"| `{status.value}` |" in page()


def test_the_drawing_has_every_change_of_status_and_no_way_back() -> None:
    drawn = set(re.findall(r'data-from="(\w+)" data-to="(\w+)"', svg()))
    table = {(source.value, target.value) for row in ROWS for source in row.sources for target in row.targets}
    assert {arrow for arrow in table if arrow[0] != arrow[1]} == drawn
    assert {source for source, target in drawn if target == "RUNNING"} == {"PENDING", "WAITING", "DEAD_LETTERED"}
    told = set(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page(), re.MULTILINE))
    assert told == drawn


def test_the_drawing_shows_every_status_and_which_are_final() -> None:
    boxes = re.findall(r'<rect class="(\w+)"[^>]*/>\n<text[^>]*>(\w+)</text>', svg())
    assert {status for _, status in boxes} == {status.value for status in SagaStatus}
    assert {status for kind, status in boxes if kind == "over"} == {status.value for status in ENDED}
    assert "http" not in svg().replace("http://www.w3.org/2000/svg", "")  # nothing foreign


def test_no_arrow_runs_behind_a_status_that_it_passes() -> None:
    boxes = {
        name: (float(x), float(y), float(wide), float(high))
        for x, y, wide, high, name in re.findall(
            r'<rect[^>]* x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"[^>]*/>\n<text[^>]*>(\w+)<', svg()
        )
    }
    assert len(boxes) == len(SagaStatus)
    for source, target, x1, y1, x2, y2 in re.findall(
        r'data-from="(\w+)" data-to="(\w+)" d="M(\d+) (\d+) L(\d+) (\d+)"', svg()
    ):
        for part in range(101):
            at_x = float(x1) + (float(x2) - float(x1)) * part / 100
            at_y = float(y1) + (float(y2) - float(y1)) * part / 100
            for name, (x, y, wide, high) in boxes.items():
                inside = x < at_x < x + wide and y < at_y < y + high
                assert not inside or name in (source, target), f"{source} to {target} runs behind {name}"
