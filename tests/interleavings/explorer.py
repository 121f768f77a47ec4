"""Going through every order in which things can happen, each moment once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from sagas.core.text import epoch
from tests.faults.invariants import check_blueprints, check_chain, check_rest
from tests.faults.kin import check_families
from tests.faults.world import surroundings
from tests.interleavings.moves import Moves
from tests.interleavings.remains import Remains
from tests.interleavings.replay import Replay
from tests.interleavings.snapshot import Snapshot
from tests.interleavings.watch import Violation


@dataclass(frozen=True, slots=True)
class Story:
    """What is explored.

    Args:
        saga: the saga type.
        budget: how often each disturbance may happen.
        fail: by step or undo: how many executions fail.
        reject: steps that are rejected.
        prompt: whether no time may pass: what disturbs it does not set it back.
        other: another version of the saga type, which ``deploy`` puts in its place.
        chained: whether all steps share a queue and a function, which goes on with what is next.
        queued: whether the supervisor only finds what is due, and recovers by the queue ``bulk``.
        kin: the types of the saga's children.
        passed: whether its queues have handled what was sent long after: what is not in them is lost.
        settle: seconds for which what does not fit waits for a release.
        named: whether operators name the state that they have read, and repeat their calls.
    """

    saga: type
    budget: Mapping[str, int]
    fail: Mapping[str, int] = field(default_factory=dict[str, int])
    reject: frozenset[str] = frozenset()
    prompt: bool = False
    other: type | None = None
    chained: bool = False
    queued: bool = False
    kin: tuple[type, ...] = ()
    passed: bool = False
    settle: float = 0.0
    named: bool = False


@dataclass(slots=True)
class Exploration:
    """What came of it. ``histories``: of processes, each one a place the code came to; ``runs``: from its start."""

    moments: int = 0
    moves: int = 0
    histories: int = 0
    runs: int = 0
    seconds: float = 0.0
    complete: bool = True
    ends: Counter[str] = field(default_factory=Counter[str])
    violations: list[tuple[str, list[str]]] = field(default_factory=list[tuple[str, list[str]]])

    @property
    def wrong(self) -> str:
        """The first violations, each with the order that leads to it."""
        return "\n".join("\n    ".join([wrong, *way]) for wrong, way in self.violations[:3])

    def __str__(self) -> str:
        ends = ", ".join(f"{status} {count}" for status, count in sorted(self.ends.items()))
        cut = "" if self.complete else " (cut short)"
        return (
            f"{self.moments:>8} moments{cut}, {self.moves:>8} moves, {self.histories} histories of processes, "
            f"{len(self.violations)} violations, {self.seconds:.0f} s; ends: {ends}"
        )


def explore(story: Story, *, stop: bool = False, most: int = 10_000_000) -> Exploration:
    """Go through all of a story's orders, breadth first, so that what is found is found in its shortest form.

    Args:
        story: what may happen.
        stop: at the first violation.
        most: moments after which to give up.
    """
    began, found = time.monotonic(), Exploration()
    with surroundings():
        purges, queued = "purge" in story.budget, story.queued
        replay = Replay(
            story.saga,
            story.fail,
            story.reject,
            story.other,
            kin=story.kin,
            purges=purges,
            chained=story.chained,
            queued=queued,
            settle=story.settle,
            named=story.named,
        )
        with replay.installed():
            _walk(Moves(replay, story.budget, queued=queued, passed=story.passed), story, found, stop, most)
    found.histories, found.runs, found.seconds = replay.histories, replay.runs, time.monotonic() - began
    return found


def _walk(moves: Moves, story: Story, found: Exploration, stop: bool, most: int) -> None:
    first = moves.begin(1_790_000_000.0)
    came: dict[Snapshot, tuple[Snapshot, str] | None] = {first: None}
    level = [first]
    while level:
        coming: list[Snapshot] = []
        for at in level:
            quiet = True
            for what, after in moves.of(at):
                found.moves += 1
                quiet = False
                if isinstance(after, Violation):
                    found.violations.append((str(after), [*_way(came, at), what]))
                elif after not in came:
                    came[after] = (at, what)
                    coming.append(after)
            if quiet:
                found.ends[moves.status(at)] += 1
                for wrong in _wrong(moves, story, first, at):
                    found.violations.append((wrong, _way(came, at)))
            if (found.violations and stop) or len(came) > most:
                found.moments, found.complete = len(came), False
                return
        level = coming
    found.moments = len(came)


def _wrong(moves: Moves, story: Story, first: Snapshot, last: Snapshot) -> list[str]:
    late: list[str] = []
    if story.prompt and (took := epoch(moves.item(last.tables)["updated_at"]["S"]) - first.now):
        late.append(f"it took {took:.0f} s longer")
    remains = Remains(moves.replay, moves.shelf[last.tables], last)
    chains = [
        sentence for state in remains.states() for sentence in check_chain(state, remains.everything(state.saga_id))
    ]
    tables, settings = moves.shelf[last.tables], moves.replay.settings
    blueprints = check_blueprints(tables.items(settings.sagas_table), tables.items(settings.audit_table))
    return check_rest(remains) + check_families(remains) + chains + remains.half_purged() + late + [*blueprints]


def _way(came: dict[Snapshot, tuple[Snapshot, str] | None], at: Snapshot) -> list[str]:
    way: list[str] = []
    while (step := came[at]) is not None:
        at, what = step
        way.append(what)
    return way[::-1]
