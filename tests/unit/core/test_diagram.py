"""The page about states is what the table says."""

from __future__ import annotations

from pathlib import Path

from sagas.core.automaton import ROWS
from sagas.core.diagram import mermaid, page
from sagas.core.states import OVER, SagaStatus, StepStatus

STATES = Path(__file__).parents[3] / "docs" / "concepts" / "states.md"


def test_the_page_is_up_to_date() -> None:
    assert STATES.read_text() == page(), "python -m sagas.core.diagram > docs/concepts/states.md"


def test_the_page_explains_every_status() -> None:
    for status in (*SagaStatus, *StepStatus):
        assert f"| `{status.value}` |" in page()


def test_the_diagram_has_every_change_of_status_and_no_way_back() -> None:
    drawn = {tuple(line.strip().split(":")[0].split(" --> ")) for line in mermaid().splitlines() if "-->" in line}
    table = {(source.value, target.value) for row in ROWS for source in row.sources for target in row.targets}
    assert {arrow for arrow in table if arrow[0] != arrow[1]} == {arrow for arrow in drawn if "[*]" not in arrow}
    assert {source for source, target in drawn if target == "[*]"} == {status.value for status in OVER}
    assert {source for source, target in drawn if target == "RUNNING"} == {"PENDING", "WAITING", "DEAD_LETTERED"}
