"""Geometry: inside the frame, no two stretches of a lane over each other, and the same for the same input."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sagas.console.drawing.graph import HEIGHT, graph
from sagas.console.drawing.graph import WIDTH as BOX
from sagas.console.drawing.timeline import NAMES, WIDTH, WORDS, timeline
from sagas.core.text import iso
from tests.unit.client.stub import a_saga, a_step
from tests.unit.console.service import an_entry

_STEPS = ("reserve", "capture", "ship")
_ATTEMPTS = st.lists(
    st.tuples(
        st.sampled_from(_STEPS),
        st.sampled_from(["StepCompleted", "StepFailed", "StepLost", "CompensationFailed", "StepCompensated"]),
        st.floats(0, 10_000),
        st.floats(0, 10_000),
    ),
    max_size=30,
)
_BEGAN = 1_795_000_000.0


def played(attempts: list[tuple[str, str, float, float]]) -> tuple[dict[str, Any], list[dict[str, Any]], float]:
    """A saga whose attempts follow each other: each waits so long, and runs so long."""
    at, entries = _BEGAN, [an_entry(1, "SagaStarted", at=iso(_BEGAN))]
    for seq, (step, action, waits, runs) in enumerate(attempts, 2):
        began, at = at + waits, at + waits + runs
        entries.append(an_entry(seq, action, step, at=iso(at), details={"started_at": iso(began)}))
    steps = [a_step(name) for name in _STEPS]
    return a_saga("RUNNING", steps=steps, created_at=iso(_BEGAN), updated_at=iso(at)), entries, at + 1


@given(_ATTEMPTS)
def test_a_timeline_stays_in_its_frame_and_its_bars_apart(attempts: list[tuple[str, str, float, float]]) -> None:
    saga, entries, now = played(attempts)
    drawn = timeline(saga, entries, now)
    assert drawn == timeline(saga, entries, now)
    assert len(drawn.bars) == len(drawn.rows) == len(attempts)
    for bar in drawn.bars:
        assert bar.x >= NAMES
        assert bar.x + bar.width <= WIDTH + 0.2
        assert bar.y >= 0
        assert bar.y + bar.height <= drawn.height
        assert bar.kind in WORDS
    assert all(NAMES <= x <= WIDTH for x, _ in drawn.ticks)
    assert 1 <= len(drawn.ticks) <= 9


def test_what_waits_between_attempts_and_what_runs_is_drawn() -> None:
    saga, entries, now = played([("capture", "StepFailed", 1, 2), ("capture", "StepCompleted", 5, 3)])
    entries[1]["details"]["next_attempt_at"] = iso(_BEGAN + 8)
    saga["steps"][2] |= {"status": "RUNNING", "attempts": 1, "next_attempt_at": None}
    saga["lease"] = {"claimed_at": iso(_BEGAN + 11), "expires_at": iso(_BEGAN + 30), "heartbeat_at": None}
    kinds = [(row.step, row.what.split(": ")[-1]) for row in timeline(saga, entries, now + 10).rows]
    assert kinds == [("capture", "failed"), ("capture", "waited"), ("capture", "done"), ("ship", "runs")]


@given(st.lists(st.tuples(st.text(min_size=1, max_size=60), st.booleans(), st.integers(0, 9)), min_size=1, max_size=50))
def test_boxes_stay_in_the_frame_and_apart(steps: list[tuple[str, bool, int]]) -> None:
    named = [a_step(f"{index}{name}", undo_attempts=undos) for index, (name, _, undos) in enumerate(steps)]
    undos = {step["name"]: "undo" if has else None for step, (_, has, _) in zip(named, steps, strict=True)}
    drawn = graph(named, undos)
    places = [(box.x, box.y) for box in drawn.boxes]
    assert len(set(places)) == len(places)
    for box in drawn.boxes:
        assert box.x >= 0
        assert box.x + BOX <= drawn.width
        assert box.y + HEIGHT <= drawn.height
        assert len(box.name) <= 22


def test_the_undo_of_a_skipped_step_is_not_needed() -> None:
    drawn = graph([a_step("insure", "SKIPPED", attempts=0)], {"insure": "cancel"})
    assert [(box.status, box.label) for box in drawn.boxes] == [
        ("SKIPPED", "skipped"),
        ("UNDO_NOT_NEEDED", "not needed"),
    ]


def test_a_pivot_is_named() -> None:
    drawn = graph([a_step("reserve"), a_step("capture", "RUNNING", pivot=True, attempts=2)], {})
    assert [box.label for box in drawn.boxes] == ["completed", "pivot, running x2"]
