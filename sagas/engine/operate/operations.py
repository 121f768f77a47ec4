"""Operators' actions on a saga: cancel, retry, compensate, resolve."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from sagas.core.automaton import decide
from sagas.core.commands import (
    Arrival,
    CancelArrived,
    CompensateArrived,
    Refuse,
    ResolveArrived,
    RetryArrived,
    StallNoticed,
)
from sagas.core.ids import children_ids
from sagas.core.states import FanOut, Lease, SagaState, SagaStatus, StepStatus
from sagas.engine.advance import Advancer
from sagas.engine.committer import EntryContext, write_contended
from sagas.engine.read.reader import Reader
from sagas.errors import Conflict, InvalidRequest, Problem, Unavailable
from sagas.store.connection import Fenced
from sagas.store.control.control import ControlItems

_TRIES = 5
_MOST_PROBLEMS = 1_000
"""Maximum number of unknown steps that an error lists."""


class Operations(Struct, frozen=True):
    """Operations on single sagas. Each operation takes the lease before it journals."""

    reader: Reader
    control: ControlItems
    advancer: Advancer

    def cancel(self, name: str, saga_id: str, actor: str, *, reason: str = "", force: bool = False) -> SagaState:
        """Request the cancellation of a saga, and begin undoing it if no step is running.

        An accepted cancel stays accepted if the type is later declared with ``cancellable=False``. Returns the saga:
        CANCELLED if it has ended, otherwise still in flight.
        """
        for _ in range(_TRIES):
            state = self.reader.state(name, saga_id)
            cancellable = self.advancer.registry.get(name).definition.cancellable
            if not cancellable and not state.cancel.at:
                text = f"sagas of type {name} cannot be cancelled: it is declared with cancellable=False"
                raise Conflict(f"{text}; this one is {state.status}")
            # The parent cancels its children, unless it has ended.
            parent = None if force or state.cancel.at else self._waiting_parent(state)
            if parent is not None:
                text = f"this is a child of {parent.saga}/{parent.saga_id}, which is {parent.status}"
                raise Conflict(f"{text}: cancel the parent, or pass --force to cancel only this one")
            request = CancelArrived(actor, reason)
            clock = self.advancer.services.clock
            decision = decide(self.advancer.plan(state), state, request, clock.now())
            if isinstance(decision.then, Refuse):
                raise Conflict(decision.then.reason)
            if decision.state is state and not state.cancel.at:
                return state
            flag = partial(self.control.request_cancel, state, decision.state)
            if decision.state is state or write_contended(clock, flag):
                return self._begin_undoing(self.reader.state(name, saga_id), actor)
        raise Unavailable("the saga was changed by others five times in a row; try again", retry_after=1)

    def _waiting_parent(self, state: SagaState) -> SagaState | None:
        """Return the parent that waits for a saga's end, by a consistent read; ``None`` if there is none."""
        if state.ended or state.parent is None:
            return None
        parent = self.control.get(state.parent.saga_id)
        return None if parent is None or parent.ended else parent

    def _begin_undoing(self, state: SagaState, actor: str) -> SagaState:
        """Act on an accepted cancel. If a worker holds the saga, that worker will do so."""
        try:
            stall = StallNoticed(self.advancer.lease())
            advanced = self.advancer.advance(state, stall, EntryContext(actor=actor))
        except Fenced:
            return self.reader.state(state.saga, state.saga_id)
        return self.reader.state(state.saga, state.saga_id) if advanced.lost_race else advanced.state

    def retry(self, name: str, saga_id: str, reason: str, actor: str) -> SagaState:
        """Grant new attempts to the dead-lettered step or the failed undos, or send an unanswered message again."""
        return self._operate(name, saga_id, actor, lambda lease: RetryArrived(lease, reason), {"reason": reason})

    def compensate(self, name: str, saga_id: str, reason: str, actor: str, *, force: bool = False) -> SagaState:
        """Give up a saga that waits or has failed, and undo it. With ``force``, a COMPLETED saga can also be undone.

        A saga past its pivot requires ``force`` and a ``reason``.
        """
        details = {"reason": reason}
        return self._operate(name, saga_id, actor, lambda lease: CompensateArrived(lease, force, reason), details)

    def resolve(
        self, name: str, saga_id: str, reason: str, action: str, steps: tuple[str, ...], actor: str
    ) -> SagaState:
        """Take a saga off the attention list, with a reason. If a named step has children, they are resolved, too."""
        before = self.reader.state(name, saga_id)
        if before.status is SagaStatus.DEAD_LETTERED and (parent := self._waiting_parent(before)):
            text = f"this is a child of {parent.saga}/{parent.saga_id}, which waits for it"
            raise Conflict(f"{text}: retry it, compensate it, or cancel it with --force")
        return self._resolve(before, reason, action, steps, actor)

    def _resolve(self, before: SagaState, reason: str, action: str, steps: tuple[str, ...], actor: str) -> SagaState:
        names = [step.name for step in before.steps]
        unknown = [Problem(f"$.steps[{i}]", "no such step") for i, step in enumerate(steps) if step not in names]
        if unknown:
            raise InvalidRequest("unknown steps", unknown[:_MOST_PROBLEMS])
        # Also resolve children of these steps that need an operator. Their failed undos count as done by hand.
        selected = tuple(step if step.name in steps else replace(step, fan_out=FanOut()) for step in before.steps)
        for child in self.control.get_many(children_ids(replace(before, steps=selected)), consistent=True).values():
            if child.attention and (child.ended or child.status is SagaStatus.DEAD_LETTERED):
                failed = (step for step in child.steps if step.status is StepStatus.COMPENSATION_FAILED)
                by_hand = tuple(step.name for step in failed) if child.ended else ()
                self._resolve(child, reason, action, by_hand, actor)
        return self._operate(
            before.saga, before.saga_id, actor, lambda lease: ResolveArrived(lease, reason, action, steps)
        )

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
            # If the commit only completed a predecessor's work, try again, because the request was not decided yet.
            if not advanced.lost_race and not advanced.adopted:
                return advanced.state
        raise Unavailable("the saga was changed by others five times in a row; try again", retry_after=1)
