"""Breadth first through every world that can be reached, or until an invariant fails."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sagas.core.states import SagaStatus
from tests.unit.core.world import Violation, World, canonical


@dataclass(slots=True)
class Report:
    """What was found.

    Args:
        states: worlds seen.
        transitions: moves made.
        violation: the first invariant that failed, if any.
        trace: the shortest way there.
        complete: whether every reachable world was seen.
        ends: worlds in which nothing can happen any more, by status.
    """

    states: int = 0
    transitions: int = 0
    violation: str = ""
    trace: list[str] = field(default_factory=list[str])
    complete: bool = True
    ends: Counter[str] = field(default_factory=Counter[str])

    def __str__(self) -> str:
        told = f"{self.states} states, {self.transitions} transitions, {dict(self.ends)}"
        how = "" if self.complete else ", not complete"
        return told + how + "".join(f"\n  {line}" for line in [self.violation, *self.trace] if line)


class _Search:
    def __init__(self, start: World, moves: Callable[[World], Iterable[tuple[str, World]]], limit: int) -> None:
        self.moves = moves
        self.limit = limit
        self.numbers: dict[World, int] = {start: 0}
        self.cause: list[tuple[int, str]] = [(-1, "")]
        self.edges: list[list[int]] = []
        self.waiting = deque([start])
        self.report = Report()

    def run(self) -> Report:
        while self.waiting and not self.report.violation:
            if len(self.numbers) > self.limit:
                self.report.complete = False
                break
            self._visit(self.waiting.popleft())
        self.report.states = len(self.numbers)
        if self.report.complete and not self.report.violation:
            self._check_no_loop()
        return self.report

    def _visit(self, world: World) -> None:
        number = self.numbers[world]
        following: list[int] = []
        try:
            for label, after in self.moves(world):
                self._follow(number, label, canonical(after), following)
        except Violation as violation:
            self._violated(str(violation), number)
        self.edges.append(following)
        if not following and not self.report.violation:
            self._check_end(world, number)

    def _follow(self, number: int, label: str, after: World, following: list[int]) -> None:
        self.report.transitions += 1
        known = self.numbers.get(after)
        if known is None:
            known = self.numbers[after] = len(self.cause)
            self.cause.append((number, label))
            self.waiting.append(after)
        if known != number:
            following.append(known)

    def _check_end(self, world: World, number: int) -> None:
        status = world.control.status
        if not world.control.over and status is not SagaStatus.DEAD_LETTERED:
            self._violated(f"I5: stuck in {status}", number)
        self.report.ends[status.value] += 1

    def _check_no_loop(self) -> None:
        """Without a loop every run comes to an end (Kahn, "Topological sorting of large networks", CACM 1962)."""
        arriving = Counter(target for targets in self.edges for target in targets)
        ready = [number for number in range(len(self.edges)) if not arriving[number]]
        done = 0
        while ready:
            done += 1
            for target in self.edges[ready.pop()]:
                arriving[target] -= 1
                if not arriving[target]:
                    ready.append(target)
        if done < len(self.edges):
            looping = next(number for number in range(len(self.edges)) if arriving[number])
            self._violated("I5: events go round in a circle", looping)

    def _violated(self, what: str, number: int) -> None:
        self.report.violation = what
        while number > 0:
            number, label = self.cause[number]
            self.report.trace.insert(0, label)


def explore(start: World, moves: Callable[[World], Iterable[tuple[str, World]]], limit: int = 100_000) -> Report:
    """Look at every reachable world, at most ``limit`` of them."""
    return _Search(start, moves, limit).run()
