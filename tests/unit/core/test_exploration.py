"""The automaton in every world that a few misfortunes can make, and proof that the search would notice a mistake.

The gate explores small budgets of misfortune. ``SAGAS_EXPLORE=full`` explores larger ones, which takes minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from sagas.core import arrivals, facts, rules
from sagas.core import events as ev
from sagas.core.commands import Decision, Write
from sagas.core.plan import Plan, StepPlan
from sagas.core.states import Lease, SagaState, SagaStatus, StepState
from tests.unit.core.exploration import Report, explore
from tests.unit.core.moves import Moves
from tests.unit.core.world import Budget, initial

FULL = os.environ.get("SAGAS_EXPLORE") == "full"
LIMIT = 400_000 if FULL else 100_000
COMPENSATE, FAIL, DEAD_LETTER = "COMPENSATE", "FAIL", "DEAD_LETTER"


class Case(NamedTuple):
    """A plan of two steps, and what befalls it."""

    budget: Budget
    policies: tuple[str, str] = (COMPENSATE, COMPENSATE)
    executions: int = 1
    undo_executions: int = 1
    undo: bool = True
    started: bool = False
    patience: int = 1
    gone: tuple[int, ...] = ()
    undo_gone: bool = False

    def explore(self, limit: int = LIMIT) -> Report:
        chosen: Any = self.policies
        steps = (StepPlan(self.executions, policy, self.undo, self.undo_executions, self.started) for policy in chosen)
        plans = tuple(StepPlan(code_missing=True) if index in self.gone else plan for index, plan in enumerate(steps))
        start = initial(2, self.budget)
        if self.undo_gone:
            known = tuple(replace(step, undo=True) for step in start.control.steps)
            start = start._replace(control=replace(start.control, steps=known))
        return explore(start, Moves(Plan(plans, self.patience, 0.0)), limit)


GATE = {
    "nothing happens": Case(Budget(), executions=2, undo_executions=2),
    "a crash": Case(Budget(crash=1), executions=2, undo_executions=2),
    "a pause": Case(Budget(pause=1), executions=2, undo_executions=2),
    "a cancel": Case(Budget(cancel=1), executions=2),
    "a duplicate and a loss": Case(Budget(duplicate=1, loss=1), executions=2),
    "losses beyond patience": Case(Budget(loss=3)),
    "an impatient supervisor": Case(Budget(impatience=2, pause=1), patience=0),
    "lost answers and a pause": Case(Budget(unanswered=1, pause=1)),
    "a pause and a cancel": Case(Budget(pause=1, cancel=1), undo=False),
    "two pauses": Case(Budget(pause=2), undo=False),
    "undone when started": Case(Budget(pause=1), started=True, executions=2),
    "a dead letter redriven": Case(Budget(redrive=1, crash=1), (COMPENSATE, DEAD_LETTER)),
    "a dead letter duplicated": Case(Budget(redrive=1, duplicate=1), (COMPENSATE, DEAD_LETTER)),
    "a dead letter cancelled": Case(Budget(cancel=1, pause=1), (DEAD_LETTER, COMPENSATE), undo=False),
    "a dead letter retried": Case(Budget(retry=1, pause=1, redrive=1), (COMPENSATE, DEAD_LETTER)),
    "a dead letter given up": Case(Budget(compensate=1, pause=1, retry=1), (DEAD_LETTER, DEAD_LETTER)),
    "a failed saga undone": Case(Budget(compensate=1, pause=1, crash=1), (COMPENSATE, FAIL)),
    "failed undos retried": Case(Budget(retry=1, crash=1)),
    "the first step's code is gone": Case(Budget(retry=1, crash=1, duplicate=1, cancel=1), gone=(0,)),
    "the second step's code is gone": Case(Budget(retry=1, crash=1, cancel=1, compensate=1), gone=(1,)),
    "a step's code is gone, a message too": Case(Budget(loss=2, pause=1, retry=1), gone=(1,)),
    "the undos' code is gone": Case(Budget(retry=1, crash=1, cancel=1), undo=False, undo_gone=True),
}

LONG = {
    "two pauses and retries": Case(Budget(pause=2), undo=False, executions=2),
    "a dead letter, crash and duplicate": Case(Budget(redrive=1, duplicate=1, crash=1), (COMPENSATE, DEAD_LETTER)),
    "a dead letter, cancel and pause": Case(Budget(cancel=1, pause=1), (DEAD_LETTER, COMPENSATE)),
    "crash, pause, cancel": Case(Budget(crash=1, pause=1, cancel=1)),
    "two crashes, a pause": Case(Budget(crash=2, pause=1), executions=2),
    "two pauses, a cancel": Case(Budget(pause=2, cancel=1)),
    "crash, duplicate, cancel": Case(Budget(crash=1, duplicate=1, cancel=1)),
    "undone when started, cancelled": Case(Budget(crash=1, pause=1, cancel=1), started=True),
    "a dead letter and everybody": Case(
        Budget(crash=1, pause=1, cancel=1, redrive=1, retry=1, compensate=1), (COMPENSATE, DEAD_LETTER)
    ),
    "a failed saga and everybody": Case(Budget(crash=1, pause=1, retry=1, compensate=1), (COMPENSATE, FAIL)),
    "lost answers, crash, cancel": Case(Budget(unanswered=1, crash=1, cancel=1)),
    "losses, pause, cancel": Case(Budget(loss=2, pause=1, cancel=1)),
    "impatience, pause, cancel": Case(Budget(impatience=2, pause=1, cancel=1), patience=0),
}


@pytest.mark.parametrize("name", GATE)
def test_no_invariant_fails(name: str) -> None:
    report = GATE[name].explore()
    assert not report.violation, str(report)
    assert report.complete, str(report)


@pytest.mark.skipif(not FULL, reason="takes minutes: SAGAS_EXPLORE=full")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", LONG)
def test_no_invariant_fails_in_longer_searches(name: str) -> None:
    report = LONG[name].explore()
    print(f"\n{name}: {report}")
    assert not report.violation, str(report)


# ---- mistakes, each of which must be noticed


def _waits_never(state: SagaState, fact: ev.Fact | None, now: float) -> bool:
    return False


def _fence_tells_nothing(plan: Plan, state: SagaState, now: float) -> ev.Fact:
    return ev.Recovered(stall=False)


def _no(*given: Any) -> bool:
    return False


def _owes_nothing_to_a_cancel(plan: Plan, state: SagaState) -> ev.Fact | None:
    return _OWED(plan, replace(state, cancel_requested_at=0.0))


_OWED = rules.next_fact


def _undoing_is_never_given_up(plan: Plan, state: SagaState) -> ev.Fact | None:
    fact = _OWED(plan, state)
    return None if isinstance(fact, ev.RecoveryExhausted) and state.undoing else fact


def _given_up_is_failed(plan: Plan, state: SagaState) -> SagaState:
    after = _NEXT_UNDO(plan, state)
    failed = after.over and state.recovery_exhausted and state.undoing
    return replace(after, status=SagaStatus.COMPENSATION_FAILED) if failed else after


_NEXT_UNDO = rules.next_undo


def _any_message_revives(state: SagaState, event: ev.MessageArrived) -> Decision:
    claimed = replace(state, lease=event.lease, token=state.token + 1)
    return Decision(claimed, Write(ev.Redriven()))


def _takes_over_without_a_trace(plan: Plan, state: SagaState, lease: Lease, now: float) -> Decision:
    after = replace(state, lease=lease, token=state.token + 1, dispatch=state.dispatch + 1)
    return Decision(after, Write(rules.takeover_fact(plan, after, now)))


def _counts_no_attempt(state: SagaState) -> Decision:
    decision = _RUN(state)
    steps = zip(decision.state.steps, state.steps, strict=True)
    same = (replace(now, attempts=was.attempts, undo_attempts=was.undo_attempts) for now, was in steps)
    return replace(decision, state=replace(decision.state, steps=tuple(same)))


_RUN: Callable[[SagaState], Decision] = getattr(arrivals, "_run")  # noqa: B009 - a private name, to be broken


def _forgets_what_was_lost(state: SagaState, index: int, step: StepState) -> SagaState:
    return _WITH_STEP(state, index, replace(step, outcome_unknown=False))


_WITH_STEP = SagaState.with_step

MISTAKES: list[tuple[str, str, Callable[..., Any], tuple[Any, ...], str]] = [
    ("a pause", "waits", _waits_never, (rules, facts, arrivals), "I1: step 0 runs while"),
    ("a crash", "takeover_fact", _fence_tells_nothing, (arrivals,), "I5: the holder's own Recovered"),
    ("nothing happens", "undoable", _no, (rules,), "I4: step 0 completed, was not undone"),
    ("a crash", "_interrupted", _no, (arrivals,), "I7"),
    ("a cancel", "next_fact", _owes_nothing_to_a_cancel, (rules, facts, arrivals), "I7"),
    (
        "losses beyond patience",
        "next_fact",
        _undoing_is_never_given_up,
        (rules, facts, arrivals),
        "I5: it stalls beyond its patience",
    ),
    (
        "losses beyond patience",
        "next_undo",
        _given_up_is_failed,
        (rules, facts),
        "I4: COMPENSATION_FAILED, but no undo failed",
    ),
    ("nothing happens", "out_of_budget", _no, (rules, facts), "I6: step 0 runs too often"),
    ("a crash", "undo_out_of_budget", _no, (rules, facts), "I6: the undo of step 0 runs too often"),
    ("a dead letter duplicated", "_dead_arrived", _any_message_revives, (arrivals,), "I6"),
    ("a pause", "_taken_over", _takes_over_without_a_trace, (arrivals,), "I1"),
    ("nothing happens", "_run", _counts_no_attempt, (arrivals,), "I6"),
    ("a pause", "with_step", _forgets_what_was_lost, (SagaState,), "I4: a lost attempt of step 0 is forgotten"),
]


@pytest.mark.parametrize(("case", "name", "mistake", "places", "found"), MISTAKES)
def test_a_mistake_is_noticed(
    case: str,
    name: str,
    mistake: Callable[..., Any],
    places: tuple[Any, ...],
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for place in places:
        monkeypatch.setattr(place, name, mistake)
    assert GATE[case].explore().violation.startswith(found)
