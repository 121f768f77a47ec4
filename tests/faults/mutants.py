"""The rules of the commit protocol, each switched off: an exploration that finds nothing then proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast
from unittest.mock import patch

from sagas.core import arrivals, facts, rules
from sagas.core import events as ev
from sagas.core.states import SagaState
from sagas.engine.recovery import Recovery, Report
from sagas.errors import Ambiguous
from sagas.store.control import ControlItems
from sagas.store.entries import Entry
from sagas.store.faults import Refused
from sagas.store.journal import Journal
from sagas.testing.faults import DEATHS, DELAYS, LOST_ANSWERS, Fault
from tests.faults.explore import Figures, explore
from tests.faults.world import World

__all__ = ["MUTANTS", "Mutant", "missed"]

Off = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule switched off, and where that should be noticed."""

    rule: str
    off: Off
    scenarios: tuple[str, ...]
    faults: Sequence[Fault] = DEATHS
    bounds: tuple[int, ...] = (1, 2, 3, 4)
    at_once: int = 1


MUTANTS: dict[str, Mutant] = {}
_control, _journal = cast("Any", ControlItems), cast("Any", Journal)


def _mutant(
    rule: str, *scenarios: str, faults: Sequence[Fault] = DEATHS, at_once: int = 1
) -> Callable[[Callable[[], Generator[None]]], Callable[[], Generator[None]]]:
    def add(off: Callable[[], Generator[None]]) -> Callable[[], Generator[None]]:
        name = off.__name__.strip("_")
        MUTANTS[name] = Mutant(rule, contextmanager(off), scenarios, faults, at_once=at_once)
        return off

    return add


def _no_cancel(control: Any, condition: Any, before: SagaState, after: SagaState) -> Any:
    """The rest of a commit's condition, unchanged."""
    ignoring = before.status.value in ("PENDING", "RUNNING") and not before.cancel_requested_at and not after.undoing
    return condition & control._tables.control.cancel_requested_at.does_not_exist() if ignoring else condition


@_mutant("2: entries are write-once", "short_lease", "short_lease_undone", faults=DELAYS)
def _entries_overwrite() -> Generator[None]:
    with patch.object(Journal, "vacant", property(lambda journal: None)):
        yield


@_mutant("1, 3: only a lease holder commits, and only the open slot", "short_lease", faults=DELAYS)
def _commit_without_token_and_seq() -> Generator[None]:
    """Either alone is not missed here: the other stands in for it."""

    def mine(self: Any, before: SagaState, after: SagaState) -> Any:
        return _no_cancel(self, self._tables.control.token.exists(), before, after)

    with patch.object(ControlItems, "_mine", mine):
        yield


@_mutant("4: a takeover fences first", "happy", "rejected")
def _takeover_without_fence() -> Generator[None]:
    def no_fence(plan: Any, state: SagaState, now: float) -> ev.Fact:
        return ev.Recovered(stall=False)

    with patch.object(arrivals, "fence", no_fence):
        yield


@_mutant("5: undoing waits", "short_lease", faults=DELAYS)
def _undoing_does_not_wait() -> Generator[None]:
    def never(state: SagaState, fact: Any, now: float) -> bool:
        return False

    with ExitStack() as stack:
        for module in (arrivals, facts, rules):
            stack.enter_context(patch.object(module, "waits", never))
        yield


@_mutant("6: attempts are counted at the claim", "happy", "exhausted_compensate")
def _attempts_not_counted() -> Generator[None]:
    claim = _control._claim

    def uncounted(self: Any, saga_id: str, condition: Any, actions: list[Any], lease: Any) -> Any:
        return claim(self, saga_id, condition, [action for i, action in enumerate(actions) if i != 1], lease)

    with patch.object(ControlItems, "_claim", uncounted):
        yield


@_mutant("8: a stale message runs nothing", "slow_message_overtaken", "every_message_again_and_again", "message_lost")
def _stale_messages_run() -> Generator[None]:
    claim = _control.claim_step

    def current(self: Any, saga_id: str, index: int, dispatch: int, *rest: Any) -> Any:
        state = self.get(saga_id)
        return claim(self, saga_id, index, state.dispatch if state else dispatch, *rest)

    with patch.object(ControlItems, "claim_step", current):
        yield


@_mutant("9: what stalls is recovered", "message_lost", "happy")
def _nobody_recovers() -> Generator[None]:
    def idle(self: Any, budget: float) -> Report:
        return Report()

    with patch.object(Recovery, "run", idle):
        yield


@_mutant("10: own claims are recognised", "happy", "rejected", faults=LOST_ANSWERS)
def _own_claims_not_recognised() -> Generator[None]:
    def nobodys(self: Any, saga_id: str, lease: Any) -> None:
        return None

    with patch.object(ControlItems, "_own_claim", nobodys):
        yield


@_mutant("10: a lost answer is no success", "happy", "rejected", faults=LOST_ANSWERS)
def _lost_answers_count_as_success() -> Generator[None]:
    put = _journal.put

    def hopeful(self: Any, entry: Entry) -> Entry:
        try:
            return put(self, entry)
        except Ambiguous:
            return entry

    with patch.object(Journal, "put", hopeful):
        yield


@_mutant("5: a takeover remembers until when its predecessor may act", "short_lease", faults=DELAYS)
def _takeover_forgets_the_deadline() -> Generator[None]:
    taken = cast("Any", arrivals)._taken_over

    def forgetful(plan: Any, state: SagaState, lease: Any, now: float) -> Any:
        lease_now = replace(state.lease, act_until=0.0) if state.lease else None
        return taken(plan, replace(state, lease=lease_now), lease, now)

    with patch.object(arrivals, "_taken_over", forgetful):
        yield


@_mutant("12: the last entry tells the truth", "happy", "cancel_during_the_last_step", faults=DELAYS)
def _the_end_in_two_writes() -> Generator[None]:
    def finish(self: Any, entry: Entry, before: SagaState, after: SagaState, stale: float, journal: Journal) -> None:
        if journal.put(entry) is not entry:
            raise Refused("taken")
        self.commit(before, after, stale)

    with patch.object(ControlItems, "finish", finish):
        yield


@_mutant("an accepted cancel never ends COMPLETED", "cancel_during_the_last_step", "happy", faults=DELAYS)
def _commit_ignores_the_cancel() -> Generator[None]:
    def mine(self: Any, before: SagaState, after: SagaState) -> Any:
        model = self._tables.control
        return (model.token == before.token) & (model.seq == before.seq)

    with patch.object(ControlItems, "_mine", mine):
        yield


def missed(world: World, mutant: Mutant) -> Figures:
    """Explore without the rule, until something is violated."""
    with mutant.off():
        return explore(
            world,
            mutant.scenarios,
            faults=mutant.faults,
            bounds=mutant.bounds if mutant.at_once == 1 else (2,),
            at_once=mutant.at_once,
            stop=True,
        )
