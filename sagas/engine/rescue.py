"""Looking after one saga that nobody works on: taking over, journaling what is owed, sending a lost message anew."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.commands import Decision, Send, Write
from sagas.core.plan import Plan
from sagas.core.states import Lease, SagaState
from sagas.engine.breaker import Breakers
from sagas.engine.clock import Clock
from sagas.engine.committer import Committed, Committer, EntryContext
from sagas.engine.ports import MessageSender
from sagas.engine.registry import Registry, plan_for
from sagas.engine.worker import message_for
from sagas.store.control import ControlItems

_LEASE = 30.0
"""Seconds for which a saga is held while nothing but the journal is written."""


@dataclass(frozen=True, slots=True)
class Rescue:
    """Does on a saga what needs no user code. Takes the lease before it journals."""

    registry: Registry
    control: ControlItems
    committer: Committer
    sender: MessageSender
    clock: Clock
    breakers: Breakers

    def plan(self, state: SagaState) -> Plan:
        """Return the saga's plan."""
        definition = self.registry.get(state.saga).definition
        return plan_for(definition, (step.name for step in state.steps))

    def lease(self) -> Lease:
        """Return a fresh lease for work without user code."""
        until = round(self.clock.now() + _LEASE, 3)
        return Lease(self.clock.new_owner(), until, until)

    def look_after(self, state: SagaState, actor: str, stale_after: float | None = None) -> SagaState | None:
        """Do whatever is owed on a saga that nobody works on.

        Args:
            state: the saga, by a consistent read.
            actor: who looks after it.
            stale_after: seconds of silence after which its message counts as lost; its type's by default.

        Returns:
            The saga afterwards; the same state if there is nothing to do; ``None`` if somebody else was faster.

        Raises:
            Fenced: somebody else took over meanwhile.
            Unavailable: a table or queue is out of reach.
        """
        plan = self.plan(state)
        judged = plan if stale_after is None else replace(plan, stale_after=stale_after)
        decision = decide(judged, state, ev.StallNoticed(self.lease()), self.clock.now())
        if decision.state is state or self._excused(judged, state, decision):
            return state
        committed = self.carry_out(plan, state, decision, EntryContext(actor=actor))
        return committed.state if committed else None

    def _excused(self, plan: Plan, state: SagaState, decision: Decision) -> bool:
        """Whether the silence may be an open circuit breaker's doing, which is no stall."""
        stalled = any(isinstance(c, Write) and c.fact == ev.Recovered(stall=True) for c in decision.commands)
        return stalled and self.clock.now() < self.postponed_until(state) + plan.stale_after

    def postponed_until(self, state: SagaState) -> float:
        """Return until when (epoch seconds) the current step's circuit breaker explains silence; 0 if it does not."""
        step = state.current
        if state.undoing or step is None:
            return 0.0
        return self.breakers.postponed_until(state.saga, step.name, state.updated_at)

    def carry_out(self, plan: Plan, state: SagaState, decision: Decision, note: EntryContext) -> Committed | None:
        """Claim, journal what was decided, send what follows; ``None`` if the claim was lost to somebody else."""
        write = next(command for command in decision.commands if isinstance(command, Write))
        if not self.control.claim(state, decision.state, plan.stale_after):
            return None
        committed = self.committer.commit(plan, decision.state, write.fact, note)
        for command in committed.commands:
            if isinstance(command, Send):
                self.sender.send(message_for(committed.state, command), command.not_before - self.clock.now())
        return committed
