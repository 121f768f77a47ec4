"""Every order in which the requests of a few processes can land, over the real code: the stories of the gate's cover.
``make proof`` has all of them."""

from __future__ import annotations

import pytest

from tests.faults.gate import COMMAND, cover, guarding_stories
from tests.interleavings import processes
from tests.interleavings.explorer import explore
from tests.interleavings.gate import STORIES, features_of


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in guarding_stories() else pytest.mark.slow) for name in cover().stories],
)
def test_no_order_breaks_anything(name: str) -> None:
    found = explore(STORIES[name])
    assert found.complete
    assert not found.violations, "\n".join(str(violation) for violation in found.violations[:3])


def test_the_gate_has_a_story_of_every_feature() -> None:
    """Of each disturbance, saga type and way to deploy it."""
    every = {feature for story in STORIES.values() for feature in features_of(story)}
    assert every == {feature for name in cover().stories for feature in features_of(STORIES[name])}, f"run {COMMAND}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two workers, undone", "two children"])
def test_a_process_that_waits_does_what_one_does_that_is_run_anew(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many wait at once, in one process of Python's: what one leaves there would be found by another."""
    waited = explore(STORIES[name])
    monkeypatch.setattr(processes, "WAITING", 0)
    anew = explore(STORIES[name])
    assert (waited.moments, waited.moves, waited.ends) == (anew.moments, anew.moves, anew.ends)
    assert waited.histories == anew.histories == anew.runs
    assert waited.runs < anew.runs / 2
