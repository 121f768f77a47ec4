"""The scenarios and stories of the gate catch every rule that is switched off, enter every row of the automaton, and
have the happy and the worst run of every feature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.faults.cover import TWICE, missing_features, missing_rows
from tests.faults.explore import replay
from tests.faults.gate import (
    COMMAND,
    EVERY_RULE,
    FILE,
    catch,
    cover,
    cover_in,
    guarding_stories,
    guards,
    unknown_names,
)
from tests.faults.lived import Life, live
from tests.faults.scenarios import EVERY
from tests.faults.world import CrashWorld, world
from tests.interleavings.explorer import explore
from tests.interleavings.gate import STORIES
from tests.interleavings.stories import STANDING_IN

AGAIN = f"run {COMMAND}, which computes {FILE.name} anew"
CATCHES = [(rule, name) for rule, caught in cover().rules.items() for name in caught.scenarios]


@pytest.fixture(scope="module")
def made() -> Iterator[CrashWorld]:
    with world() as one:
        yield one


@pytest.fixture(scope="module")
def lives(made: CrashWorld) -> dict[str, Life]:
    return {name: live(made, name) for name in EVERY}


@pytest.mark.slow
def test_every_scenario_holds_where_nothing_is_disturbed(lives: dict[str, Life]) -> None:
    assert [str(life.trial) for life in lives.values() if life.trial.error is not None] == []


def test_all_that_the_cover_names_exists() -> None:
    assert unknown_names(cover(), [*STORIES]) == [], AGAIN


def test_two_of_the_gate_catch_each_rule() -> None:
    """But for the rules that another stands in for."""
    for rule in EVERY_RULE.keys() - STANDING_IN.keys():
        caught = cover().caught(rule)
        assert max(len(caught.scenarios), len(caught.stories)) >= TWICE, f"{rule}: {AGAIN}"
        assert caught.scenarios.keys() <= set(cover().scenarios), f"{rule}: {AGAIN}"
        assert len(caught.scenarios) >= TWICE or set(caught.stories) <= set(cover().stories), f"{rule}: {AGAIN}"


@pytest.mark.slow
@pytest.mark.parametrize("rule", cover().rules)
def test_what_always_runs_notices_that_a_rule_is_off(made: CrashWorld, rule: str) -> None:
    first, stories = [*cover().caught(rule).scenarios][:1], guarding_stories() & {*cover().caught(rule).stories}
    with EVERY_RULE[rule].off():
        noticed = any(trial.error for name in first for trial in replay(made, name, [(), *guards()[name]]))
        assert noticed or any(explore(STORIES[name], stop=True).violations for name in stories)


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "name"), CATCHES)
def test_a_rule_that_is_switched_off_is_missed(made: CrashWorld, rule: str, name: str) -> None:
    """At the disturbance that the cover names, which does no harm while the rule is on."""
    plan = cover().caught(rule).scenarios[name]
    assert [str(trial) for trial in replay(made, name, [(), plan]) if trial.error is not None] == []
    assert catch(made, rule, name, plan), f"without it {name} goes well: {EVERY_RULE[rule].text}; {AGAIN}"


@pytest.mark.slow
def test_the_gate_enters_every_row_of_the_automaton(lives: dict[str, Life]) -> None:
    assert missing_rows(lives, cover().scenarios) == [], AGAIN


@pytest.mark.slow
def test_the_gate_has_the_happy_and_the_worst_run_of_every_feature(lives: dict[str, Life]) -> None:
    assert missing_features(lives, cover().scenarios) == [], AGAIN


@pytest.mark.slow
def test_what_the_cover_lacks_is_noticed(lives: dict[str, Life]) -> None:
    few = ["happy"]
    assert "chained: no happy run" in missing_features(lives, few)
    assert "pair: no happy run" not in missing_features(lives, few)
    assert len(missing_rows(lives, few)) > 20


def test_the_file_says_what_the_cover_is() -> None:
    assert cover_in(cover().text()) == cover()
    assert unknown_names(replace(cover(), scenarios=("gone",)), [*STORIES]) == ["gone"]
