"""Computes the cover: greedily, and the same from the same code and the same cover before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from sagas.core.automaton import ROWS, Row
from sagas.testing.faults import Plan
from tests.faults.gate import EVERY_RULE, SHORT, Caught, Cover, catch, catch_anywhere
from tests.faults.lived import Life, live
from tests.faults.scenarios import EVERY
from tests.faults.world import CrashWorld
from tests.interleavings.explorer import Exploration, explore
from tests.interleavings.gate import STORIES, caught_by, features_of
from tests.interleavings.stories import STANDING_IN

TWICE = 2
"""Scenarios, or stories, that are to catch each rule."""


@dataclass(frozen=True, slots=True)
class Extremes:
    """The runs of a feature that the gate has: the shortest that ends well, the longest that does not."""

    happy: str | None
    worst: str | None


def extremes(lives: Mapping[str, Life]) -> dict[str, Extremes]:
    """The happy and the worst scenario of each feature, by the number of requests."""

    def requests(name: str) -> int:
        return len(lives[name].trial.trace)

    found: dict[str, Extremes] = {}
    for feature in sorted({feature for life in lives.values() for feature in life.features}):
        own = [name for name in lives if feature in lives[name].features]
        happy = [name for name in own if lives[name].happy]
        sad = [name for name in own if not lives[name].happy]
        found[feature] = Extremes(min(happy, key=requests, default=None), max(sad, key=requests, default=None))
    return found


def missing_features(lives: Mapping[str, Life], chosen: Iterable[str]) -> list[str]:
    """What the chosen scenarios lack: a happy run of a feature that has one, or one that ends otherwise."""
    of_the_gate = {name: lives[name] for name in chosen}
    have = extremes(of_the_gate)
    lacking: list[str] = []
    for feature, wanted in extremes(lives).items():
        mine = have.get(feature, Extremes(None, None))
        lacking += [f"{feature}: no happy run"] if wanted.happy and not mine.happy else []
        lacking += [f"{feature}: no run that ends badly"] if wanted.worst and not mine.worst else []
    return lacking


def missing_rows(lives: Mapping[str, Life], chosen: Iterable[str]) -> list[Row]:
    """The rows of the automaton that the chosen scenarios do not enter."""
    entered = {row for name in chosen for row in lives[name].rows}
    return [row for row in ROWS if row not in entered]


def _greedy(wanted: set[str], offers: Mapping[str, set[str]], cost: Callable[[str], float]) -> Iterator[str]:
    """Take what offers most for its cost until nothing is wanted that is offered."""
    while useful := {name: offer & wanted for name, offer in offers.items() if offer & wanted}:
        best = max(useful, key=lambda name: (len(useful[name]) / cost(name), name))
        wanted = wanted - useful[best]
        yield best


def _of_releases(names: Iterable[str]) -> Iterator[str]:
    """The scenarios, or stories, in which a release comes: the gate has them all, since rules and rows cannot tell a
    half-deployed service, or one that is rolled back, from another."""
    return (name for name in names if "release" in name and not name.endswith(", chained"))


class Computation:
    """Computes a cover. What ``before`` has is looked at first, so that little changes, and soon.

    Args:
        world: to run scenarios in.
        before: an earlier cover.
        tell: is told what is found.
    """

    def __init__(self, world: CrashWorld, before: Cover, tell: Callable[[str], None]) -> None:
        self._world, self._before, self._tell = world, before, tell
        self._lives = {name: live(world, name) for name in EVERY}
        self._explored = {name: explore(story) for name, story in STORIES.items()}

    def cover(self) -> Cover:
        """Compute it."""
        scenarios = {*SHORT, *_of_releases(EVERY), *self._of_features()}
        scenarios |= set(self._of_rows(scenarios))
        stories = {*_of_releases(STORIES), *self._of_stories()}
        rules: dict[str, Caught] = {}
        for rule in EVERY_RULE:
            if rule not in STANDING_IN:
                rules[rule] = self._caught(rule, scenarios, stories)
                scenarios |= rules[rule].scenarios.keys()
                if len(rules[rule].scenarios) < TWICE:
                    stories |= set(rules[rule].stories)
                self._tell(f"{rule:<40}{[*rules[rule].scenarios, *rules[rule].stories]}")
        self._tell("\n".join(missing_features(self._lives, scenarios)))
        in_order = [name for name in EVERY if name in scenarios], [name for name in STORIES if name in stories]
        return Cover(tuple(in_order[0]), tuple(in_order[1]), rules)

    def _of_features(self) -> Iterator[str]:
        for both in extremes(self._lives).values():
            yield from (name for name in (both.happy, both.worst) if name)

    def _of_rows(self, chosen: set[str]) -> Iterator[str]:
        """Scenarios that enter the rows that those chosen do not."""
        missing = {str(row): row for row in missing_rows(self._lives, chosen)}
        offers = {name: {key for key, row in missing.items() if row in life.rows} for name, life in self._lives.items()}
        return _greedy({*missing}, offers, self._requests)

    def _of_stories(self) -> Iterator[str]:
        """Of each feature of the stories the cheapest that can end well, and the cheapest that can end otherwise."""
        wanted: set[str] = set()
        offers: dict[str, set[str]] = {}
        for name, found in self._explored.items():
            offers[name] = set(story_needs(name, found))
            wanted |= offers[name]
        return _greedy(wanted, offers, self._histories)

    def _caught(self, rule: str, scenarios: set[str], stories: set[str]) -> Caught:
        """Who catches a rule: two scenarios, or two stories where no two scenarios do. Those of the cover before come
        first, then what is chosen already, then the rest, the cheapest first."""
        before = self._before.caught(rule)
        chosen = sorted(scenarios, key=self._requests)
        known = [name for name in before.scenarios if name in EVERY]
        mine = self._scenarios(rule, known)
        told = self._stories(rule, [name for name in before.stories if name in STORIES])
        if max(len(mine), len(told)) < TWICE:
            mine |= self._scenarios(rule, known, TWICE - len(mine), but=mine, wide=True)
        if max(len(mine), len(told)) < TWICE:
            mine |= self._scenarios(rule, chosen, TWICE - len(mine), but=mine)
        if max(len(mine), len(told)) < TWICE:
            told += self._stories(rule, sorted(stories, key=self._histories), TWICE - len(told), but=told)
        if max(len(mine), len(told)) < TWICE:
            told += self._stories(rule, sorted(STORIES, key=self._histories), TWICE - len(told), but=[*stories, *told])
        if max(len(mine), len(told)) < TWICE:
            others = sorted(EVERY, key=self._requests)
            mine |= self._scenarios(rule, others, TWICE - len(mine), but=[*scenarios, *mine])
        if max(len(mine), len(told)) < TWICE:
            mine |= self._scenarios(rule, chosen, TWICE - len(mine), but=mine, wide=True)
        return Caught(mine, tuple(told))

    def _scenarios(
        self, rule: str, names: Iterable[str], most: int = TWICE, *, but: Collection[str] = (), wide: bool = False
    ) -> dict[str, Plan]:
        """The first scenarios that catch a rule, with the disturbance at which they do. ``wide``: at any request."""
        found: dict[str, Plan] = {}
        for name in names:
            if len(found) == most:
                break
            if name not in but:
                plan = self._before.caught(rule).scenarios.get(name)
                trial = catch_anywhere(self._world, rule, name) if wide else catch(self._world, rule, name, plan)
                found |= {name: trial.points} if trial else {}
        return found

    def _stories(self, rule: str, names: Iterable[str], most: int = TWICE, *, but: Collection[str] = ()) -> list[str]:
        """The first stories that catch a rule."""
        candidates = (name for name in names if name not in but and caught_by(rule, name))
        return [*islice(candidates, most)]

    def _requests(self, name: str) -> int:
        return len(self._lives[name].trial.trace)

    def _histories(self, name: str) -> int:
        return self._explored[name].histories


def story_needs(name: str, found: Exploration) -> Iterator[str]:
    """What a story shows: each of its features, with an end that is good or not."""
    for feature in features_of(STORIES[name]):
        yield from (f"{feature}, {'well' if end == 'COMPLETED' else 'otherwise'}" for end in found.ends)


def table(known: Cover) -> str:
    """Who catches each rule that is switched off, and at which disturbance."""
    lines: list[str] = []
    for rule, caught in known.rules.items():
        lines.append(f"{rule}: {EVERY_RULE[rule].text}")
        for name, plan in caught.scenarios.items():
            lines.append(f"    scenario {name}: {', '.join(map(str, plan)) or 'undisturbed'}")
        lines += [f"    story {name}" for name in caught.stories]
    lines += [f"{rule}: {EVERY_RULE[rule].text}\n    another rule stands in" for rule in STANDING_IN]
    lines.append(
        f"the gate has {len(known.scenarios)} of {len(EVERY)} scenarios, {len(known.stories)} of {len(STORIES)} stories"
    )
    return "\n".join(lines)
