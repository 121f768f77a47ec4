"""What people do to a saga: cancel it, retry it, have it undone, settle it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.commands import Decision, Refuse, Send, Write
from sagas.core.plan import Plan
from sagas.core.states import Lease, SagaState
from sagas.engine.clock import Clock
from sagas.engine.ports import Postbox
from sagas.engine.reader import Reader
from sagas.engine.registry import plan_for
from sagas.engine.settler import Note, Settler
from sagas.engine.worker import message_for
from sagas.errors import Conflict, InvalidRequest, Problem, Unavailable
from sagas.store.control import ControlItems
from sagas.store.faults import Fenced

__all__ = ["Operations"]

_TRIES = 5
_LEASE = 30.0
"""Seconds an operation holds a saga at most: an API call's own limit."""


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations on single sagas. Each takes the lease before it journals."""

    reader: Reader
    control: ControlItems
    settler: Settler
    postbox: Postbox
    clock: Clock

    def cancel(self, name: str, saga_id: str, actor: str) -> SagaState:
        """Ask for a saga to be cancelled, and begin undoing it if no step is running.

        Returns:
            The saga: CANCELLED if it is over, else still on its way.

        Raises:
            NotFound: there is no such saga.
            Conflict: it is over.
        """
        for _ in range(_TRIES):
            state = self.reader.state(name, saga_id)
            decision = decide(self._plan(state), state, ev.CancelAsked(actor), self.clock.now())
            _refuse(decision)
            if decision.state is state:
                return state
            if self.control.request_cancel(state, decision.state):
                return self.look_after(name, saga_id, actor)
        raise Unavailable("the saga changes too fast; try again", retry_after=1)

    def look_after(self, name: str, saga_id: str, actor: str) -> SagaState:
        """Do whatever is owed on a saga that nobody works on; leave it alone if somebody does."""
        state = self.reader.state(name, saga_id)
        plan = self._plan(state)
        decision = decide(plan, state, ev.StallNoticed(self._lease()), self.clock.now())
        if decision.state is state:
            return state
        try:
            return self._carry_out(plan, state, decision, actor) or state
        except Fenced:
            return self.reader.state(name, saga_id)

    def retry(self, name: str, saga_id: str, note: str, actor: str) -> SagaState:
        """Grant what failed a new budget: the dead-lettered step, or the failed undos.

        Raises:
            NotFound: there is no such saga.
            Conflict: nothing of it can be retried.
        """
        return self._operate(name, saga_id, actor, lambda lease: ev.RetryAsked(lease, note))

    def compensate(self, name: str, saga_id: str, note: str, actor: str) -> SagaState:
        """Give up on a saga that waits or has failed, and have it undone.

        Raises:
            NotFound: there is no such saga.
            Conflict: it is neither DEAD_LETTERED nor FAILED.
        """
        return self._operate(name, saga_id, actor, ev.CompensateAsked, {"note": note} if note else None)

    def resolve(self, name: str, saga_id: str, note: str, action: str, steps: tuple[str, ...], actor: str) -> SagaState:
        """Take a saga off the attention list, with a note of what was done.

        Args:
            name: the saga type.
            saga_id: the saga.
            note: why it is settled.
            action: what was done.
            steps: names of steps whose undo was done by hand.
            actor: who says so.

        Raises:
            NotFound: there is no such saga.
            Conflict: it needs no attention.
            InvalidRequest: a step is unknown.
        """
        names = [step.name for step in self.reader.state(name, saga_id).steps]
        unknown = [Problem(f"$.steps[{i}]", "no such step") for i, step in enumerate(steps) if step not in names]
        if unknown:
            raise InvalidRequest("unknown steps", unknown)
        by_hand = tuple(names.index(step) for step in steps)
        return self._operate(name, saga_id, actor, lambda lease: ev.ResolveAsked(lease, note, action, by_hand))

    def _operate(
        self,
        name: str,
        saga_id: str,
        actor: str,
        arrival: Callable[[Lease], ev.Arrival],
        details: dict[str, str] | None = None,
    ) -> SagaState:
        for _ in range(_TRIES):
            state = self.reader.state(name, saga_id)
            plan = self._plan(state)
            decision = decide(plan, state, arrival(self._lease()), self.clock.now())
            _refuse(decision)
            try:
                after = self._carry_out(plan, state, decision, actor, details)
            except Fenced:
                continue
            if after is not None:
                return after
        raise Unavailable("the saga changes too fast; try again", retry_after=1)

    def _carry_out(
        self, plan: Plan, state: SagaState, decision: Decision, actor: str, details: dict[str, str] | None = None
    ) -> SagaState | None:
        """Claim, journal what was decided, send what follows; ``None`` if the claim was lost to somebody else."""
        write = next(command for command in decision.commands if isinstance(command, Write))
        if not self.control.claim(state, decision.state, plan.stale_after):
            return None
        note = Note(actor=actor, details=dict(details or {}))
        settled = self.settler.settle(plan, decision.state, write.fact, note)
        for command in settled.commands:
            if isinstance(command, Send):
                self.postbox.send(message_for(settled.state, command), command.not_before - self.clock.now())
        return settled.state

    def _plan(self, state: SagaState) -> Plan:
        definition = self.reader.registry.get(state.saga).definition
        return plan_for(definition, (step.name for step in state.steps))

    def _lease(self) -> Lease:
        until = round(self.clock.now() + _LEASE, 3)
        return Lease(self.clock.new_owner(), until, until)


def _refuse(decision: Decision) -> None:
    for command in decision.commands:
        if isinstance(command, Refuse):
            raise Conflict(command.reason)
