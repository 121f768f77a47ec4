"""One attempt of one step or undo: claim it, run it, settle its outcome."""

from __future__ import annotations

import logging
import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sagas.authoring.definition import StepDefinition
from sagas.authoring.policies import Retry
from sagas.core import events as ev
from sagas.core.plan import Plan
from sagas.core.states import DeadLetter, Lease, SagaState
from sagas.engine.breaker import Breakers
from sagas.engine.clock import Clock
from sagas.engine.committer import Committed, Committer, EntryContext
from sagas.engine.context import StepContext
from sagas.engine.heartbeat import Heartbeat
from sagas.engine.ports import ControlStore
from sagas.engine.progress import ProgressReport
from sagas.engine.registry import SagaType, plan_for
from sagas.engine.runner import Runner, inputs_needed, parameters_of
from sagas.errors import Rejected, Unavailable
from sagas.messaging.message import Message
from sagas.messaging.pending_commit import PendingCommit
from sagas.store.entries import details_of
from sagas.store.journal import Journal
from sagas.store.outcomes import Fenced

T = TypeVar("T")

SKEW = 1.0
"""Seconds by which clocks of different machines may differ."""
PAUSES = (0.2, 1.0)
"""Seconds between the tries to read inputs or settle an outcome."""
ROOM = 5.0
"""Seconds kept back to send an outcome to its queue, should it not be committed."""
_LONGEST_MESSAGE = 1_000
_LONGEST_TRACE = 4_000


@dataclass(frozen=True, slots=True)
class Tools:
    """What an attempt works with."""

    control: ControlStore
    journal: Journal
    committer: Committer
    breakers: Breakers
    runner: Runner
    clock: Clock
    logger: logging.Logger
    connect: Callable[[str], Any] | None = None


def lease_for(saga_type: SagaType, clock: Clock, deadline: float) -> Lease:
    """Return a fresh lease: it ends with ``lock_expiry``, or as soon as its holder's function cannot act any more.

    Args:
        saga_type: whose ``lock_expiry`` counts.
        clock: tells the time.
        deadline: epoch seconds at which the function is stopped.
    """
    act_until = round(deadline + SKEW, 3)
    expiry = round(clock.now() + saga_type.definition.lock_expiry.total_seconds(), 3)
    return Lease(clock.new_owner(), min(expiry, act_until), act_until)


def failure_of(error: BaseException) -> ev.Failure:
    """Return what is kept of an exception: its class name, and its text cut to a decent length."""
    return ev.Failure(type(error).__name__, str(error)[:_LONGEST_MESSAGE])


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-_LONGEST_TRACE:]


class Attempt:
    """Claims, runs and settles. The persistence layer of Powertools' idempotency drives it.

    Args:
        tools: store, runner, clock.
        saga_type: the message's saga type.
        message: the message at hand.
        deadline: epoch seconds at which the function is stopped.
        trace_id: of the invocation.
    """

    def __init__(self, tools: Tools, saga_type: SagaType, message: Message, deadline: float, trace_id: str) -> None:
        self._tools = tools
        self._type = saga_type
        self._message = message
        self._deadline = deadline
        dying = DeadLetter(message.dispatch, message.hops, message.message_id)
        self.note = EntryContext(trace_id=trace_id, message=dying)
        self.state: SagaState | None = None
        self.committed: Committed | None = None
        self.pending_commit: PendingCommit | None = None

    @property
    def _step(self) -> StepDefinition:
        return self._type.step(self._message.step)

    @property
    def plan(self) -> Plan:
        """The plan of the claimed saga."""
        return plan_for(self._type.definition, (step.name for step in self._held.steps))

    @property
    def _held(self) -> SagaState:
        if self.state is None:
            raise Fenced("nothing was claimed")
        return self.state

    @property
    def _number(self) -> int:
        step = self._held.steps[self._message.index]
        return step.undo_attempts if self._message.undo else step.attempts

    def claim(self) -> bool:
        """Lock the saga and count the attempt, without reading first. Not while the step's circuit breaker is open."""
        message, clock = self._message, self._tools.clock
        if not self._tools.breakers.passes(message):
            return False
        claim = self._tools.control.claim_undo if message.undo else self._tools.control.claim_step
        lease = lease_for(self._type, clock, self._deadline)
        self.state = claim(message.saga_id, message.index, message.dispatch, lease, clock.now(), message.step)
        return self.state is not None

    def execute(self) -> str | None:
        """Run the code on the inputs it names; return the result as JSON text."""
        payloads = self._inputs()
        step, undo, context = self._step, self._message.undo, self._context()
        control, clock, lost = self._tools.control, self._tools.clock, context.tell_lost
        progress = ProgressReport(control, self._held, clock, lost)
        context.report = progress.tell
        with progress, Heartbeat(control, self._held, self._lock_expiry, clock, lost, progress.take):
            return self._tools.runner.run(self._type.definition, step, undo, payloads, context)

    def _inputs(self) -> dict[str, str | None]:
        """Read what the code names, as JSON text by parameter.

        If the store stays out of reach, the attempt has failed, though no code ran: it was counted with the claim, so
        that a crash counts, and only a journaled outcome may end a claim. Never is code run after a wait that outlasted
        the lease: somebody else may have begun.
        """
        needed = inputs_needed(parameters_of(self._step, self._message.undo), self._held)
        seqs = [seq for seq in needed.values() if seq]
        lease = self._held.lease
        until = min(self._deadline - ROOM, lease.expires_at if lease else 0.0)
        entries = self._patiently(until, lambda: self._tools.journal.entries(self._message.saga_id, seqs))
        return {name: entries[seq].payload if seq else None for name, seq in needed.items()}

    @property
    def _lock_expiry(self) -> float:
        return self._type.definition.lock_expiry.total_seconds()

    def _context(self) -> StepContext:
        message, clock, step = self._message, self._tools.clock, self._step
        timeout = step.undo.timeout if message.undo and step.undo else step.timeout
        context = StepContext(
            saga_id=message.saga_id,
            saga=message.saga,
            step=message.step,
            attempt=self._number,
            undo=message.undo,
            prefix=self._type.definition.prefix,
            deadline_at=min(clock.now() + timeout, self._deadline),
            clock=clock,
            logger=self._tools.logger,
            check_cancelled=self._cancel_flag,
        )
        if self._tools.connect is not None:
            context.connect = self._tools.connect
        return context

    def _cancel_flag(self) -> bool:
        """Whether a cancel was accepted; while the store is out of reach nobody knows of one."""
        try:
            state = self._tools.control.get(self._message.saga_id)
        except Unavailable:
            return False
        return state is not None and bool(state.cancel_requested_at)

    def complete(self, payload: str | None) -> None:
        """Settle the success."""
        kind = ev.StepCompensated if self._message.undo else ev.StepCompleted
        fact = kind(self._message.index, self._number)
        note = EntryContext(payload, {}, self.note.actor, self.note.trace_id, self.note.message)
        self._settle(fact, note)

    def fail(self, error: Exception) -> None:
        """Settle the failure."""
        fact = self._undo_failure(error) if self._message.undo else self._step_failure(error)
        last = isinstance(fact, ev.CompensationFailed) or not getattr(fact, "retry_at", 0.0)
        details: dict[str, Any] = {"stack_trace": _trace(error)} if last else {}
        if isinstance(fact, ev.CompensationFailed):
            details |= {"attempts": fact.attempt, "trace_id": self.note.trace_id}
        note = EntryContext(None, details, self.note.actor, self.note.trace_id, self.note.message)
        self._settle(fact, note)

    def _settle(self, fact: ev.StepFact, note: EntryContext) -> None:
        """Settle an outcome, in several tries while there is time; it stays in ``report`` if all fail.

        Raises:
            Unavailable: the store is out of reach.
        """
        lease = self._held.lease
        owner, details = lease.owner if lease else "", details_of(fact) | note.details
        self.pending_commit = PendingCommit(
            fact.action, fact.attempt, self._held.token, self._held.seq, owner, details, note.trace_id, note.payload
        )
        until = self._deadline - ROOM
        self.committed = self._patiently(until, lambda: self._tools.committer.commit(self.plan, self._held, fact, note))

    def _patiently(self, until: float, request: Callable[[], T]) -> T:
        """Return what ``request`` returns, in several tries while there is time.

        Args:
            until: epoch seconds by which the last try must have ended, as far as its predecessor's length tells.
            request: what to try.

        Raises:
            Unavailable: the store is out of reach.
        """
        clock = self._tools.clock
        for pause in PAUSES:
            began = clock.now()
            try:
                return request()
            except Unavailable:
                took = clock.now() - began
                if clock.now() + pause + took > until:
                    raise
            clock.sleep(pause)
        return request()

    def _step_failure(self, error: Exception) -> ev.StepFailed:
        retry, step = self._step.retry, self._held.steps[self._message.index]
        used = step.attempts - step.attempts_at_grant
        permanent = retry.gives_up(error)
        again = not permanent and used < retry.executions
        retry_at = self._retry_at(retry, used) if again else 0.0
        failure = failure_of(error)
        rejected = isinstance(error, Rejected)
        return ev.StepFailed(self._message.index, step.attempts, failure, permanent, rejected, retry_at)

    def _undo_failure(self, error: Exception) -> ev.CompensationAttemptFailed | ev.CompensationFailed:
        undo, step = self._step.undo, self._held.steps[self._message.index]
        used = step.undo_attempts - step.undo_attempts_at_grant
        if undo is None or undo.retry.gives_up(error) or used >= undo.retry.executions:
            return ev.CompensationFailed(self._message.index, step.undo_attempts, failure_of(error))
        at = self._retry_at(undo.retry, used)
        return ev.CompensationAttemptFailed(self._message.index, step.undo_attempts, failure_of(error), at)

    def _retry_at(self, retry: Retry, failures: int) -> float:
        """Epoch seconds of the next attempt; never 0, which would say that there is none."""
        clock = self._tools.clock
        at = clock.now() + retry.delay(failures, clock.chance())
        return math.ceil(round(at * 1000, 2)) / 1000  # rounded first: a float's last bits are no millisecond
