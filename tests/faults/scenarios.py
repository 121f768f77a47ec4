"""The lives of sagas that are disturbed at every request."""

from __future__ import annotations

from dataclasses import replace

from tests.faults.changing import CHANGING
from tests.faults.lives import LIVES
from tests.faults.parents import PARENTS
from tests.faults.pivots import PIVOT_FAMILIES, PIVOTS
from tests.faults.purging import PURGING
from tests.faults.scenario import Scenario
from tests.faults.skipping import SKIPPING
from tests.faults.waiting import WAITING

_SUBJECTS = {
    "lives": LIVES,
    "purging and changing": PURGING | CHANGING,
    "waiting": WAITING,
    "pivots": PIVOTS,
    "skipping": SKIPPING,
    "parents": PARENTS,
    "pivots of families": PIVOT_FAMILIES,
}
SCENARIOS = {name: scenario for scenarios in _SUBJECTS.values() for name, scenario in scenarios.items()}
_FASTER = ("cancel_between", "paused_and_cancelled", "pivot_cancelled_before")


def _chained(scenario: Scenario) -> Scenario:
    """The same life, its steps chained. What counts deliveries counts them past the end of a chain."""
    faster = frozenset({"COMPLETED"}) if scenario.name in _FASTER else frozenset[str]()
    return replace(scenario, name=f"{scenario.name}, chained", ends=scenario.ends | faster, chained=True)


_OF_PARENTS = (
    "two_children",
    "a_child_fails",
    "children_undone_with_their_parent",
    "cancelled_while_the_children_run",
    "a_child_that_waits_for_an_operator",
)
"""What parents and children do apart from each other is chained as elsewhere: some of their lives show it."""
CHAINED = {
    one.name: one
    for one in map(_chained, SCENARIOS.values())
    if not one.families or one.name.removesuffix(", chained") in _OF_PARENTS
}
EVERY = SCENARIOS | CHAINED
BY_SUBJECT = {
    **{subject: list(scenarios) for subject, scenarios in _SUBJECTS.items()},
    "chained": list(CHAINED),
}
FAMILIES = tuple(name for name, one in EVERY.items() if one.families)
"""Lives of parents and children, which make more requests than others."""
SHORT = ("happy", "rejected", "happy, chained", "rejected, chained")
"""So short that every request dies and loses its answer in ``make check``."""
