"""The long runs of the harnesses, each in a process of its own: hours. ``make proof`` has them; they print figures."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.interleavings.stories import LONG
from tests.support.ids import node_id

CRASHES = (
    *("lingers", "cancels", "purges", "answers outages", "deaths successors rules", "pairs", "behind scarce", "moto"),
    "families kin-answers kin-outages kin-lingers",
)
RUNS = {
    "soak": ("tests.soak",),
    "load": ("tests.load",),
    **{f"crash points: {kinds}": ("tests.faults", *kinds.split()) for kinds in CRASHES},
    "orders, all short stories, and rules that another stands in for": ("tests.interleavings", "short", "rules"),
    **{f"orders, {name}": ("tests.interleavings", name) for name in LONG},
}


@pytest.mark.proof
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", RUNS, ids=node_id)
def test_nothing_is_found(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        subprocess.run((sys.executable, "-m", *RUNS[name]), check=True)
