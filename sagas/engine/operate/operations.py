"""What people do to a saga: cancel it, retry it, have it undone, settle it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from sagas.core.automaton import decide
from sagas.core.commands import Arrival, CancelAsked, CompensateAsked, ResolveAsked, RetryAsked, StallNoticed
from sagas.core.effects import Refuse
from sagas.core.ids import children_ids
from sagas.core.states import FanOut, Lease, SagaState, SagaStatus, StepStatus
from sagas.engine.advance import Advancer
from sagas.engine.committer import EntryContext
from sagas.engine.contention import patiently
from sagas.engine.read.reader import Reader
from sagas.errors import Conflict, InvalidRequest, Problem, Unavailable
from sagas.store.control.control import ControlItems
from sagas.store.outcomes import Fenced

_TRIES = 5
_MOST_PROBLEMS = 1_000
"""Unknown steps that are told one by one."""


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations on single sagas. Each takes the lease before it journals."""

    reader: Reader
    control: ControlItems
    advancer: Advancer

    def cancel(self, name: str, saga_id: str, actor: str, *, note: str = "", force: bool = False) -> SagaState:
        """Ask for a saga to be cancelled, and begin undoing it if no step is running.

        One whose cancel was accepted before its type was declared with ``cancellable=False`` is answered as ever.
        Returns the saga: CANCELLED if it is over, else still on its way.
        """
        cancellable = self.advancer.registry.get(name).definition.cancellable
        for _ in range(_TRIES):
            state = self.reader.state(name, saga_id)
            if not cancellable and not state.cancel.at:
                told = f"sagas of type {name} cannot be cancelled: it is declared with cancellable=False"
                raise Conflict(f"{told}; this one is {state.status}")
            # A child is left to its parent, as long as that is not over.
            parent = None if force or state.cancel.at else self._waiting_parent(state)
            if parent is not None:
                told = f"the saga is a child of {parent.saga}/{parent.saga_id}, which is {parent.status}"
                raise Conflict(f"{told}: cancel that, or with force this one alone")
            asked = CancelAsked(actor, note)
            clock = self.advancer.services.clock
            decision = decide(self.advancer.plan(state), state, asked, clock.now())
            if isinstance(decision.then, Refuse):
                raise Conflict(decision.then.reason)
            if decision.state is state and not state.cancel.at:
                return state
            flag = partial(self.control.request_cancel, state, decision.state)
            if decision.state is state or patiently(clock, flag):
                return self._begin_undoing(self.reader.state(name, saga_id), actor)
        raise Unavailable("the saga changes too fast; try again", retry_after=1)

    def _waiting_parent(self, state: SagaState) -> SagaState | None:
        """Return the parent that still waits for the end of a saga, by a consistent read; ``None`` if none does."""
        if state.over or state.parent is None:
            return None
        parent = self.control.get(state.parent.saga_id)
        return None if parent is None or parent.over else parent

    def _begin_undoing(self, state: SagaState, actor: str) -> SagaState:
        """Act on an accepted cancel if no worker holds the saga; else its holder will."""
        try:
            stall = StallNoticed(self.advancer.lease())
            advanced = self.advancer.advance(state, stall, EntryContext(actor=actor))
        except Fenced:
            return self.reader.state(state.saga, state.saga_id)
        return self.reader.state(state.saga, state.saga_id) if advanced.beaten else advanced.state

    def retry(self, name: str, saga_id: str, note: str, actor: str) -> SagaState:
        """Grant what failed a new budget: the dead-lettered step, or the failed undos. What nothing answers is sent
        anew at once."""
        return self._operate(name, saga_id, actor, lambda lease: RetryAsked(lease, note), {"note": note})

    def compensate(self, name: str, saga_id: str, note: str, actor: str, *, force: bool = False) -> SagaState:
        """Give up on a saga that waits or has failed, and have it undone; with ``force`` also one that is COMPLETED.

        One that is past its pivot takes ``force`` and a ``note``.
        """
        return self._operate(name, saga_id, actor, lambda lease: CompensateAsked(lease, force, note), {"note": note})

    def resolve(self, name: str, saga_id: str, note: str, action: str, steps: tuple[str, ...], actor: str) -> SagaState:
        """Take a saga off the attention list, with a note of what was done. With a step that has children, these are
        settled, too."""
        before = self.reader.state(name, saga_id)
        if before.status is SagaStatus.DEAD_LETTERED and (parent := self._waiting_parent(before)):
            told = f"its parent {parent.saga}/{parent.saga_id} waits for its end, and a saga that is settled never ends"
            raise Conflict(f"{told}: retry it, compensate it, or cancel it with force")
        return self._resolve(before, note, action, steps, actor)

    def _resolve(self, before: SagaState, note: str, action: str, steps: tuple[str, ...], actor: str) -> SagaState:
        names = [step.name for step in before.steps]
        unknown = [Problem(f"$.steps[{i}]", "no such step") for i, step in enumerate(steps) if step not in names]
        if unknown:
            raise InvalidRequest("unknown steps", unknown[:_MOST_PROBLEMS])
        # With them those of their children that need a person: all that failed of these was undone by hand.
        settled = tuple(one if one.name in steps else replace(one, fan_out=FanOut()) for one in before.steps)
        for child in self.control.get_many(children_ids(replace(before, steps=settled)), consistent=True).values():
            if child.attention and (child.over or child.status is SagaStatus.DEAD_LETTERED):
                failed = (one for one in child.steps if one.status is StepStatus.COMPENSATION_FAILED)
                by_hand = tuple(one.name for one in failed) if child.over else ()
                self._resolve(child, note, action, by_hand, actor)
        return self._operate(before.saga, before.saga_id, actor, lambda lease: ResolveAsked(lease, note, action, steps))

    def _operate(
        self,
        name: str,
        saga_id: str,
        actor: str,
        arrival: Callable[[Lease], Arrival],
        details: dict[str, str] | None = None,
    ) -> SagaState:
        for _ in range(_TRIES):
            state = self.reader.state(name, saga_id)
            context = EntryContext(actor=actor, details=dict(details or {}))
            try:
                advanced = self.advancer.advance(state, arrival(self.advancer.lease()), context)
            except Fenced:
                continue
            # What a predecessor had begun was finished first: what was asked for is still to be done, or refused.
            if not advanced.beaten and not advanced.adopted:
                return advanced.state
        raise Unavailable("the saga changes too fast; try again", retry_after=1)
