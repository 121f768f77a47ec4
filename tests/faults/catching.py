"""All rules, and what catches them when they are switched off."""

from __future__ import annotations

from tests.faults.explore import replay
from tests.faults.family_rules import FAMILY_RULES
from tests.faults.pause_rules import PAUSE_RULES
from tests.faults.pivot_rules import PIVOT_RULES
from tests.faults.rules import RULES, Life, Orders, Rule
from tests.faults.skipping_rules import SKIPPING_RULES
from tests.faults.world import CrashWorld
from tests.interleavings.explorer import explore
from tests.interleavings.stories import SHORT

EVERY_RULE = RULES | PIVOT_RULES | FAMILY_RULES | PAUSE_RULES | SKIPPING_RULES
CATCHERS = list(dict.fromkeys(catcher for rule in EVERY_RULE.values() for catcher in rule.caught))


def notices(world: CrashWorld, rule: Rule, catcher: Life | Orders) -> bool:
    """Whether a catcher goes wrong without a rule: a scenario at the very disturbance that is named."""
    with rule.off():
        if isinstance(catcher, Orders):
            return bool(explore(SHORT[catcher.story], stop=True).violations)
        *_, last = replay(world, catcher.scenario, catcher.plans)
    return last.error is not None
