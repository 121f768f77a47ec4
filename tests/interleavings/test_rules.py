"""Rules of the protocol that another stands in for, in every order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.catching import EVERY_RULE
from tests.interleavings.explorer import explore
from tests.interleavings.stories import STANDING_IN


@pytest.mark.slow
@pytest.mark.parametrize("name", STANDING_IN)
def test_another_rule_stands_in(name: str) -> None:
    """Should this fail one day, the rule has become needed by itself: let it name what catches it."""
    story = replace(STANDING_IN[name], budget={**STANDING_IN[name].budget, "switch": 1})
    with EVERY_RULE[name].off():
        found = explore(story)
    assert found.complete
    assert not found.violations, found.wrong
