"""Each rule of the protocol that is switched off is missed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sagas.testing.faults import Fault
from tests.faults.catching import EVERY_RULE, notices
from tests.faults.explore import explore
from tests.faults.rules import Life, Orders, Rule
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
    silent = [catcher for catcher in rule.caught if not notices(made, rule, catcher)]
    assert not silent, "\n".join(_silence(made, rule, catcher) for catcher in silent)


def _silence(made: CrashWorld, rule: Rule, catcher: Life | Orders) -> str:
    """What to say of a catcher, with the first fault that does harm now: after a change, requests have other
    numbers."""
    said = f"{catcher}: goes well without this rule: {rule.text}"
    if isinstance(catcher, Orders):
        return said
    with rule.off():
        harm = explore(made, [catcher.scenario], faults=(*Fault,), bounds=range(1, 9), stop=True).violations
    return f"{said}; harm is done at {harm[0].splitlines()[0] if harm else 'no request'}"
