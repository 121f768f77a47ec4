"""The long runs of the harnesses, each in a process of its own: hours. ``make proof`` has them; they print figures."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.faults.scenarios import BY_SUBJECT, FAMILIES
from tests.interleavings.explorer import Story
from tests.interleavings.stories import LONG
from tests.support.ids import node_id

CRASHES = {
    "lingers": ("lingers",),
    "cancels": ("cancels",),
    "purges": ("purges",),
    "answers": ("answers", "outages"),
    "deaths": ("deaths", "successors", "pairs", "behind", "scarce"),
    "families": ("families", "kin-answers", "kin-outages", "kin-lingers"),
}
"""By part of the proof, what is done to the requests of each scenario."""


def _orders(story: Story) -> str:
    """The part of the proof that has a story."""
    return "children" if story.kin else "chained" if story.chained else "releases" if story.other else "plain"


RUNS = {
    "soak": ("tests.soak",),
    "load": ("tests.load",),
    **{
        f"crash {part} {subject}": ("tests.faults", *kinds, f"--of={subject}")
        for part, kinds in CRASHES.items()
        for subject, names in BY_SUBJECT.items()
        if part != "families" or not set(names).isdisjoint(FAMILIES)
    },
    "orders short": ("tests.interleavings", "short", "rules"),
    **{f"orders {_orders(story)} {name}": ("tests.interleavings", name) for name, story in LONG.items()},
}


@pytest.mark.proof
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", RUNS, ids=node_id)
def test_nothing_is_found(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        subprocess.run((sys.executable, "-m", *RUNS[name]), check=True)
