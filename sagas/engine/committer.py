"""Journal first, pointer second: how the holder of a lease makes facts permanent."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.commands import Command, Write
from sagas.core.plan import Plan
from sagas.core.rules import code_missing, next_fact
from sagas.core.states import DeadLetter, SagaState, SagaStatus
from sagas.core.times import iso
from sagas.engine.clock import Clock, claimed_at
from sagas.engine.ports import ControlStore, Observer
from sagas.store.entries import Entry, details_of, fact_of
from sagas.store.journal import Journal
from sagas.store.outcomes import CancelWon, Fenced, Refused


@dataclass(frozen=True, slots=True)
class EntryContext:
    """What an entry says beyond its fact.

    Args:
        payload: the result, as JSON text.
        details: more to be known of this one entry.
        actor: who acts.
        trace_id: of the invocation.
        message: the message at hand, if it is the saga's current one may be the one to die.
    """

    payload: str | None = None
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    actor: str = "worker"
    trace_id: str = ""
    message: DeadLetter | None = None

    def follow_up(self) -> EntryContext:
        """The note for an entry that follows: same hand, no payload."""
        return replace(self, payload=None, details={})


@dataclass(frozen=True, slots=True)
class Committed:
    """What was committed last, and what is to be done now that the lease is released.

    ``adopted``: a predecessor's entry was in the slot and was committed in place of one's own.
    """

    state: SagaState
    commands: tuple[Command, ...]
    adopted: bool = False


class Committer:
    """Writes facts, one open slot at a time, until nothing is owed any more."""

    def __init__(self, control: ControlStore, journal: Journal, clock: Clock, observer: Observer) -> None:
        self._control = control
        self._journal = journal
        self._clock = clock
        self._observer = observer

    def commit(self, plan: Plan, state: SagaState, fact: ev.Fact, note: EntryContext) -> Committed:
        """Journal and commit ``fact`` and whatever it entails.

        Args:
            plan: the saga's policies.
            state: the saga as the lease holder has it.
            fact: what happened.
            note: what the entry says beyond it.

        Raises:
            Fenced: somebody else is at work; nothing more may be written.
            Ambiguous: an answer was lost; keep the lease and the message.
            Unavailable: the store is out of reach.
        """
        committed = self._write(plan, state, fact, note)
        adopted = committed.adopted
        while pending := _next_fact(committed.commands):
            note = note.follow_up()
            committed = self._write(plan, committed.state, pending, note)
        return replace(committed, adopted=adopted)

    def _write(self, plan: Plan, state: SagaState, fact: ev.Fact, note: EntryContext) -> Committed:
        fact = _addressed(state, fact, note.message)
        decision = decide(plan, state, fact, self._clock.now())
        if decision.state is state:
            return self._superseded(plan, state, fact)
        entry = self._entry(state, decision.state, fact, note)
        if _ends(state, decision.state) and not _next_fact(decision.commands):
            return self._finish(plan, state, fact, entry, note)
        landed = self._journal.put(entry)
        if landed is entry:
            return self._commit(plan, state, fact)
        # Also under my own token it is the entry that counts: two deliveries of one outcome may both be at work.
        return replace(self._commit(plan, state, _fact(landed, state)), adopted=landed.token != entry.token)

    def _superseded(self, plan: Plan, state: SagaState, fact: ev.Fact) -> Committed:
        """The fact no longer fits the state: a cancel came first, so go on with what is owed now."""
        pending = next_fact(plan, state)
        if pending is None or pending == fact:
            raise Fenced(f"{fact.action} does not fit the saga any more")
        return Committed(state, (Write(pending),))

    def _finish(self, plan: Plan, state: SagaState, fact: ev.Fact, entry: Entry, note: EntryContext) -> Committed:
        decision = decide(plan, state, fact, entry.at)
        try:
            self._control.finish(entry, state, decision.state, plan.stale_after, self._journal)
        except CancelWon as won:
            return self._write(plan, won.state, fact, note)
        except Refused:
            committed = self._commit(plan, state, _fact(self._journal.occupant(entry), state))
            return replace(committed, adopted=True)
        self._observer.committed(state, decision.state, fact)
        return Committed(decision.state, decision.commands)

    def _commit(self, plan: Plan, state: SagaState, fact: ev.Fact) -> Committed:
        """Move the pointer over an entry that is in the journal."""
        decision = decide(plan, state, fact, self._clock.now())
        if decision.state is state:
            raise Fenced(f"the journal holds {fact.action}, which does not fit the saga")
        try:
            self._control.commit(state, decision.state, plan.stale_after)
        except CancelWon as won:
            return self._commit(plan, won.state, fact)
        self._observer.committed(state, decision.state, fact)
        return Committed(decision.state, decision.commands)

    def _entry(self, before: SagaState, after: SagaState, fact: ev.Fact, note: EntryContext) -> Entry:
        index: int | None = getattr(fact, "index", None)
        details = details_of(fact) | note.details
        if isinstance(fact, ev.StepFact) and before.lease:
            details = {"started_at": iso(claimed_at(before.lease.owner)), **details}
        asked = isinstance(fact, ev.CancelRequested) and before.cancel_requested_by
        return Entry(
            saga_id=before.saga_id,
            seq=before.seq + 1,
            at=self._clock.now(),
            saga=before.saga,
            action=fact.action,
            status=after.status.value,
            token=before.token,
            step=None if index is None else before.steps[index].name,
            attempt=getattr(fact, "attempt", None),
            actor=before.cancel_requested_by if asked else note.actor,
            correlation_id=before.correlation_id,
            trace_id=note.trace_id,
            details=details,
            payload=note.payload,
        )


def _next_fact(commands: tuple[Command, ...]) -> ev.Fact | None:
    return next((command.fact for command in commands if isinstance(command, Write)), None)


def _addressed(state: SagaState, fact: ev.Fact, message: DeadLetter | None) -> ev.Fact:
    """Name the message that dies. Only the current one may; without it at hand, have it sent anew and die then.

    A step whose code is gone may have no queue either: none dies.
    """
    if not isinstance(fact, ev.StepDeadLettered) or fact.message is not None or code_missing(fact):
        return fact
    current = message is not None and message.dispatch == state.dispatch
    return replace(fact, message=message) if current else ev.Recovered(stall=False)


def _ends(before: SagaState, after: SagaState) -> bool:
    """Whether the entry itself ends the saga, or has it wait for a person."""
    stops = after.over or after.status is SagaStatus.DEAD_LETTERED
    return stops and after.status is not before.status


def _fact(entry: Entry, state: SagaState) -> ev.Fact:
    names = [step.name for step in state.steps]
    return fact_of(entry, names.index(entry.step) if entry.step in names else state.cursor)
