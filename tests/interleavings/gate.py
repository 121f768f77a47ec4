"""What the gate runs of the stories; see ``tests/faults/gate.py``."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.gate import EVERY_RULE
from tests.interleavings.explorer import Story, explore
from tests.interleavings.family_stories import FAMILIES
from tests.interleavings.stories import SHORT

STORIES = SHORT | FAMILIES
"""Those that the gate can choose from."""


def features_of(story: Story) -> Iterator[str]:
    """What a story is about: its disturbances, its saga type and how that is deployed."""
    yield from (name for name in story.budget if name != "switch")
    yield story.saga.__name__
    if story.other is not None:
        yield story.other.__name__
    told = {"chained": story.chained, "queued": story.queued, "prompt": story.prompt, "refused": bool(story.reject)}
    yield from (name for name, shown in told.items() if shown)


def caught_by(rule: str, name: str) -> str | None:
    """What a story finds when a rule is off."""
    with EVERY_RULE[rule].off():
        found = explore(STORIES[name], stop=True)
    return found.violations[0][0] if found.violations else None
