"""``isolation="saga"`` on the emulator: all steps and undos of a saga in one function, behind one queue."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.api import Api
from tests.e2e.stack import Running

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_one_function_runs_all_steps(shop: Running) -> None:
    saga = Api(shop).run("relay", {})
    assert saga["status"] == "COMPLETED"
    assert len({step["result"] for step in saga["steps"]}) == 1


def test_one_function_runs_all_undos(shop: Running) -> None:
    saga = Api(shop).run("relay", {"drop": True})
    assert [step["status"] for step in saga["steps"]] == ["COMPENSATED", "COMPENSATED", "FAILED"]


def test_every_step_has_the_one_queue_and_function(shop: Running) -> None:
    for places in (shop.description["queues"]["relay"], shop.description["functions"]["relay"]):
        assert len(places) > 1
        assert len(set(places.values())) == 1


def test_a_worker_killed_in_the_middle_of_a_chain_costs_the_step_at_hand_an_attempt(
    shop: Running, tmp_path: Path
) -> None:
    """The steps before are not run again, and its queue notices: nobody asks the supervisor."""
    notebook, began = tmp_path / "notebook", time.monotonic()
    saga = Api(shop).run("mortal", {"path": str(notebook)})
    assert saga["status"] == "COMPLETED"
    assert notebook.read_text().splitlines() == ["first 1", "second 1", "second 2", "third 1"]
    assert [step["attempts"] for step in saga["steps"]] == [1, 2, 1]
    pids = [step["result"] for step in saga["steps"]]
    assert pids[1] == pids[2] != pids[0], "one process ran what another had left"
    # The lease: the step's two seconds and seven to record it; then five more.
    assert time.monotonic() - began < 2 + 7 + 5 + 20
