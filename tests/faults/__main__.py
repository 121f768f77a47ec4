"""``python -m tests.faults [PART...]``: disturb every request of every scenario, and print the figures."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sagas.testing.faults import DEATHS, DELAYS, LOST_ANSWERS, Fault
from tests.faults.explore import explore
from tests.faults.mutants import MUTANTS, missed
from tests.faults.scenarios import EVERY, FAMILIES
from tests.faults.world import CrashWorld, world

RULES = "rules"
_SHORT = ("happy", "rejected", "happy, chained", "rejected, chained")


@dataclass(frozen=True, slots=True)
class Part:
    """One way of disturbing: which scenarios, by what, how much others do meanwhile, how often at once, and how many of
    each scenario's runs; all by default."""

    title: str
    faults: Sequence[Fault]
    names: Sequence[str] = tuple(name for name in EVERY if name not in FAMILIES)
    bounds: tuple[int, ...] = (0,)
    at_once: int = 1
    sample: int | None = None


PARTS: dict[str, Part] = {
    "deaths": Part("the process dies", DEATHS),
    "answers": Part("the answer is lost", LOST_ANSWERS),
    "lingers": Part("it lingers, a message comes twice", DELAYS, bounds=(1, 2)),
    "cancels": Part("it lingers, others cancel or act", DELAYS, bounds=(3, 4, 5)),
    "purges": Part("it lingers, others purge or undo", DELAYS, bounds=(6, 7)),
    "families": Part("of parents and children, a process dies", DEATHS, FAMILIES),
    "kin-answers": Part("of these, an answer is lost", LOST_ANSWERS, FAMILIES, sample=100),
    "kin-lingers": Part("of these, one lingers", DELAYS, FAMILIES, (1, 2, 3, 4, 5, 6, 7, 8), sample=150),
    "pairs": Part("two deaths in a row", DEATHS, _SHORT, at_once=2),
    "successors": Part(
        "it pauses, its successor dies", (Fault.PAUSES, Fault.DIES_AFTER), ("short_lease",), bounds=(2, 4), at_once=2
    ),
}


def _tell(text: str) -> None:
    print(text, flush=True)


def _prove(one: CrashWorld, part: Part) -> bool:
    began = time.monotonic()
    figures = explore(one, part.names, faults=part.faults, bounds=part.bounds, at_once=part.at_once, sample=part.sample)
    _tell(f"{part.title:<36}{figures}, {time.monotonic() - began:.0f} s")
    for name, trial in figures.violations[:20]:
        _tell(f"  {name}: {trial}")
    return not figures.violations


def _rules(one: CrashWorld) -> bool:
    silent = [name for name in MUTANTS if not missed(one, name).violations]
    _tell(f"{'rules switched off':<36}{len(MUTANTS)}, of which {len(MUTANTS) - len(silent)} are missed")
    for name in silent:
        _tell(f"  nothing tells that this is off: {name}")
    return not silent


def _all(names: Sequence[str]) -> Iterator[bool]:
    with world() as one:
        for name in names or (*PARTS, RULES):
            yield _rules(one) if name == RULES else _prove(one, PARTS[name])


if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in (*PARTS, RULES)]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join((*PARTS, RULES))}")
    sys.exit(0 if all(list(_all(sys.argv[1:]))) else 1)
