"""Each rule of the protocol that no two scenarios of crash points catch, switched off, is missed in some order; or
another stands in for it in every order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.cover import TWICE
from tests.faults.gate import COMMAND, EVERY_RULE, cover
from tests.faults.rules import RULES
from tests.interleavings.explorer import explore
from tests.interleavings.gate import caught_by
from tests.interleavings.stories import STANDING_IN

pytestmark = pytest.mark.slow

NEEDED = [
    (rule, story) for rule, caught in cover().rules.items() if len(caught.scenarios) < TWICE for story in caught.stories
]
"""``make proof`` takes the stories of all rules."""


@pytest.mark.parametrize(("rule", "story"), NEEDED)
def test_a_rule_that_is_switched_off_is_missed(rule: str, story: str) -> None:
    assert caught_by(rule, story), f"without it {story!r} goes well: {EVERY_RULE[rule].text}; run {COMMAND}"


@pytest.mark.slow
@pytest.mark.parametrize("name", STANDING_IN)
def test_another_rule_stands_in(name: str) -> None:
    """Should this fail one day, the rule has become needed by itself: move it to those that are missed."""
    story = replace(STANDING_IN[name], budget={**STANDING_IN[name].budget, "switch": 1})
    with RULES[name].off():
        found = explore(story)
    assert found.complete
    assert not found.violations, "\n".join(str(violation) for violation in found.violations[:3])
