"""``python -m tests.faults [KIND...] [--of SUBJECT]``: disturb every request of scenarios, and print the figures."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from sagas.testing.faults import DEATHS, DELAYS, LOST_ANSWERS, Fault
from tests.faults.answering import AT_ONCE, behind, scarce
from tests.faults.explore import explore
from tests.faults.scenarios import BY_SUBJECT, EVERY, FAMILIES, SHORT
from tests.faults.world import CrashWorld, world


@dataclass(frozen=True, slots=True)
class Part:
    """One way of disturbing: which scenarios, by what, how much others do meanwhile, how often at once, how many of
    each scenario's runs, and how the tables answer; all runs by default, and as DynamoDB mostly does."""

    title: str
    faults: Sequence[Fault]
    names: Sequence[str] = tuple(name for name in EVERY if name not in FAMILIES)
    bounds: tuple[int, ...] = (0,)
    at_once: int = 1
    sample: int | None = None
    answering: Callable[[CrashWorld], AbstractContextManager[Any]] = nullcontext


PARTS: dict[str, Part] = {
    "deaths": Part("the process dies", DEATHS),
    "answers": Part("the answer is lost", LOST_ANSWERS),
    "outages": Part("DynamoDB is away, to the end of the process", (Fault.OUTAGE,)),
    "lingers": Part("it lingers, a message comes twice", DELAYS, bounds=(1, 2)),
    "cancels": Part("it lingers, others cancel or act", DELAYS, bounds=(3, 4, 5)),
    "purges": Part("it lingers, others purge or undo", DELAYS, bounds=(6, 7)),
    "families": Part("of parents and children, a process dies", DEATHS, FAMILIES),
    "kin-answers": Part("of these, an answer is lost", LOST_ANSWERS, FAMILIES, sample=100),
    "kin-outages": Part("of these, one finds DynamoDB away", (Fault.OUTAGE,), FAMILIES),
    "kin-lingers": Part("of these, one lingers", DELAYS, FAMILIES, (1, 2, 3, 4, 5, 6, 7, 8), sample=150),
    "pairs": Part("two deaths in a row", DEATHS, SHORT, at_once=2),
    "successors": Part(
        "it pauses, its successor dies", (Fault.PAUSES, Fault.DIES_AFTER), ("short_lease",), bounds=(2, 4), at_once=2
    ),
    "behind": Part(
        "reads are behind, the process dies",
        DEATHS,
        tuple(name for name in EVERY if name not in AT_ONCE),
        sample=10,
        answering=behind,
    ),
    "scarce": Part("pages are short, the process dies", DEATHS, tuple(EVERY), sample=10, answering=scarce),
}


def _tell(text: str) -> None:
    print(text, flush=True)


def _prove(one: CrashWorld, part: Part) -> bool:
    began = time.monotonic()
    with part.answering(one):
        figures = explore(
            one, part.names, faults=part.faults, bounds=part.bounds, at_once=part.at_once, sample=part.sample
        )
    _tell(f"{part.title:<36}{figures}, {time.monotonic() - began:.0f} s")
    for sentence in figures.violations[:20]:
        _tell(f"  {sentence}")
    return not figures.violations


def _all(kinds: Sequence[str], subjects: Sequence[str]) -> Iterator[bool]:
    chosen = [name for subject in subjects or BY_SUBJECT for name in BY_SUBJECT[subject]]
    with world() as one:
        for kind in kinds or PARTS:
            part = PARTS[kind]
            yield _prove(one, replace(part, names=[name for name in chosen if name in part.names]))


if __name__ == "__main__":
    parser = ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of disturbances: {', '.join(PARTS)}")
    parser.add_argument("--of", action="append", choices=BY_SUBJECT, default=[], help="only scenarios of this subject")
    options = parser.parse_args()
    if unknown := {*options.kinds} - PARTS.keys():
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    sys.exit(0 if all(list(_all(options.kinds, options.of))) else 1)
