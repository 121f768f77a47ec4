"""Each rule of the protocol, switched off, is missed in some order; or another stands in for it in every order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.mutants import EVERY_RULE, MUTANTS
from tests.faults.rules import RULES
from tests.interleavings.explorer import explore
from tests.interleavings.family_stories import MISSED_OF_FAMILIES
from tests.interleavings.stories import MISSED, STANDING_IN


def test_every_rule_is_looked_at() -> None:
    assert set(RULES) == set(MISSED) | set(STANDING_IN)
    assert set(EVERY_RULE) - set(RULES) <= set(MISSED_OF_FAMILIES) | set(MUTANTS)


@pytest.mark.parametrize("name", MISSED)
def test_a_rule_that_is_switched_off_is_missed(name: str) -> None:
    with RULES[name].off():
        found = explore(MISSED[name], stop=True)
    assert found.violations, f"nothing tells that this is off: {RULES[name].text}"


@pytest.mark.parametrize("name", MISSED_OF_FAMILIES)
def test_a_rule_of_families_that_is_switched_off_is_missed(name: str) -> None:
    with EVERY_RULE[name].off():
        found = explore(MISSED_OF_FAMILIES[name], stop=True)
    assert found.violations, f"nothing tells that this is off: {EVERY_RULE[name].text}"


@pytest.mark.parametrize("name", STANDING_IN)
def test_another_rule_stands_in(name: str) -> None:
    """Should this fail one day, the rule has become needed by itself: move it to those that are missed."""
    story = replace(STANDING_IN[name], budget={**STANDING_IN[name].budget, "switch": 1})
    with RULES[name].off():
        found = explore(story)
    assert found.complete
    assert not found.violations, "\n".join(str(violation) for violation in found.violations[:3])
