"""Each rule of the protocol that is switched off is missed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.catching import EVERY_RULE, notices
from tests.faults.world import CrashWorld, world
from tests.interleavings.stories import STANDING_IN


@pytest.fixture(scope="module")
def made() -> Iterator[CrashWorld]:
    with world() as one:
        yield one


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY_RULE)
def test_what_always_runs_notices_that_a_rule_is_off(made: CrashWorld, name: str) -> None:
    """But for the rules that another stands in for."""
    rule = EVERY_RULE[name]
    assert bool(rule.caught) != (name in STANDING_IN), "a rule names what catches it"
    silent = [str(catcher) for catcher in rule.caught if not notices(made, rule, catcher)]
    assert silent == [], f"goes well without this rule: {rule.text}"
