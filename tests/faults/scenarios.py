"""The lives of sagas that are disturbed at every request."""

from __future__ import annotations

from tests.faults.changing import CHANGING
from tests.faults.lives import LIVES
from tests.faults.purging import PURGING
from tests.faults.scenario import Scenario
from tests.faults.waiting import WAITING

SCENARIOS: dict[str, Scenario] = {**LIVES, **PURGING, **CHANGING, **WAITING}
_FASTER = ("cancel_between", "paused_and_cancelled")


def _chained(scenario: Scenario) -> Scenario:
    """The same life, its steps chained. What counts deliveries counts them past the end of a chain."""
    faster = frozenset({"COMPLETED"}) if scenario.name in _FASTER else frozenset[str]()
    return Scenario(f"{scenario.name}, chained", scenario.play, scenario.ends | faster, chained=True)


CHAINED = {one.name: one for one in map(_chained, tuple(SCENARIOS.values()))}
EVERY = SCENARIOS | CHAINED
