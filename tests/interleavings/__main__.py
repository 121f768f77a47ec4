"""``python -m tests.interleavings [short|long|rules|NAME...]``: go through every order, and print the figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from tests.faults.catching import EVERY_RULE
from tests.interleavings.explorer import Exploration, Story, explore
from tests.interleavings.stories import LONG, SHORT, STANDING_IN

_SETS = {"short": SHORT, "long": LONG}
_EVERY = {name: story for stories in _SETS.values() for name, story in stories.items()}
_PARTS = (*_SETS, "rules")


def _tell(text: str) -> None:
    print(text, flush=True)


def _stories(stories: dict[str, Story]) -> Iterator[bool]:
    for name, story in stories.items():
        found = explore(story)
        _tell(f"{name:<40}{found}")
        yield _clean(found)


def _clean(found: Exploration) -> bool:
    if found.violations:
        _tell(found.wrong)
    return found.complete and not found.violations


def _rules() -> Iterator[bool]:
    for rule, story in STANDING_IN.items():
        with EVERY_RULE[rule].off():
            found = explore(story)
        what = f"UNEXPECTED: {found.violations[0][0]}" if found.violations else "nothing: another rule stands in"
        _tell(f"{EVERY_RULE[rule].text + ', off':<64}{what}")
        yield not found.violations


def _all(names: Sequence[str]) -> Iterator[bool]:
    for name in names or _PARTS:
        if name == "rules":
            yield from _rules()
        else:
            yield from _stories(_SETS.get(name) or {name: _EVERY[name]})


if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in (*_PARTS, *_EVERY)]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join((*_PARTS, *_EVERY))}")
    sys.exit(0 if all(list(_all(sys.argv[1:]))) else 1)
