"""``python -m tests.faults [PART...]``: disturb every request of every scenario, and print the figures."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from sagas.testing.faults import DEATHS, DELAYS, LOST_ANSWERS, Fault
from tests.faults.answering import AT_ONCE, LOSING, behind, beside_moto, scarce
from tests.faults.catching import EVERY_RULE, notices
from tests.faults.explore import explore, replay
from tests.faults.scenarios import EVERY, FAMILIES, SHORT
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


def _rules(one: CrashWorld) -> bool:
    catches = [(rule, catcher) for rule in EVERY_RULE.values() for catcher in rule.caught]
    silent = [f"{rule.text}: {catcher}" for rule, catcher in catches if not notices(one, rule, catcher)]
    _tell(f"{'rules switched off':<36}{len(catches)} times, of which {len(catches) - len(silent)} are missed")
    for sentence in silent:
        _tell(f"  nothing tells that this is off: {sentence}")
    return not silent


def _moto(one: CrashWorld) -> bool:
    """Every scenario, undisturbed, on the tables in memory and on moto's."""
    requests, wrong = 0, list[str]()
    for name in EVERY:
        if name not in LOSING:
            with beside_moto(one) as compared:
                [trial] = replay(one, name, [()])
            requests += compared.requests
            wrong += [f"{name}: {differing}" for differing in compared.differing]
            wrong += [f"{name}: {trial}"] if trial.error else []
    _tell(f"{'moto answers each request, too':<36}{requests} requests, {len(wrong)} differ")
    for sentence in wrong[:20]:
        _tell(f"  {sentence}")
    return not wrong


_OTHERS: dict[str, Callable[[CrashWorld], bool]] = {"rules": _rules, "moto": _moto}


def _all(names: Sequence[str]) -> Iterator[bool]:
    with world() as one:
        for name in names or (*PARTS, *_OTHERS):
            other = _OTHERS.get(name)
            yield other(one) if other else _prove(one, PARTS[name])


if __name__ == "__main__":
    known = (*PARTS, *_OTHERS)
    unknown = [name for name in sys.argv[1:] if name not in known]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    sys.exit(0 if all(list(_all(sys.argv[1:]))) else 1)
