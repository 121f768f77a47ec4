"""Operators' actions on a saga: cancel, retry, compensate, resolve."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

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
    Visited,
)
from sagas.core.events import CompensationStarted, MessageResent, SagaResolved, SagaRetried
from sagas.core.ids import children_ids
from sagas.core.states import FanOut, Lease, SagaState, SagaStatus, StepStatus
from sagas.engine.advance import Advancer
from sagas.engine.committer import EntryContext, write_contended
from sagas.engine.read.reader import Reader
from sagas.errors import Conflict, InvalidRequest, Problem, StateChanged, Unavailable
from sagas.store.connection import Fenced
from sagas.store.control.control import ControlItems
from sagas.store.journal.entries import Entry, details_of

_TRIES = 5
_MOST_PROBLEMS = 1_000
"""Maximum number of unknown steps that an error lists."""


class _Call(Struct, frozen=True):
    """An operator's call.

    Args:
        actor: the operator.
        seq: the number of the last audit entry of the state that the call names; ``None`` if it names no state.
        arrival: the request, with the operator's lease.
        actions: the actions by which the audit trail may record the call.
        details: what the entry with that action says of the call.
    """

    actor: str
    seq: int | None
    arrival: Callable[[Lease], Arrival]
    actions: tuple[str, ...]
    details: dict[str, Any]

    def is_recorded_by(self, entry: Entry) -> bool:
        """Whether an entry records this call, or one that is equal to it."""
        own = entry.action in self.actions and entry.actor == self.actor
        return own and self.details.items() <= entry.details.items()


class Operations(Struct, frozen=True):
    """Operations on single sagas. Each operation takes the lease before it journals.

    A call with ``seq`` names the state that the operator has seen, by the number of its last audit entry. It acts on no
    other state: the claim has the condition that the number is as it was read. If the next entry records this same
    call, its first answer was lost, and it is answered again (rule 10).
    """

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
            stall = Visited(self.advancer.lease())
            advanced = self.advancer.advance(state, stall, EntryContext(actor=actor))
        except Fenced:
            return self.reader.state(state.saga, state.saga_id)
        return self.reader.state(state.saga, state.saga_id) if advanced.lost_race else advanced.state

    def retry(self, name: str, saga_id: str, reason: str, actor: str, *, seq: int | None = None) -> SagaState:
        """Grant new attempts to the dead-lettered step or the failed undos, or send an unanswered message again."""
        actions = SagaRetried.__name__, MessageResent.__name__
        arrival = partial(RetryArrived, reason=reason)
        return self._operate(name, saga_id, _Call(actor, seq, arrival, actions, {"reason": reason}))

    def compensate(
        self, name: str, saga_id: str, reason: str, actor: str, *, force: bool = False, seq: int | None = None
    ) -> SagaState:
        """Give up a saga that waits or has failed, and undo it. With ``force``, a COMPLETED saga can also be undone.

        A saga past its pivot requires ``force`` and a ``reason``.
        """
        arrival = partial(CompensateArrived, force=force, reason=reason)
        call = _Call(actor, seq, arrival, (CompensationStarted.__name__,), {"reason": reason})
        return self._operate(name, saga_id, call)

    def resolve(
        self,
        name: str,
        saga_id: str,
        reason: str,
        action: str,
        steps: tuple[str, ...],
        actor: str,
        *,
        seq: int | None = None,
    ) -> SagaState:
        """Take a saga off the attention list, with a reason. If a named step has children, they are resolved, too."""
        settled = SagaResolved(reason, action, steps)
        before = self.reader.state(name, saga_id)
        if self._repeats(before, _resolving(settled, actor, seq)):
            return before
        if before.status is SagaStatus.DEAD_LETTERED and (parent := self._waiting_parent(before)):
            text = f"this is a child of {parent.saga}/{parent.saga_id}, which waits for it"
            raise Conflict(f"{text}: retry it, compensate it, or cancel it with --force")
        return self._resolve(before, settled, actor, seq)

    def _resolve(self, before: SagaState, settled: SagaResolved, actor: str, seq: int | None) -> SagaState:
        names = [step.name for step in before.steps]
        unknown = [
            Problem(f"$.steps[{i}]", "no such step") for i, step in enumerate(settled.steps) if step not in names
        ]
        if unknown:
            raise InvalidRequest("unknown steps", unknown[:_MOST_PROBLEMS])
        # Also resolve children of these steps that need an operator. Their failed undos count as done by hand.
        steps = tuple(step if step.name in settled.steps else replace(step, fan_out=FanOut()) for step in before.steps)
        for child in self.control.get_many(children_ids(replace(before, steps=steps)), consistent=True).values():
            if child.attention and (child.ended or child.status is SagaStatus.DEAD_LETTERED):
                failed = (step for step in child.steps if step.status is StepStatus.COMPENSATION_FAILED)
                by_hand = tuple(step.name for step in failed) if child.ended else ()
                # A call that names a state settles a child only as it was read here.
                child_seq = None if seq is None else child.seq
                try:
                    self._resolve(child, replace(settled, steps=by_hand), actor, child_seq)
                except StateChanged:
                    raise self._changed(before, f"its child {child.saga}/{child.saga_id} has changed") from None
        return self._operate(before.saga, before.saga_id, _resolving(settled, actor, seq))

    def _operate(self, name: str, saga_id: str, call: _Call) -> SagaState:
        for _ in range(_TRIES):
            state = self.reader.state(name, saga_id)
            if self._repeats(state, call):
                return state
            context = EntryContext(actor=call.actor, details=dict(call.details))
            try:
                advanced = self.advancer.advance(state, call.arrival(self.advancer.lease()), context)
            except Fenced:
                continue
            # If the commit only completed a predecessor's work, try again, because the request was not decided yet.
            if not advanced.lost_race and not advanced.adopted:
                return advanced.state
        raise Unavailable("the saga was changed by others five times in a row; try again", retry_after=1)

    def _repeats(self, state: SagaState, call: _Call) -> bool:
        """Whether the call has acted on the state that it names, but its answer was lost. If the saga has left that
        state without it, the call is refused."""
        if call.seq in (None, state.seq):
            return False
        following = call.seq + 1
        own = self.reader.journal.entries_of([(state.saga_id, following)]) if following <= state.seq else {}
        entry = own.get(state.saga_id, {}).get(following)
        if entry is not None and call.is_recorded_by(entry):
            return True
        raise self._changed(state, f"seq {call.seq} is not its last audit entry, which is {state.seq}")

    def _changed(self, state: SagaState, why: str) -> StateChanged:
        """Return the error for a saga that has left the state that a call names."""
        saga = self.reader.show_stored(state.saga, state.saga_id, state, payloads=False)
        text = f"the saga, which is {state.status}, has changed: {why}; look at it again, then decide"
        return StateChanged(text, saga)


def _resolving(settled: SagaResolved, actor: str, seq: int | None) -> _Call:
    """Return the call that settles a saga in this way."""

    def arrival(lease: Lease) -> ResolveArrived:
        return ResolveArrived(lease, settled.reason, settled.taken, settled.steps)

    return _Call(actor, seq, arrival, (SagaResolved.__name__,), details_of(settled))
