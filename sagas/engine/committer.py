"""Commits facts under a lease: writes the journal entry first, then moves the pointer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field, structs
from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.arrivals import claimed_next, next_work, renumbered
from sagas.core.automaton import decide
from sagas.core.commands import Decision, Run, Send, Write
from sagas.core.rules import ForwardPlan, Plan, forward, next_fact
from sagas.core.states import DeadMessage, Lease, SagaState, SagaStatus, StepState, StepStatus
from sagas.core.text import iso
from sagas.engine.attempt.failures import is_gone, not_read
from sagas.engine.clock import Clock, claimed_at
from sagas.engine.ports import CommitObserver
from sagas.errors import TypeChanged, Unavailable
from sagas.store.connection import Changed, Contended, Fenced, FlagWon, Refused
from sagas.store.control.control import ControlItems
from sagas.store.journal.entries import RESULTS, WORKER, Entry, chained, details_of, fact_of, hiding
from sagas.store.journal.journal import Journal

if TYPE_CHECKING:
    from sagas.store.inbox import Inbox, SentSignal


class EntryContext(Struct, frozen=True):
    """The parts of an entry other than its fact.

    Args:
        payload: the result, as JSON text.
        details: details in addition to those of the fact.
        actor: the actor of the audit trail.
        trace_id: the trace id of the invocation.
        message: the current message. It can be dead-lettered if it is the saga's current one.
        next_lease: the function that returns the lease with which the same write claims the next step, so the holder
            continues. If the function or its result is ``None``, the next step waits for the next message.
        chained: whether the message was sent for another step. Then it cannot be dead-lettered or reused for a retry of
            this step.
        why_skipped: the function that asks the condition of the next step, from the state after an entry and that
            entry. It returns why the step is skipped, or an empty text. If there is no function, the step's own attempt
            asks.
    """

    payload: str | None = None
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    actor: str = WORKER
    trace_id: str = ""
    message: DeadMessage | None = None
    next_lease: Callable[[SagaState, Send], Lease | None] | None = None
    chained: bool = False
    why_skipped: Callable[[SagaState, Entry], str] | None = None


class Committed(Struct, frozen=True):
    """The result of a commit. The lease is released unless the next step is claimed.

    Args:
        state: the saga after the last fact.
        send: the next message.
        entry: the first committed entry: the caller's, or the one that was already in its slot.
        adopted: a predecessor had written that entry, which was committed instead of the caller's.
        claimed: the next step is claimed, and the holder continues with ``state``.
    """

    state: SagaState
    send: Send | None
    entry: Entry | None
    adopted: bool
    claimed: bool = False


class Committer:
    """Writes a fact and the facts that follow from it, one open slot at a time (rule 3)."""

    def __init__(
        self,
        control: ControlItems,
        journal: Journal,
        clock: Clock,
        observers: Sequence[CommitObserver] = (),
        inbox: Callable[[], Inbox] | None = None,
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
                first = entry
                adopted = foreign
            if not isinstance(decision.then, Write):
                claimed = isinstance(decision.then, Run)
                return Committed(decision.state, decision.send, first, adopted, claimed)
            state = decision.state
            fact = decision.then.fact
            context = replace(context, payload=None, details={})

    def _write(
        self, plan: Plan, state: SagaState, fact: ev.Fact, context: EntryContext
    ) -> tuple[Decision, Entry | None, bool]:
        """Journal and commit one fact. If its slot is taken, commit the entry in the slot. Returns the decision, the
        entry in the slot, and whether a predecessor wrote it."""
        fact, context = self._completed(plan, state, fact, context)
        decision = self._decided(plan, state, fact, context)
        if decision.state is state:
            # A cancel came first, so the fact is no longer possible. Continue with the fact that is next now.
            following = next_fact(plan, state, self._clock.now())
            if following is None or following == fact:
                raise Fenced(f"{fact.action} is no longer possible in the saga's state")
            return Decision(state, Write(following)), None, False
        if isinstance(fact, ev.Postponed) and decision.then is None and _recorded(state, fact):
            return self._poll_again(plan, state, fact, context, decision), None, False
        entry = self._entry(state, decision.state, fact, context)
        decision = _proven(decision, state, entry)
        ends = decision.state.ended or decision.state.status is SagaStatus.DEAD_LETTERED
        if isinstance(fact, ev.WaitTimedOut) or (forward(state) and ends and not isinstance(decision.then, Write)):
            # Rule 12: if a cancel or a signal comes first, the journal must have no entry that contradicts it.
            try:
                write_contended(
                    self._clock,
                    partial(self._control.finish, entry, state, decision.state, plan.stale_after, self._journal),
                )
            except FlagWon as won:
                return self._write(plan, _with_correlation(won.state, state), fact, replace(context, next_lease=None))
            except Refused as refused:
                occupant = self._journal.occupant(entry, refused.items.get(0))
            else:
                self._notify(state, decision.state, fact)
                return decision, entry, False
        else:
            occupant = write_contended(self._clock, partial(self._journal.put, entry))
        if occupant is entry:
            return self._move_pointer(plan, state, fact, entry, context, decision), entry, False
        # Rule 2 also holds for an entry under the same token: two deliveries of one outcome may run at once.
        foreign = occupant.token != entry.token
        names = [step.name for step in state.steps]
        fact = fact_of(occupant, names.index(occupant.step) if occupant.step in names else state.cursor)
        return self._move_pointer(plan, state, fact, occupant, context), occupant, foreign

    def _poll_again(
        self, plan: Plan, state: SagaState, fact: ev.Fact, context: EntryContext, decision: Decision
    ) -> Decision:
        """Commit without an entry. The journal already has an equal entry, or one that says that the inputs cannot be
        read. A step may poll once per second for days, and an outage may last as long."""
        after = structs.replace(decision.state, seq=state.seq)
        try:
            write_contended(self._clock, partial(self._control.commit, state, after, plan.stale_after))
        except FlagWon as won:
            return self._write(plan, _with_correlation(won.state, state), fact, context)[0]
        self._notify(state, after, fact)
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
        """Commit ``entry``, which is in the slot and records ``fact``. If the holder continues, claim the next step."""
        if decision is None:
            decision = self._decided(plan, state, fact, context)
            if decision.state is state:
                raise Fenced(f"the journal contains {fact.action}, which is not possible in the saga's state")
            decision = _proven(decision, state, entry)
        decision = self._asked(plan, state, fact, entry, context, decision)
        send = next_work(state, fact, decision, self._clock.now()) if context.next_lease else None
        lease = context.next_lease(decision.state, send) if send and context.next_lease else None
        claimed = claimed_next(state, decision, lease) if lease else None
        try:
            if claimed is None:
                write_contended(self._clock, partial(self._control.commit, state, decision.state, plan.stale_after))
            elif write_contended(
                self._clock, partial(self._control.commit_and_claim, state, claimed.state, plan.stale_after)
            ):
                decision = claimed
        except FlagWon as won:
            return self._move_pointer(
                plan, _with_correlation(won.state, state), fact, entry, replace(context, next_lease=None)
            )
        self._notify(state, decision.state, fact)
        return decision

    def _asked(
        self, plan: Plan, state: SagaState, fact: ev.Fact, entry: Entry, context: EntryContext, decision: Decision
    ) -> Decision:
        """If the saga goes on to a step that is skipped, have the holder skip it next (rule 21). The answer counts for
        this commit only."""
        after = decision.state
        goes_on = decision.send is not None and after.cursor > state.cursor and forward(after)
        reason = context.why_skipped(after, entry) if goes_on and context.why_skipped else ""
        own = plan.steps[after.cursor].forward if reason else None
        if not isinstance(own, ForwardPlan):
            return decision
        steps = list(plan.steps)
        steps[after.cursor] = structs.replace(steps[after.cursor], forward=structs.replace(own, skip=reason))
        skipping = structs.replace(plan, steps=tuple(steps))
        return _proven(self._decided(skipping, state, fact, context), state, entry)

    def _completed(
        self, plan: Plan, state: SagaState, fact: ev.Fact, context: EntryContext
    ) -> tuple[ev.Fact, EntryContext]:
        """Complete a fact with data that the state does not have: the dead-lettered message, the signal."""
        if isinstance(fact, ev.StepDeadLettered) and fact.cause.message_dies and fact.message is None:
            # Only the current message can be dead-lettered. If the caller has another one, the current message is sent
            # again and dead-lettered when it arrives.
            current = context.message is not None and context.message.dispatch == state.dispatch
            return structs.replace(fact, message=context.message) if current else ev.MessageResent(), context
        match fact:
            case ev.WaitEnded():
                return fact, replace(context, payload="null")
            case ev.SignalReceived(index):
                try:
                    signal = self._signal(state, index)
                except Unavailable as error:
                    if not is_gone(state, error):
                        return not_read(state, index, error, self._clock), context
                    return _signal_is_gone(state, index), context
                except Changed:
                    return _signal_is_gone(state, index), context
                details = {"sent_at": iso(signal.at), **hiding(signal.hidden)}
                return fact, replace(context, payload=signal.payload, actor=signal.actor, details=details)
            case _:
                return fact, context

    def _signal(self, state: SagaState, index: int) -> SentSignal:
        signal = self._inbox().get(state.saga_id, state.steps[index]) if self._inbox else None
        if signal is None:
            raise Unavailable("the signal was accepted but cannot be read yet")
        return signal

    def _notify(self, before: SagaState, after: SagaState, fact: ev.Fact) -> None:
        for observer in self._observers:
            observer.committed(before, after, fact)

    def _entry(self, before: SagaState, after: SagaState, fact: ev.Fact, context: EntryContext) -> Entry:
        index: int | None = getattr(fact, "index", None)
        given_up = before.current if isinstance(fact, ev.SagaRecoveryExhausted) else None
        step = given_up if index is None else before.steps[index]
        details = details_of(fact) | context.details
        ahead = isinstance(fact, ev.StepSkipped) and not fact.attempt  # no attempt of the step has begun
        if isinstance(fact, ev.StepFact) and before.lease and not ahead:
            details = {"started_at": iso(claimed_at(before.lease.owner)), **details}
        if before.polling is not None and index is None and before.current is not None:
            details["looked"] = {"step": before.current.name, "attempts": before.current.attempts.made}
        if _names_pivot(before, after, fact):
            details["pivot"] = after.past_pivot  # the reason that nothing is undone from here on
        if jobs := _jobs_in_doubt(before, after):
            details["in_doubt"] = jobs
        cancelled = isinstance(fact, ev.CancelRequested) and before.cancel.by
        if cancelled and before.cancel.reason:
            details["reason"] = before.cancel.reason
        if cancelled:  # a running step can end long after the request
            details["requested_at"] = iso(before.cancel.at)
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
            actor=before.cancel.by if cancelled else context.actor,
            correlation_id=before.correlation_id,
            trace_id=context.trace_id,
            details=details,
            payload=context.payload,
            salt=self._clock.new_salt(),
            link=before.head,
        )


def _signal_is_gone(state: SagaState, index: int) -> ev.Fact:
    """Return the fact that a wait fails, because nobody can read the value of its signal any more."""
    why = ev.Failure(TypeChanged.__name__, f"the signal of step {state.steps[index].name} {ev.GONE}")
    return ev.StepDeadLettered(index, ev.DeadLetterCause.TYPE_CHANGED, failure=why)


def _jobs_in_doubt(before: SagaState, after: SagaState) -> list[str]:
    """The steps that are in doubt from here on, because they raised ``NotYet`` and no undo will stop what they began,
    or because their signal could not be read. What is deployed or readable at this moment decides it, so the entry says
    it."""
    pairs = zip(before.steps, after.steps, strict=True)
    return [now.name for was, now in pairs if now.outcome_unknown and not was.outcome_unknown and _only_now(was, now)]


def _only_now(before: StepState, after: StepState) -> bool:
    unread = after.signalled and before.status is StepStatus.WAITING and after.status is StepStatus.FAILED
    return after.postponed or unread


def _recorded(state: SagaState, fact: ev.Postponed) -> bool:
    """Whether the journal already says that the step waits for this."""
    if fact.because:
        return fact.because == ev.INPUTS and state.unread is not None
    polling = state.polling
    recorded = polling and (polling.message, polling.after, polling.redacted_by)
    return recorded == (fact.message, fact.after, fact.redacted_by)


def _names_pivot(before: SagaState, after: SagaState, fact: ev.Fact) -> bool:
    """Whether a fact completes the pivot, or would have the saga undone but the pivot forbids it."""
    stops = isinstance(fact, ev.CancelRequested | ev.SagaTimedOut | ev.SagaRecoveryExhausted | ev.StepDeadLettered)
    pivots = isinstance(fact, ev.StepCompleted) and before.steps[fact.index].pivot
    return pivots or (stops and bool(after.past_pivot) and not after.undoing)


def _proven(decision: Decision, before: SagaState, entry: Entry) -> Decision:
    """Return the decision with the control item's new hash and digest, from the entry in the slot (rule 15)."""
    head = entry.hash_after(before.head)
    digest = decision.state.digest
    if entry.action in RESULTS:
        digest = chained(before.digest, entry.seq, entry.payload_hash)
    return structs.replace(decision, state=structs.replace(decision.state, head=head, digest=digest))


def _with_correlation(state: SagaState, before: SagaState) -> SagaState:
    """Return a saga with its correlation id, which the control item may lack."""
    return structs.replace(state, correlation_id=before.correlation_id)


_T = TypeVar("_T")
_TRIES = 10
_PAUSE = 0.04
"""Maximum seconds between the first two tries. Later tries are further apart."""


def write_contended(clock: Clock, write: Callable[[], _T]) -> _T:
    """Write, and retry while other writes touch the same item. For example, many children end at once and update a few
    counters, or a signal comes while a worker commits. Returns the result of ``write``."""
    for tries in range(1, _TRIES):
        try:
            return write()
        except Contended:
            clock.sleep(_PAUSE * tries * clock.chance())
    return write()
