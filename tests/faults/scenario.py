"""What a scenario is, and what several of them do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sagas.authoring.context import Context
from tests.faults.sagas import STAGE
from tests.faults.world import CrashWorld

ALWAYS = 99
"""Failures of a step that never succeeds."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One life. ``ends``: the statuses it may end in, whatever dies; a cancel by others adds CANCELLED. ``chained``:
    whether all steps share a queue and a function, which goes on with what is next. ``families``: whether it is one of
    parents and children. ``late``: further statuses, if a process resumes after others gave up waiting for it."""

    name: str
    play: Callable[[CrashWorld], None]
    ends: frozenset[str]
    chained: bool = False
    families: bool = False
    late: frozenset[str] = frozenset()


class Scenarios(dict[str, Scenario]):
    """Those of one kind, by the names of their functions."""

    def __init__(self, *, families: bool = False) -> None:
        super().__init__()
        self._families = families

    def ends(
        self, *ends: str, late: str = ""
    ) -> Callable[[Callable[[CrashWorld], None]], Callable[[CrashWorld], None]]:
        """Add the function that is decorated; see :class:`Scenario`."""

        def add(play: Callable[[CrashWorld], None]) -> Callable[[CrashWorld], None]:
            name = play.__name__.strip("_")
            more = frozenset({late} - {""})
            self[name] = Scenario(name, play, frozenset(ends), families=self._families, late=more)
            return play

        return add


def life(world: CrashWorld, saga: str = "pair") -> None:
    """Start a saga, and let things happen until nothing does."""
    world.start(saga)
    world.settle()


def cancel_in(world: CrashWorld, step: str) -> None:
    """Have the saga cancelled while a step or undo runs, once."""
    asked: list[str] = []

    def during(name: str, ctx: Context) -> None:
        if name == step and not asked:
            asked.append(name)
            world.cancel()

    STAGE.during = during
