"""What the gate runs of the scenarios and stories: the cover in ``cover.json``, which a command computes.

Two scenarios of it catch each rule of the protocol that is switched off, or two stories where only orders of requests
can tell; the scenarios enter each row of the automaton; each feature has its happy and its worst run. ``make proof``
runs all scenarios and stories.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sagas.testing.faults import DEATHS, DELAYS, LOST_ANSWERS, Fault, Plan, Point, Trial
from tests.faults.explore import Figures, explore, replay
from tests.faults.family_rules import FAMILY_RULES
from tests.faults.pause_rules import PAUSE_RULES
from tests.faults.pivot_rules import PIVOT_RULES
from tests.faults.rules import RULES
from tests.faults.scenarios import EVERY, FAMILIES
from tests.faults.world import CrashWorld

COMMAND = "python -m tests.faults cover"
FILE = Path(__file__).with_name("cover.json")
EVERY_RULE = RULES | PIVOT_RULES | FAMILY_RULES | PAUSE_RULES
SHORT = ("happy", "rejected", "happy, chained", "rejected, chained")
"""So short that every request dies and loses its answer in the gate."""
KINDS: dict[str, tuple[Sequence[Fault], tuple[int, ...]]] = {
    "deaths": (DEATHS, (0,)),
    "lost answers": (LOST_ANSWERS, (0,)),
    "outages": ((Fault.OUTAGE,), (0,)),
    "delays": (DELAYS, (1, 2, 3, 4, 5, 6, 7)),
    "delays in families": (DELAYS, (1, 2, 3, 4, 5, 6, 7, 8)),
}
"""By kind: the faults, and how much others do meanwhile."""
_SAMPLE = 4
"""Disturbed runs of a scenario by kind, besides those that the cover names."""


@dataclass(frozen=True, slots=True)
class Caught:
    """Where it is noticed that a rule is off.

    Args:
        scenarios: with the disturbance of each; an empty one if nothing has to be disturbed.
        stories: of the orders of requests; those of the gate if no two scenarios do, and else any.
    """

    scenarios: dict[str, Plan]
    stories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cover:
    """What the gate runs, and what it catches by that, by rule."""

    scenarios: tuple[str, ...] = ()
    stories: tuple[str, ...] = ()
    rules: dict[str, Caught] = field(default_factory=dict[str, Caught])

    def caught(self, rule: str) -> Caught:
        """Where it is noticed that a rule is off: nowhere, if the cover does not know it."""
        return self.rules.get(rule, Caught({}))

    def text(self) -> str:
        """The file's content."""
        rules = {
            rule: {"scenarios": {name: _written(plan) for name, plan in caught.scenarios.items()}}
            | ({"stories": caught.stories} if caught.stories else {})
            for rule, caught in self.rules.items()
        }
        content = {"scenarios": self.scenarios, "stories": self.stories, "rules": rules}
        return json.dumps(content, indent=1) + "\n"


def cover_in(text: str) -> Cover:
    """The cover in a file's content."""
    content: dict[str, Any] = json.loads(text)
    rules = {
        rule: Caught(
            {name: _read(plan) for name, plan in caught["scenarios"].items()}, tuple(caught.get("stories", ()))
        )
        for rule, caught in content["rules"].items()
    }
    return Cover(tuple(content["scenarios"]), tuple(content["stories"]), rules)


@cache
def cover() -> Cover:
    """The committed cover."""
    return cover_in(FILE.read_text())


@cache
def guards() -> dict[str, list[Plan]]:
    """By scenario: the disturbances at which it is noticed first that some rule is off. They run always."""
    found: dict[str, list[Plan]] = {}
    for caught in cover().rules.values():
        for name, plan in [*caught.scenarios.items()][:1]:
            found[name] = [*(one for one in found.get(name, []) if one != plan), plan]
    return found


@cache
def guarding_stories() -> set[str]:
    """The stories that run always: the first of each rule that no two scenarios catch."""
    return {caught.stories[0] for caught in cover().rules.values() if len(caught.scenarios) < 2}


def _written(plan: Plan) -> str:
    return ", ".join(f"{point.number} {point.fault.name} {point.bound}" for point in plan)


def _read(text: str) -> Plan:
    points = (part.split() for part in text.split(", ") if part)
    return tuple(Point(int(number), Fault[fault], int(bound)) for number, fault, bound in points)


def kinds(name: str) -> Iterator[str]:
    """The kinds of disturbance that the gate has for a scenario."""
    yield from ("deaths", "lost answers", "outages", "delays in families" if name in FAMILIES else "delays")


def disturb(world: CrashWorld, name: str, kind: str, *, stop: bool = False) -> Figures:
    """Disturb a scenario as the gate does: at a sample of its requests, but for the short ones."""
    faults, bounds = KINDS[kind]
    every = name in SHORT and faults is not DELAYS
    return explore(world, [name], faults=faults, bounds=bounds, sample=None if every else _SAMPLE, stop=stop)


def catch(world: CrashWorld, rule: str, name: str, plan: Plan | None) -> Trial | None:
    """The first run of a scenario, as the gate disturbs it, that notices that a rule is off.

    Args:
        world: to run it in.
        rule: which.
        name: of the scenario.
        plan: the disturbance to begin with: it is what is expected to catch, and spares the others.
    """
    with EVERY_RULE[rule].off():
        for trial in replay(world, name, [(), plan] if plan else [()]):
            if trial.error is not None:
                return trial
        for kind in kinds(name):
            if violations := disturb(world, name, kind, stop=True).violations:
                return violations[0][1]
    return None


def catch_anywhere(world: CrashWorld, rule: str, name: str) -> Trial | None:
    """Likewise, at many more requests than the gate disturbs."""
    with EVERY_RULE[rule].off():
        for kind in kinds(name):
            faults, bounds = KINDS[kind]
            if violations := explore(world, [name], faults=faults, bounds=bounds, sample=200, stop=True).violations:
                return violations[0][1]
    return None


def unknown_names(known: Cover, stories: Sequence[str]) -> list[str]:
    """The names in a cover that no scenario, story or rule has any more."""
    found = [name for name in known.scenarios if name not in EVERY]
    found += [name for name in known.stories if name not in stories]
    return found + [rule for rule in known.rules if rule not in EVERY_RULE]
