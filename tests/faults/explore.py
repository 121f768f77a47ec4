"""Going through scenarios, disturbing each at every request, and counting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sagas.testing.faults import DEATHS, DELAYS, Fault, Plan, Trial, Wire, crash_points
from tests.faults.invariants import check, unshaken
from tests.faults.scenario import Scenario
from tests.faults.scenarios import EVERY
from tests.faults.world import CrashWorld


class Violation(Exception):
    """An invariant does not hold."""


@dataclass(slots=True)
class Figures:
    """What an exploration came to."""

    scenarios: int = 0
    runs: int = 0
    violations: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return f"{self.scenarios} scenarios, {self.runs} runs, {len(self.violations)} violations"


def explore(
    world: CrashWorld,
    names: Iterable[str] | None = None,
    *,
    faults: Sequence[Fault] = DEATHS,
    bounds: Sequence[int] = (1,),
    at_once: int = 1,
    sample: int | None = None,
    stop: bool = False,
) -> Figures:
    """Disturb scenarios, all by default.

    Args:
        world: to run them in.
        names: which.
        faults: see :func:`crash_points`.
        bounds: likewise.
        at_once: likewise.
        sample: likewise, for each scenario.
        stop: at the first violation.
    """
    figures = Figures()
    for name in EVERY if names is None else names:
        figures.scenarios += 1
        played = _played(world, EVERY[name])
        for trial in crash_points(played, world.wire, faults=faults, bounds=bounds, at_once=at_once, sample=sample):
            figures.runs += 1
            if trial.error is not None:
                figures.violations.append(f"{name}: {trial}")
                if stop:
                    return figures
    return figures


def replay(world: CrashWorld, name: str, plans: Iterable[Plan]) -> Iterator[Trial]:
    """Run a scenario once for each plan. What a plan is compared with, the undisturbed run, is an empty plan before."""
    play, wire = _played(world, EVERY[name]), world.wire
    with wire.installed():
        for plan in plans:
            wire.begin(plan)
            error: Exception | None = None
            try:
                play(wire)
            except Exception as violation:
                error = violation
            yield Trial(plan, tuple(wire.trace), error)


def _played(world: CrashWorld, scenario: Scenario) -> Callable[[Wire], None]:
    """The scenario, checked at its end."""
    undisturbed: list[object] = []
    ended = 0.0

    def play(wire: Wire) -> None:
        nonlocal ended
        world.reset(chained=scenario.chained, families=scenario.families)
        scenario.play(world)
        world.end_purges()
        found = check(world, wire.points)
        journal = _journal(world)
        if not wire.points:
            undisturbed[:], ended = journal, world.clock.now()
        elif unshaken(wire.points) and not world.counted and (journal != undisturbed or world.clock.now() > ended):
            # Later: a worker that does not recognise its own success comes back. A copy of a message may be early.
            found.append(f"a repeated request left a trace: {journal} instead of {undisturbed}")
        found += _ends(world, scenario, wire.points)
        if found:
            raise Violation("; ".join(found))

    return play


def _journal(world: CrashWorld) -> list[object]:
    """What was journaled."""
    rows = (entry for state in world.states() for entry in world.entries(state.saga_id))
    return [(row["action"], row["step"], row["attempt"], row["status"]) for row in rows]


def _ends(world: CrashWorld, scenario: Scenario, points: Plan) -> list[str]:
    """While a process lingers others go on, to the end if it is dead: a cancel may win, or come too late, and an
    operator may have the saga undone."""
    lingering = [point for point in points if point.fault in DELAYS]
    late = {"COMPLETED"} if lingering and "CANCELLED" in scenario.ends else set[str]()
    cancelled = {"CANCELLED"} if any(point.bound in (3, 4, 8) for point in lingering) else set[str]()
    undone = {"COMPENSATED"} if any(point.bound == 7 for point in lingering) else set[str]()
    allowed = scenario.ends | late | cancelled | undone | (scenario.late if lingering else frozenset[str]())
    wrong = [state.status.value for state in world.asked() if state.status.value not in allowed]
    return [f"the saga ended {status}, not one of {sorted(allowed)}" for status in wrong]
