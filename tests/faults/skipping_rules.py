"""The rules of steps that are skipped, each to be switched off as those in ``rules.py``."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast
from unittest.mock import patch

from msgspec import structs
from msgspec.structs import replace

from sagas.core import automaton, rules, transitions, undoing
from sagas.core import events as ev
from sagas.core.commands import Decision
from sagas.core.rules import Plan
from sagas.core.states import Lease, SagaState, SagaStatus, StepState, StepStatus
from sagas.engine.attempt.attempt import Attempt
from sagas.engine.committer import Committer
from tests.faults.rules import Life, Orders, Rules

_NOBODYS = Lease("nobody", 0.0, 0.0)
SKIPPING_RULES = Rules()
_rule = SKIPPING_RULES.rule


@_rule("21: the step's own attempt asks", Life("skipped_at_both_ends"), Orders("a skipped step, two deaths"))
def _own_attempts_do_not_ask() -> Generator[None]:
    def unasked(self: Any, *given: Any) -> None:
        return None

    with patch.object(Attempt, "_check_condition", unasked):
        yield


@_rule("21: what may have begun is not SKIPPED", Life("passed_over_after_a_failure"))
def _skipped_after_an_attempt() -> Generator[None]:
    key = SagaStatus.RUNNING, ev.StepSkipped
    row = automaton.TABLE[key]

    def plainly(plan: Plan, state: SagaState, fact: ev.StepSkipped, now: float) -> Decision:
        decision = row.apply(plan, state, fact, now)
        if decision.state is state:
            return decision
        step = replace(decision.state.steps[fact.index], status=StepStatus.SKIPPED, outcome_unknown=False)
        return structs.replace(decision, state=decision.state.with_step(fact.index, step))

    with patch.dict(automaton.TABLE, {key: structs.replace(row, apply=plainly)}):
        yield


@_rule("21: a skipped step owes no undo", Life("skipped_and_undone"))
def _skipped_steps_are_undone() -> Generator[None]:
    owed = rules.undoable

    def likewise(plan: Plan, index: int, step: StepState) -> bool:
        return owed(plan, index, step) or (step.status is StepStatus.SKIPPED and plan.steps[index].owes_undo)

    with patch.object(rules, "undoable", likewise), patch.object(undoing, "undoable", likewise):
        yield


@_rule("1, 21: a step is skipped under the lease that asked", Orders("a skipped step, two workers"))
def _skipped_without_a_lease() -> Generator[None]:
    asked, unclaimed = cast("Any", Committer)._asked, cast("Any", transitions)._unclaimed

    def released(self: Any, plan: Plan, state: SagaState, *rest: Any) -> Decision:
        decision: Decision = asked(self, plan, state, *rest)
        skips = isinstance(getattr(decision.then, "fact", None), ev.StepSkipped)
        return structs.replace(decision, state=structs.replace(decision.state, lease=None)) if skips else decision

    def anyones(state: SagaState, fact: ev.StepSkipped) -> StepState | None:
        return unclaimed(structs.replace(state, lease=state.lease or _NOBODYS), fact)

    with patch.object(Committer, "_asked", released), patch.object(transitions, "_unclaimed", anyones):
        yield
