"""``python -m tests.interleavings [short|long|rules|NAME...]``: go through every order, and print the figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from tests.faults.rules import RULES
from tests.interleavings.explorer import Exploration, Story, explore
from tests.interleavings.stories import LONG, MISSED, SHORT, STANDING_IN

_PARTS = ("short", "long", "rules")


def _tell(text: str) -> None:
    print(text, flush=True)


def _stories(stories: dict[str, Story]) -> Iterator[bool]:
    for name, story in stories.items():
        found = explore(story)
        _tell(f"{name:<40}{found}")
        yield _clean(found)


def _clean(found: Exploration) -> bool:
    for wrong, way in found.violations[:5]:
        _tell("  " + "\n    ".join([wrong, *way]))
    return found.complete and not found.violations


def _rules() -> Iterator[bool]:
    for name, story in {**MISSED, **STANDING_IN}.items():
        with RULES[name].off():
            found = explore(story, stop=name in MISSED)
        expected = bool(found.violations) is (name in MISSED)
        what = found.violations[0][0] if found.violations else "nothing: another rule stands in"
        _tell(f"{RULES[name].text + ', off':<64}{'' if expected else 'UNEXPECTED: '}{what}")
        yield expected


def _all(names: Sequence[str]) -> Iterator[bool]:
    every = SHORT | LONG
    for name in names or _PARTS:
        if name == "rules":
            yield from _rules()
        else:
            yield from _stories({"short": SHORT, "long": LONG}.get(name) or {name: every[name]})


if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in (*_PARTS, *SHORT, *LONG)]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join((*_PARTS, *SHORT, *LONG))}")
    sys.exit(0 if all(list(_all(sys.argv[1:]))) else 1)
