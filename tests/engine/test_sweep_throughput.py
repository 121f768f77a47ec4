"""How long a round takes, how much memory it needs, and what deaths of workers change: nothing in its counts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.engine.sweep_lane import ORPHANS, sweep


def test_deaths_change_no_count() -> None:
    outcome = sweep(40_000, dies_every=7)
    assert outcome.deaths > 5
    assert (outcome.listed, outcome.deleted) == (40_000, 40_000 // ORPHANS)
    assert outcome.acted > outcome.deleted
    assert outcome.acted - outcome.deleted <= outcome.deaths * 1_000, "a page is swept again, but counted once"


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_ten_million_objects_take_three_hours_and_little_memory() -> None:
    command = [sys.executable, "-m", "tests.engine.sweep_lane", "10000000"]
    told: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(told)
    assert (told["listed"], told["deleted"]) == (10_000_000, 2_500_000)
    assert told["deaths"] > 20
    assert told["hours"] < 6
    assert told["megabytes"] < 80
