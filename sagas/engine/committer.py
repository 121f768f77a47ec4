"""Journal first, pointer second: how the holder of a lease makes facts permanent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from msgspec import structs

from sagas.core import events as ev
from sagas.core.arrivals import claimed_next, next_work, renumbered
from sagas.core.automaton import decide
from sagas.core.effects import Decision, Run, Send, Write
from sagas.core.rules import Plan, forward, next_fact
from sagas.core.states import DeadLetter, Lease, SagaState, SagaStatus
from sagas.core.text import iso
from sagas.engine.clock import Clock, claimed_at
from sagas.engine.contention import patiently
from sagas.engine.ports import CommitObserver
from sagas.errors import Unavailable
from sagas.store.control.control import ControlItems
from sagas.store.journal.entries import RESULTS, Entry, details_of, fact_of
from sagas.store.journal.entry_hash import chained
from sagas.store.journal.journal import Journal
from sagas.store.outcomes import Fenced, FlagWon, Refused
from sagas.store.signals.inbox import Inbox


@dataclass(frozen=True, slots=True)
class EntryContext:
    """What an entry says beyond its fact.

    Args:
        payload: the result, as JSON text.
        details: more to be known of this one entry.
        actor: who acts.
        trace_id: of the invocation.
        message: the message at hand. If it is the saga's current one, it may be the one to die.
        onward: which lease to claim what follows with, in the same write, for the holder to go on; ``None``, or none
            of its own, leaves that to the next message.
        chained: the message at hand was sent for another step: it cannot die for this one, nor wait for its retry.
        redriven_by: who moved the message at hand back from the dead letters: of what it leads to, only that the saga
            goes on is this person's act. Empty if that is not known.
    """

    payload: str | None = None
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    actor: str = "worker"
    trace_id: str = ""
    message: DeadLetter | None = None
    onward: Callable[[SagaState, Send], Lease | None] | None = None
    chained: bool = False
    redriven_by: str = ""


@dataclass(frozen=True, slots=True)
class Committed:
    """What was committed, the lease being released unless what follows is claimed.

    Args:
        state: the saga after the last fact.
        send: the message that follows.
        entry: the first entry that was committed: one's own, or the one found in its slot.
        adopted: that entry is a predecessor's, committed in place of one's own.
        claimed: what follows is claimed already: ``state`` is what the holder goes on with.
    """

    state: SagaState
    send: Send | None
    entry: Entry | None
    adopted: bool
    claimed: bool = False


class Committer:
    """Writes facts, one open slot at a time (rule 3), until none follows."""

    def __init__(
        self,
        control: ControlItems,
        journal: Journal,
        clock: Clock,
        observers: Sequence[CommitObserver] = (),
        inbox: Inbox | None = None,
    ) -> None:
        self._control = control
        self._journal = journal
        self._clock = clock
        self._observers = observers
        self._inbox = inbox

    def commit(self, plan: Plan, state: SagaState, fact: ev.Fact, context: EntryContext) -> Committed:
        """Journal and commit ``fact`` and whatever follows from it."""
        first: Entry | None = None
        adopted = False
        while True:
            decision, entry, foreign = self._write(plan, state, fact, context)
            if first is None:
                first, adopted = entry, foreign
            if not isinstance(decision.then, Write):
                claimed = isinstance(decision.then, Run)
                return Committed(decision.state, decision.send, first, adopted, claimed)
            state, fact = decision.state, decision.then.fact
            context = replace(context, payload=None, details={})

    def _write(
        self, plan: Plan, state: SagaState, fact: ev.Fact, context: EntryContext
    ) -> tuple[Decision, Entry | None, bool]:
        """Journal and commit one fact, or what its slot holds already. Returns what follows, the entry that is in the
        slot, and whether a predecessor put it there."""
        fact, context = self._completed(plan, state, fact, context)
        decision = self._decided(plan, state, fact, context)
        if decision.state is state:
            # A cancel came first and the fact no longer fits: go on with what comes next now.
            following = next_fact(plan, state)
            if following is None or following == fact:
                raise Fenced(f"{fact.action} does not fit the saga any more")
            return Decision(state, Write(following)), None, False
        said = None if state.polling is None else (state.polling.message, state.polling.after)
        if isinstance(fact, ev.Postponed) and said == (fact.message, fact.after) and decision.then is None:
            return self._look_again(plan, state, fact, context, decision), None, False
        entry = self._entry(state, decision.state, fact, context)
        decision = _proven(decision, state, entry)
        ends = decision.state.over or decision.state.status is SagaStatus.DEAD_LETTERED
        if isinstance(fact, ev.WaitTimedOut) or (forward(state) and ends and not isinstance(decision.then, Write)):
            # Rule 12: a cancel or a signal may still win here, and must leave no entry that claims otherwise.
            try:
                patiently(
                    self._clock,
                    partial(self._control.finish, entry, state, decision.state, plan.stale_after, self._journal),
                )
            except FlagWon as won:
                return self._write(plan, _as_known(won.state, state), fact, replace(context, onward=None))
            except Refused as refused:
                found = self._journal.occupant(entry, refused.items.get(0))
            else:
                self._tell(state, decision.state, fact)
                return decision, entry, False
        else:
            found = patiently(self._clock, partial(self._journal.put, entry))
        if found is entry:
            return self._move_pointer(plan, state, fact, entry, context, decision), entry, False
        # Rule 2. Also under my own token the entry counts: two deliveries of one outcome may both be at work.
        theirs = found.token != entry.token
        names = [step.name for step in state.steps]
        fact = fact_of(found, names.index(found.step) if found.step in names else state.cursor)
        return self._move_pointer(plan, state, fact, found, context), found, theirs

    def _look_again(
        self, plan: Plan, state: SagaState, fact: ev.Fact, context: EntryContext, decision: Decision
    ) -> Decision:
        """Move on without an entry: the journal has one already that says as much, and a step may look once a
        second for days."""
        after = structs.replace(decision.state, seq=state.seq)
        try:
            patiently(self._clock, partial(self._control.commit, state, after, plan.stale_after))
        except FlagWon as won:
            return self._write(plan, _as_known(won.state, state), fact, context)[0]
        self._tell(state, after, fact)
        return structs.replace(decision, state=after)

    def _decided(self, plan: Plan, state: SagaState, fact: ev.Fact, context: EntryContext) -> Decision:
        now = self._clock.now()
        decision = decide(plan, state, fact, now)
        return renumbered(state, decision, now) if context.chained else decision

    def _move_pointer(
        self,
        plan: Plan,
        state: SagaState,
        fact: ev.Fact,
        entry: Entry,
        context: EntryContext,
        decision: Decision | None = None,
    ) -> Decision:
        """Commit ``entry``, which is in the slot and records ``fact``, and claim what follows if the holder goes on."""
        if decision is None:
            decision = self._decided(plan, state, fact, context)
            if decision.state is state:
                raise Fenced(f"the journal holds {fact.action}, which does not fit the saga")
            decision = _proven(decision, state, entry)
        send = next_work(state, fact, decision, self._clock.now()) if context.onward else None
        lease = context.onward(decision.state, send) if send and context.onward else None
        onward = claimed_next(state, decision, lease) if lease else None
        try:
            if onward is None:
                patiently(self._clock, partial(self._control.commit, state, decision.state, plan.stale_after))
            elif patiently(self._clock, partial(self._control.commit_and_claim, state, onward.state, plan.stale_after)):
                decision = onward
        except FlagWon as won:
            return self._move_pointer(plan, _as_known(won.state, state), fact, entry, replace(context, onward=None))
        self._tell(state, decision.state, fact)
        return decision

    def _completed(
        self, plan: Plan, state: SagaState, fact: ev.Fact, context: EntryContext
    ) -> tuple[ev.Fact, EntryContext]:
        """Add what a fact says that neither plan nor state tells: which message dies, until when a wait lasts, and what
        was sent."""
        if isinstance(fact, ev.StepDeadLettered) and fact.cause.message_dies and fact.message is None:
            # Only the current message may die; without it at hand, it is sent anew and dies then. A step whose code is
            # missing may have no queue either: none dies.
            current = context.message is not None and context.message.dispatch == state.dispatch
            return structs.replace(fact, message=context.message) if current else ev.SagaRecovered(stall=False), context
        match fact:
            case ev.WaitStarted(until=0.0):
                return structs.replace(fact, until=round(self._clock.now() + plan.steps[fact.index].wait, 3)), context
            case ev.WaitEnded():
                return fact, replace(context, payload="null")
            case ev.SignalReceived(index):
                signal = self._inbox.get(state.saga_id, state.steps[index]) if self._inbox else None
                if signal is None:
                    raise Unavailable("the inbox does not show the signal that was accepted")
                sent = {"sent_at": iso(signal.at)}
                return fact, replace(context, payload=signal.payload, actor=signal.actor, details=sent)
            case _:
                return fact, context

    def _tell(self, before: SagaState, after: SagaState, fact: ev.Fact) -> None:
        for observer in self._observers:
            observer.committed(before, after, fact)

    def _entry(self, before: SagaState, after: SagaState, fact: ev.Fact, context: EntryContext) -> Entry:
        index: int | None = getattr(fact, "index", None)
        given_up = before.current if isinstance(fact, ev.SagaRecoveryExhausted) else None
        step = given_up if index is None else before.steps[index]
        details = details_of(fact) | context.details
        if isinstance(fact, ev.StepFact) and before.lease:
            details = {"started_at": iso(claimed_at(before.lease.owner)), **details}
        if before.polling is not None and index is None and before.current is not None:
            details["looked"] = {"step": before.current.name, "attempts": before.current.attempts.made}
        if _names_pivot(before, after, fact):
            details["pivot"] = after.past_pivot  # why nothing is undone from here on
        asked = isinstance(fact, ev.CancelRequested) and before.cancel.by
        if asked and before.cancel.note:
            details["note"] = before.cancel.note
        redriven_by = context.redriven_by if isinstance(fact, ev.SagaRetried) else ""
        return Entry(
            saga_id=before.saga_id,
            seq=before.seq + 1,
            at=self._clock.now(),
            saga=before.saga,
            action=fact.action,
            status=after.status.value,
            token=before.token,
            step=step.name if step else None,
            attempt=getattr(fact, "attempt", None) or None,
            actor=before.cancel.by if asked else redriven_by or context.actor,
            correlation_id=before.correlation_id,
            trace_id=context.trace_id,
            details=details,
            payload=context.payload,
            salt=self._clock.new_salt(),
            link=before.head,
        )


def _names_pivot(before: SagaState, after: SagaState, fact: ev.Fact) -> bool:
    """Whether a fact is that of the pivot, or one that undoes nothing as the pivot was passed."""
    stops = isinstance(fact, ev.CancelRequested | ev.SagaTimedOut | ev.SagaRecoveryExhausted | ev.StepDeadLettered)
    pivots = isinstance(fact, ev.StepCompleted) and before.steps[fact.index].pivot
    return pivots or (stops and bool(after.past_pivot) and not after.undoing)


def _proven(decision: Decision, before: SagaState, entry: Entry) -> Decision:
    """The decision with the proofs that go into the control item: they are of the entry in the slot (rule 15)."""
    head, digest = entry.hash_after(before.head), decision.state.digest
    if entry.action in RESULTS:
        digest = chained(before.digest, entry.seq, entry.payload_hash)
    return structs.replace(decision, state=structs.replace(decision.state, head=head, digest=digest))


def _as_known(found: SagaState, before: SagaState) -> SagaState:
    """A saga that was read, with what is known of it that the control item does not have."""
    return structs.replace(found, correlation_id=before.correlation_id)
