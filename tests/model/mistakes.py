"""Mistakes about releases, each of which the pairs have to notice: by name, what takes the place of what."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any, cast
from unittest.mock import patch

from msgspec.structs import replace

from sagas.core import arrivals, automaton, rules, transitions, undoing
from sagas.core import events as ev
from sagas.core.commands import Decision
from sagas.core.events import Failure
from sagas.core.fit import Deployed, Fit, fit
from sagas.core.rules import Plan
from sagas.core.states import SagaState, StepState, StepStatus
from sagas.engine import registry

_MODULES = (arrivals, automaton, rules, transitions, undoing)
_settled = cast("Any", automaton)._settled
_next_undo, _misfit = rules.next_undo, rules.misfit


def _undo_of_the_release_only(was: StepState, now: Deployed | None, saga: str = "") -> Fit:
    owed = now is not None and now.kind == was.waits_for and now.undo
    return fit(was, now, saga)._replace(owes_undo=owed)


def _undo_of_another_kind(was: StepState, now: Deployed | None, saga: str = "") -> Fit:
    return fit(was, now, saga)._replace(owes_undo=was.undo or (now is not None and now.undo))


def _any_kind_runs(was: StepState, now: Deployed | None, saga: str = "") -> Fit:
    judged = fit(was, now, saga)
    return judged if now is None else judged._replace(forward=None)


def _at_once(plan: Plan, state: SagaState, now: float) -> bool:
    return False


def _since_the_last_change(plan: Plan, state: SagaState, now: float) -> bool:
    return now < (state.updated_at if state.settling_since else now) + plan.settle


def _forgotten(plan: Plan, before: SagaState, after: SagaState, event: Any, now: float) -> SagaState:
    kept = replace(before, settling_since=0.0) if isinstance(event, ev.SagaRecovered) else before
    return _settled(plan, kept, after, event, now)


def _what_has_begun(plan: Plan, state: SagaState, now: float) -> Failure | None:
    if state.current is None or state.undoing:
        return _misfit(plan, state, now)
    return plan.steps[state.cursor].forward if rules.forward(state) else None


def _from_the_top(plan: Plan, state: SagaState, below: int) -> SagaState:
    return _next_undo(plan, state, len(state.steps))


def _all_undos(plan: Plan, state: SagaState, fact: ev.SagaRetried, now: float) -> Decision:
    for index, step in enumerate(state.steps):
        if step.status is StepStatus.COMPENSATION_FAILED:
            state = state.with_step(index, replace(step, status=rules.undo_pending(step)))
    after = undoing.committed(state)
    return undoing.proceed(plan, _next_undo(plan, after, len(after.steps)), now)


MISTAKES: dict[str, tuple[str, Any]] = {
    "an undo is owed only where the release has one": ("fit", _undo_of_the_release_only),
    "the undo of another kind counts": ("fit", _undo_of_another_kind),
    "plain code runs in place of a wait": ("fit", _any_kind_runs),
    "nothing waits for a release": ("settles", _at_once),
    "a message that is sent again restarts the time": ("_settled", _forgotten),
    "the time counts from the last change": ("settles", _since_the_last_change),
    "what has begun needs its code": ("misfit", _what_has_begun),
    "each search begins at the top": ("next_undo", _from_the_top),
    "a retry undoes what was passed": ("undos_redriven", _all_undos),
}


@contextmanager
def mistaken(name: str, other: Any) -> Generator[None]:
    """Put ``other`` in the place of a function of that name, wherever it was imported, and in the table."""
    with ExitStack() as stack:
        for module in (*_MODULES, registry):
            original = getattr(module, name, None)
            if original is not None:
                stack.enter_context(patch.object(module, name, other))
                rows = {key: row for key, row in automaton.TABLE.items() if row.apply is original}
                changed = {key: replace(row, apply=other) for key, row in rows.items()}
                stack.enter_context(patch.dict(automaton.TABLE, changed))
        yield
