"""Short ways to write states, plans and events down."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.commands import Decision, Event, MessageArrived, Send, Then
from sagas.core.rules import ForwardPlan, Plan, StepPlan, UndoPlan
from sagas.core.states import Attempts, Lease, SagaState, SagaStatus, StepState, StepStatus

S = SagaStatus
T = StepStatus
NOW = 1_000.0
MINE = Lease("mine", NOW + 10, NOW + 30)
"""What a worker, the supervisor or an operator would take."""
HELD = Lease("theirs", NOW + 10, NOW + 20)
LAPSED = Lease("theirs", NOW - 1, NOW + 20)
"""Expired, but its holder may act for another twenty seconds."""
BOOM = ev.Failure("RuntimeError", "boom")


def plan(*policies: str, undo: bool = True, **given: Any) -> Plan:
    """A plan of two executions a step and undo. ``policies``: what happens on exhaustion; COMPENSATE twice if none."""
    chosen: Any = policies or ("COMPENSATE", "COMPENSATE")
    started = bool(given.pop("started", False))
    return Plan(
        tuple(StepPlan(ForwardPlan(2, policy), UndoPlan(2, started), owes_undo=undo) for policy in chosen),
        **given,
    )


def step(status: StepStatus = T.PENDING, **given: Any) -> StepState:
    """A step whose counters fit its status unless they are given."""
    fitting: dict[StepStatus, dict[str, Any]] = {
        T.RUNNING: {"attempts": 1},
        T.RETRYING: {"attempts": 1},
        T.FAILED: {"attempts": 2},
        T.COMPLETED: {"attempts": 1, "result_seq": 2},
        T.COMPENSATING: {"attempts": 1, "result_seq": 2, "undo_attempts": 1},
        T.COMPENSATED: {"attempts": 1, "result_seq": 2, "undo_attempts": 1},
        T.COMPENSATION_FAILED: {"attempts": 1, "result_seq": 2, "undo_attempts": 2},
    }
    values: dict[str, Any] = {"name": "step", "status": status, **fitting.get(status, {}), **given}
    values |= {name: Attempts(values[name]) for name in ("attempts", "undo_attempts") if name in values}
    return StepState(**values)


def saga(status: SagaStatus, *steps: StepState | StepStatus, **given: Any) -> SagaState:
    """A saga with those steps, each by itself or by its status; nobody holds it."""
    made = (item if isinstance(item, StepState) else step(item) for item in steps)
    named = tuple(replace(item, name=f"step{index}") for index, item in enumerate(made))
    values: dict[str, Any] = {"saga_id": "id", "saga": "saga", "version": "1", "steps": named, **given}
    return SagaState(status=status, **values)


def message(state: SagaState, **given: Any) -> MessageArrived:
    """The saga's current message."""
    index = min(state.cursor, len(state.steps) - 1)
    values: dict[str, Any] = {"dispatch": state.dispatch, "hops": 0, "message_id": "m", "lease": MINE, **given}
    return MessageArrived(index, state.undoing, **values)


def apply(state: SagaState, event: Event, *, by: Plan | None = None, now: float = NOW) -> Decision:
    """What the automaton decides, by a plan of COMPENSATE everywhere unless another is given."""
    return decide(by or plan(*["COMPENSATE"] * len(state.steps)), state, event, now)


def after(state: SagaState, *facts: Event, by: Plan | None = None, now: float = NOW) -> SagaState:
    """The state after some events, each of which must change something."""
    for fact in facts:
        decision = apply(state, fact, by=by, now=now)
        assert decision.state is not state, f"{fact} changed nothing"
        state = decision.state
    return state


def commands(decision: Decision) -> tuple[Then | Send, ...]:
    """What follows from a decision, the message first."""
    return tuple(command for command in (decision.send, decision.then) if command is not None)
