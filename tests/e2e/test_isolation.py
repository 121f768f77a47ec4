"""``isolation="saga"`` on the emulator: all steps and undos of a saga in one function, behind one queue."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import project_in
from tests.e2e.stack import Running, launch, poll

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """A local stack of one saga."""
    running = launch(project_in(tmp_path_factory.mktemp("shared")), "python -m tests.e2e.isolation.app")
    yield running
    running.stop()


def run(stack: Running, request: dict[str, Any], name: str = "relay") -> dict[str, Any]:
    """Start a saga and return it as it is in the end."""
    url = f"{stack.description['api_url']}/sagas/{name}"
    started = call(urllib.request.Request(url, json.dumps(request).encode(), {"Content-Type": "application/json"}))

    def over() -> dict[str, Any] | None:
        saga = call(f"{url}/{started['saga_id']}")
        return saga if saga["status"] in ("COMPLETED", "COMPENSATED") else None

    return poll("the saga's end", over)


def call(request: urllib.request.Request | str) -> dict[str, Any]:
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_one_function_runs_all_steps(shared: Running) -> None:
    saga = run(shared, {})
    assert saga["status"] == "COMPLETED"
    assert len({step["result"] for step in saga["steps"]}) == 1


def test_one_function_runs_all_undos(shared: Running) -> None:
    saga = run(shared, {"drop": True})
    assert [step["status"] for step in saga["steps"]] == ["COMPENSATED", "COMPENSATED", "FAILED"]


def test_every_step_has_the_one_queue_and_function(shared: Running) -> None:
    for places in (shared.description["queues"]["relay"], shared.description["functions"]["relay"]):
        assert len(places) > 1
        assert len(set(places.values())) == 1


def test_a_worker_killed_in_the_middle_of_a_chain_costs_the_step_at_hand_an_attempt(
    shared: Running, tmp_path: Path
) -> None:
    """The steps before are not run again, and its queue notices: nobody asks the supervisor."""
    notebook, began = tmp_path / "notebook", time.monotonic()
    saga = run(shared, {"path": str(notebook)}, "mortal")
    assert saga["status"] == "COMPLETED"
    assert notebook.read_text().splitlines() == ["first 1", "second 1", "second 2", "third 1"]
    assert [step["attempts"] for step in saga["steps"]] == [1, 2, 1]
    pids = [step["result"] for step in saga["steps"]]
    assert pids[1] == pids[2] != pids[0], "one process ran what another had left"
    # The lease: the step's two seconds and seven to record it; then five more.
    assert time.monotonic() - began < 2 + 7 + 5 + 20
