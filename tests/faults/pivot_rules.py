"""The rule that a saga only goes forward once its pivot has completed, each part to be switched off as those in
``rules.py``."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any, cast
from unittest.mock import patch

from msgspec import structs
from msgspec.structs import replace

from sagas.core import arrivals, automaton, rules, transitions, undoing
from sagas.core import events as ev
from sagas.core.commands import CancelArrived, CompensateArrived, Decision
from sagas.core.events import Failure
from sagas.core.rules import Plan, Policy, forward
from sagas.core.states import Cancel, SagaState, StepStatus
from sagas.engine import children
from sagas.store.control.control import ControlItems
from sagas.testing.faults import Fault, Point
from tests.faults.rules import Life, Orders, Rules

PIVOT_RULES = Rules()
_rule = PIVOT_RULES.rule


def _plain(state: SagaState) -> SagaState:
    """The saga as one without a pivot."""
    return structs.replace(state, steps=tuple(structs.replace(step, pivot=False) for step in state.steps))


def _marked(after: SagaState, before: SagaState) -> SagaState:
    steps = zip(after.steps, before.steps, strict=True)
    return structs.replace(after, steps=tuple(structs.replace(step, pivot=was.pivot) for step, was in steps))


@contextmanager
def _rows_blind(*events: type[Any]) -> Generator[None]:
    """Have the automaton decide about some events as if no saga had a pivot."""

    def blind(apply: Callable[..., Decision]) -> Callable[..., Decision]:
        def applied(plan: Plan, state: SagaState, event: Any, now: float) -> Decision:
            if not state.past_pivot:
                return apply(plan, state, event, now)
            plain = _plain(state)
            decision = apply(plan, plain, event, now)
            after = state if decision.state is plain else _marked(decision.state, state)
            return structs.replace(decision, state=after)

        return applied

    rows = {key: replace(row, apply=blind(row.apply)) for key, row in automaton.TABLE.items() if key[1] in events}
    with patch.object(automaton, "TABLE", automaton.TABLE | rows):
        yield


@contextmanager
def _in_place(name: str, other: Callable[..., Any]) -> Generator[None]:
    """Put ``other`` in the place of a function of ``core.rules``, wherever the core imported it."""
    with ExitStack() as stack:
        for module in (rules, transitions, undoing, arrivals):
            if hasattr(module, name):
                stack.enter_context(patch.object(module, name, other))
        yield


@_rule("17: a cancel is refused", Life("pivot_then_exhausted_and_retried, chained", Point(29, Fault.LATE, 3)))
def _pivots_take_cancels() -> Generator[None]:
    request = ControlItems.request_cancel

    def unminding(self: Any, before: SagaState, after: SagaState) -> bool:
        return request(self, _plain(before), after)

    with _rows_blind(CancelArrived), patch.object(ControlItems, "request_cancel", unminding):
        yield


@_rule("17: no cancel is written behind it that was decided before", Orders("chained: a pivot and a cancel"))
def _pivots_overlook_late_cancels() -> Generator[None]:
    request = ControlItems.request_cancel

    def unminding(self: Any, before: SagaState, after: SagaState) -> bool:
        return request(self, _plain(before), after)

    with patch.object(ControlItems, "request_cancel", unminding):
        yield


@_rule(
    "17: a cancel that was accepted before comes to nothing",
    Life("pivot_last_and_cancelled_during, chained"),
    Orders("chained: a pivot and a cancel"),
)
def _pivots_obey_earlier_cancels() -> Generator[None]:
    with _rows_blind(ev.CancelRequested):
        yield


@_rule("17: the deadline undoes nothing", Life("pivot_then_overdue"))
def _pivots_obey_deadlines() -> Generator[None]:
    def turned(plan: Plan, state: SagaState, fact: ev.SagaTimedOut, now: float) -> Decision:
        asked = structs.replace(_plain(state), cancel=Cancel(now, ev.DEADLINE))
        decision = undoing.saga_timed_out(plan, asked, fact, now)
        return structs.replace(decision, state=_marked(decision.state, state))

    rows = {key: replace(row, apply=turned) for key, row in automaton.TABLE.items() if key[1] is ev.SagaTimedOut}
    with patch.object(automaton, "TABLE", automaton.TABLE | rows):
        yield


@_rule("17: an overdue saga says that its deadline has passed", Life("pivot_then_overdue"))
def _pivots_hide_deadlines() -> Generator[None]:
    owed = rules.owed_by_time

    def silent(plan: Plan, state: SagaState, now: float) -> ev.Fact | None:
        return owed(plan, _plain(state), now)

    with _in_place("owed_by_time", silent):
        yield


@_rule(
    "17: what fails for good behind it waits for an operator",
    Life("pivot_in_doubt_and_undone_by_force"),
    Orders("a pivot, a step that is refused and a cancel"),
)
def _pivots_let_failures_undo() -> Generator[None]:
    policy = rules.exhausted_policy

    def unminding(plan: Plan, state: SagaState, step: Any, *, rejected: bool) -> Policy | Failure:
        return policy(plan, _plain(state), step, rejected=rejected)

    with _in_place("exhausted_policy", unminding):
        yield


@_rule("17: what is given up behind it waits for an operator", Life("pivot_then_messages_lost_beyond_patience"))
def _pivots_let_recovery_undo() -> Generator[None]:
    next_fact = rules.next_fact

    def unminding(plan: Plan, state: SagaState, now: float) -> ev.Fact | None:
        return next_fact(plan, _plain(state) if forward(state) and state.recovery.exhausted else state, now)

    with _in_place("next_fact", unminding):
        yield


@_rule(
    "17: one in doubt counts as completed",
    Life("pivot_last_and_cancelled_during, chained", Point(13, Fault.DIES_BEFORE)),
)
def _pivots_in_doubt_do_not_count() -> Generator[None]:
    def completed(state: SagaState) -> str:
        return next((one.name for one in state.steps if one.pivot and one.status is StepStatus.COMPLETED), "")

    with patch.object(SagaState, "past_pivot", property(completed)):
        yield


@_rule("17: an operator says that it is meant", Life("pivot_then_undone_by_force_while_it_waits"))
def _pivots_take_any_compensation() -> Generator[None]:
    with _rows_blind(CompensateArrived):
        yield


@_rule("17: no parent has a child undone", Life("pivot_of_a_child_undone_by_force"))
def _pivots_obey_parents() -> Generator[None]:
    order, already = rules.order_to_obey, cast("Any", children)._undone_already

    def obeyed(state: SagaState) -> ev.Fact | None:
        return order(_plain(state))

    def unminding(child: SagaState | None, number: int) -> str:
        return already(child and _plain(child), number)

    with _in_place("order_to_obey", obeyed), patch.object(children, "_undone_already", unminding):
        yield
