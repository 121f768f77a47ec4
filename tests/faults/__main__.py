"""``make proof``: everything, and the figures."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from sagas.testing.faults import DEATHS, DELAYS, LOST_ANSWERS, Fault
from tests.faults.explore import Figures, explore
from tests.faults.mutants import MUTANTS, missed
from tests.faults.scenarios import SCENARIOS
from tests.faults.world import World, world

_PAIRS = ("happy", "rejected")
_KINDS: tuple[tuple[str, Sequence[str], Sequence[Fault], tuple[int, ...], int], ...] = (
    ("the process dies", tuple(SCENARIOS), DEATHS, (0,), 1),
    ("the answer is lost", tuple(SCENARIOS), LOST_ANSWERS, (0,), 1),
    ("it lingers while others act", tuple(SCENARIOS), DELAYS, (1, 2, 3, 4, 5), 1),
    ("two deaths in a row", _PAIRS, DEATHS, (0,), 2),
    ("it pauses, its successor dies", ("short_lease",), (Fault.PAUSES, Fault.DIES_AFTER), (2, 4), 2),
)


def _tell(text: str) -> None:
    print(text, flush=True)


def _prove(one: World) -> int:
    bad = 0
    for kind, names, faults, bounds, at_once in _KINDS:
        began = time.monotonic()
        figures: Figures = explore(one, names, faults=faults, bounds=bounds, at_once=at_once)
        _tell(f"{kind:<32}{figures}, {time.monotonic() - began:.0f} s")
        for name, trial in figures.violations[:20]:
            _tell(f"  {name}: {trial}")
        bad += len(figures.violations)
    caught = [name for name in MUTANTS if missed(one, name).violations]
    _tell(f"{'rules switched off':<32}{len(MUTANTS)}, of which {len(caught)} are missed at once")
    return bad + len(MUTANTS) - len(caught)


if __name__ == "__main__":
    with world() as made:
        sys.exit(1 if _prove(made) else 0)
