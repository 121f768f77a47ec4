"""Makes one attempt of a step or undo: claims it, runs it, journals and commits its outcome."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, structs
from msgspec.structs import replace

from sagas.authoring.codec import content_hash, encode
from sagas.authoring.context import StepLogger
from sagas.authoring.definition.definition import Condition, Parameter
from sagas.authoring.policies import MOST_CHILDREN
from sagas.core import events as ev
from sagas.core.commands import Send
from sagas.core.rules import misfit, next_look, settles, undo_still_owed
from sagas.core.states import DeadMessage, Lease, Progress, SagaState, StepState
from sagas.core.text import iso
from sagas.engine.attempt.call import (
    CallsCode,
    changed_children,
    check_results,
    inputs_needed,
    moment,
    secrets_in,
    why_skipped,
)
from sagas.engine.attempt.context import StepContext
from sagas.engine.attempt.course import COMMIT_RESERVE, RECORDING, Course, Value, correlated, payloads_of
from sagas.engine.attempt.failures import (
    NotCalled,
    NotRead,
    Skipped,
    is_gone,
    leading,
    not_called,
    not_read,
    postponement,
    step_failure,
    undo_failure,
)
from sagas.engine.attempt.heartbeat import Heartbeat, ProgressReport
from sagas.engine.clock import Clock, claimed_at
from sagas.engine.committer import Committed, Committer, EntryContext, write_contended
from sagas.engine.ports import Gate, Gates, shut_gate
from sagas.engine.registry import SagaType
from sagas.errors import NotYet, SagaError, TypeChanged, Unavailable, WrongResult
from sagas.messaging.message import Message, PendingCommit
from sagas.spellings import Secrets
from sagas.store.connection import Changed
from sagas.store.control.control import ControlItems
from sagas.store.journal.entries import WORKER, Entry, details_of, hiding
from sagas.store.journal.journal import Journal
from sagas.threads import OVERTIME

if TYPE_CHECKING:
    from sagas.store.inbox import SentSignal


T = TypeVar("T")

SKEW = 1.0
"""Seconds by which clocks of different machines may differ."""
PAUSES = (0.2, 1.0)
"""Seconds between the tries to read inputs or commit an outcome."""


def _no_callbacks(saga: str, saga_id: str, step: str) -> str:
    raise SagaError("ctx.callback_url: the environment lacks SAGAS_CALLBACK_URL and SAGAS_CALLBACK_SECRET")


class AttemptServices(Struct, frozen=True):
    """Services of an attempt.

    Args:
        call: the function that calls the code of steps and undos.
        delay: the function that makes a message return after some seconds if its worker dies.
        connect: the function that makes the clients of ``ctx.client``.
        on_next_step: called with the message of each further step that an invocation runs.
        callback_url: the function that makes the URL of a public wait, from saga, id and step.
        accept: the function that puts a signal into the inbox, as ``sagas.store.inbox.Inbox`` does.
        gates: the gates that may refuse a claim, in order.
    """

    control: ControlItems
    journal: Journal
    committer: Committer
    call: CallsCode
    clock: Clock
    logger: logging.Logger
    delay: Callable[[Message, float], None] = lambda message, seconds: None
    connect: Callable[[str], Any] | None = None
    on_next_step: Callable[[Message], None] = lambda message: None
    callback_url: Callable[[str, str, str], str] = _no_callbacks
    accept: Callable[[SagaState, int, SentSignal, float], bool] = lambda state, index, signal, stale_after: False
    gates: Gates = ()


class Invocation(Struct, frozen=True):
    """The Lambda invocation that handles a message.

    Args:
        deadline: epoch seconds at which Lambda stops the function.
        trace_id: its trace.
        lambda_context: Lambda's own context, for Powertools.
    """

    deadline: float
    trace_id: str = ""
    lambda_context: Any = None


class NotCommitted(Unavailable):
    """The code ran, but its outcome could not be committed: the store is unreachable.

    Args:
        pending: the outcome, to be committed later.
        message: the current message, which names the step.
    """

    def __init__(self, pending: PendingCommit, message: Message) -> None:
        super().__init__("the outcome of an attempt could not be committed")
        self.pending = pending
        self.message = message


def lease_for(saga_type: SagaType, clock: Clock, deadline: float) -> Lease:
    """Return a fresh lease. It expires after ``lock_expiry``, or earlier if its holder's function ends earlier.
    ``deadline``: epoch seconds at which Lambda stops the function."""
    act_until = round(deadline + SKEW, 3)
    expiry = round(clock.now() + saga_type.definition.lock_expiry.total_seconds(), 3)
    return Lease(clock.new_owner(), min(expiry, act_until), act_until)


class Attempt:
    """One execution of the code that a message names.

    Args:
        services: store, clock, the function that calls the code.
        saga_type: the message's saga type, which has the code.
        message: the current message.
        invocation: the invocation that handles the message.
        course: the state that the steps of one invocation share.

    ``shut`` is the gate that refused the claim, if one did.
    """

    def __init__(
        self,
        services: AttemptServices,
        saga_type: SagaType,
        message: Message,
        invocation: Invocation,
        course: Course,
    ) -> None:
        self._services = services
        self._type = saga_type
        self._message = message
        self._invocation = invocation
        self._code = saga_type.step(message.step).code(undo=message.undo)
        self._when: Condition | None = None
        self._context: StepContext | None = None
        self._course = course
        self._next: Lease | None = None
        self._values: dict[str, Value] = {}
        self._answered: list[str] = []
        self._secrets: Secrets | None = None
        self._mark = saga_type.definition.redaction.mark
        self._began = False
        self._silence: Callable[[], object] = lambda: None
        self._until = 0.0
        self._asked: dict[int, str] = {}
        self._known: dict[int, Value] = {}
        self.shut: Gate | None = None

    def run(self) -> Committed | None:
        """Claim, run, journal, commit. Returns the commit; ``None`` if the claim was refused."""
        held = self.claim()
        if held is None:
            return None
        try:
            payload = self.execute(held)
        except Exception as error:  # noqa: BLE001 - any exception of the code is a failed attempt
            return self.fail(held, error)
        return self.complete(held, payload)

    def claim(self) -> SagaState | None:
        """Lock the saga and count the attempt, without a read, unless the last commit has done so. A shut gate refuses
        this."""
        held = self._course.take()
        if held is None:
            self.shut = shut_gate(self._services.gates, self._message)
            if self.shut is not None:
                return None
            held = self._take()
        lease_end = held.lease.expires_at if held is not None and held.lease is not None else math.inf
        if self._course.wrongly_hidden(lease_end, self._invocation.deadline):
            self._delay_until_after(lease_end)
        return held

    def fail_uncalled(self, error: Exception) -> Committed | None:
        """Fail the attempt without running its code.

        Returns and raises the same as :meth:`run`.
        """
        held = self._take()
        return None if held is None else self.fail(held, error)

    def _take(self) -> SagaState | None:
        message = self._message
        clock = self._services.clock
        control = self._services.control
        kind = self._type.step(message.step).waits_for
        claim = control.claim_undo if message.undo else partial(control.claim_step, kind=kind)
        lease = self._lease(self._code.timeout)
        claiming = message.saga_id, message.index, message.dispatch, lease, clock.now(), message.step
        held = write_contended(clock, partial(claim, *claiming))
        return held and correlated(held, message)

    def _lease(self, timeout: float) -> Lease:
        """Return a fresh lease for code with this timeout."""
        lease = lease_for(self._type, self._services.clock, self._invocation.deadline)
        needed = self._course.lease_end(self._services.clock.now(), timeout)
        return structs.replace(lease, expires_at=min(lease.expires_at, needed))

    def _next_lease(self, state: SagaState, send: Send) -> Lease | None:
        """Return the lease for the next step, if this invocation has its code and enough time.

        Each call returns the same lease, because an earlier commit may have taken it although the response was lost.
        """
        if self._next is not None:
            return self._next
        step = state.steps[send.index].name
        clock = self._services.clock
        code = self._type.code(step, undo=send.undo) if step in self._course.chain else None
        if code is None or misfit(self._type.plan(state.steps), state, clock.now()):
            return None
        timeout = code.timeout
        if clock.now() + timeout + RECORDING > self._invocation.deadline:
            return None
        try:
            following = replace(self._message, step=step, undo=send.undo)
            if shut_gate(self._services.gates, following) is not None:
                return None
        except Unavailable:
            return None
        self._next = self._lease(timeout)
        return self._next

    def _why_skipped(self, held: SagaState, after: SagaState, entry: Entry) -> str:
        """Return why the next step of the saga, which ``entry`` has made ``after``, is skipped; empty if it runs, or if
        its own attempt has to ask.

        Each call returns the same answer for a step, because an earlier commit may have used it although the response
        was lost.
        """
        if entry.payload is not None:
            self._known[entry.seq] = Value(entry.payload, entry.hidden)
        if after.cursor not in self._asked:
            try:
                self._asked[after.cursor] = self._ask(held, after)
            except Exception as error:  # noqa: BLE001 -- the step's own attempt reports what its condition raises
                self._asked[after.cursor] = ""
                fields = {"saga_id": after.saga_id, "error": type(error).__name__}
                self._services.logger.info("the condition of the next step is asked later", extra=fields)
        return self._asked[after.cursor]

    def _ask(self, held: SagaState, after: SagaState) -> str:
        step = after.steps[after.cursor]
        when = self._type.condition(step)
        now = self._services.clock.now()
        if when is None or now >= self._patience(held) or misfit(self._type.plan(after.steps), after, now):
            return ""
        check_results(when.parameters, after)
        values = self._read(held, inputs_needed(when.parameters, after), now)
        definition = self._type.definition
        return why_skipped(definition, when, payloads_of(values), changed_children(definition, after))

    def _delay_until_after(self, lease_end: float) -> None:
        """Make the message return soon after the lease expires, instead of at the queue's visibility timeout."""
        try:
            until = self._course.comes_back(lease_end)
            self._services.delay(self._message, until - self._services.clock.now())
            self._course.hidden(until)
        except SagaError:
            fields = {"saga_id": self._message.saga_id, "step": self._message.step}
            self._services.logger.warning("the message returns only after its visibility timeout", extra=fields)

    def execute(self, held: SagaState) -> str | None:
        """Run the code with its inputs. Return the result as JSON text.

        If the inputs cannot be read for now, no code runs, and the outcome gives the attempt back (rule 19). Code never
        starts after its lease has expired, because another worker may have started it.
        """
        message = self._message
        services = self._services
        definition = self._type.definition
        clock = services.clock
        lock_expiry = definition.lock_expiry.total_seconds()
        needed_until = math.inf
        if held.lease is not None:
            needed_until = self._course.lease_end(claimed_at(held.lease.owner), self._code.timeout)
        if self._message.chained and held.lease is not None and clock.now() >= held.lease.expires_at:
            raise NotCalled(ev.LATE, "the lease expired before the step could start")
        code = self._type.step(message.step)
        index = message.index
        if message.undo and not undo_still_owed(self._type.plan(held.steps), index, held.steps[index]):
            raise NotCalled(ev.NOT_OWED, "the step did not complete, so its undo is not called")
        changed = changed_children(definition, held)
        payloads = self._inputs(held, changed)
        if not message.undo and not code.asks:  # a wait without code of its own
            return None
        context = self._context = StepContext(
            saga_id=message.saga_id,
            saga=message.saga,
            step=message.step,
            attempt=self._number(held),
            undo=message.undo,
            prefix=definition.prefix,
            deadline_at=self._invocation.deadline - RECORDING,
            clock=clock,
            logger=self._logger(),
            check_cancelled=self._cancel_accepted,
            saga_ends_at=0.0 if held.past_pivot else held.ends_at,
        )
        if services.connect is not None:
            context.connect = services.connect
        if code.public:
            context.callback = self._callback()
        if code.waits_for == "signal" and not message.undo:
            context.answer = partial(self._answer, held, code.signal_type)
        progress = ProgressReport(
            services.control.note_progress,
            held,
            clock,
            context.mark_lost,
            logger=services.logger,
            redact=self._redacted,
            mark=self._mark,
        )
        context.report = progress.report
        beat = Heartbeat(
            services.control.extend,
            held,
            lock_expiry,
            clock,
            context.mark_lost,
            progress.take,
            self._delay_until_after,
            needed_until,
            services.logger,
        )
        with progress, beat:
            began = partial(self._code_begins, held)
            try:
                payload = services.call(definition, code, message.undo, payloads, context, began, changed)
            finally:
                self._silence()
        if code.waits_for == "time" and not message.undo:
            self._until = moment(payload, clock.now())
        return payload

    def _check_condition(self, payloads: Mapping[str, str | None], changed: Collection[str]) -> None:
        """Raise ``Skipped`` if the condition of the step is false. Each attempt asks it, whoever asked before."""
        reason = "" if self._when is None else why_skipped(self._type.definition, self._when, payloads, changed)
        if reason:
            raise Skipped(reason)

    def _inputs(self, held: SagaState, changed: Collection[str]) -> dict[str, str | None]:
        """Return the inputs of the code as JSON texts, by parameter. What only the code takes matters only if the step
        runs."""
        self._when = None if self._message.undo else self._type.condition(held.steps[self._message.index])
        check_results(self._code.parameters if self._when is None else self._when.parameters, held)
        self._values = self._read(held, inputs_needed(self._parameters, held), self._patience(held))
        if held.unread is not None and held.unread.listed:
            self._unlist(held)
        payloads = payloads_of(self._values)
        self._check_condition(payloads, changed)
        check_results(self._code.parameters, held)
        return payloads

    @property
    def _parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the code, and of the condition on which it runs."""
        return self._code.parameters if self._when is None else (*self._code.parameters, *self._when.parameters)

    def _patience(self, held: SagaState) -> float:
        """Return the epoch seconds until which inputs may be read: while the lease lasts."""
        return min(self._invocation.deadline - COMMIT_RESERVE, held.lease.expires_at if held.lease else 0.0)

    def _read(self, held: SagaState, needed: Mapping[str, int], until: float) -> dict[str, Value]:
        """Return inputs by parameter. Payloads in the message that match the saga's digest are used. All others come
        from the journal, with retries ``until`` a time (epoch seconds). ``needed``: the numbers of their entries."""
        cached = self._course.cached(self._message.inputs, held.digest)
        missing = [seq for seq in needed.values() if seq not in cached and seq not in self._known]
        if missing:
            journal = self._services.journal
            saga_id = self._message.saga_id
            try:
                read = self._patiently(until, lambda: journal.entries(saga_id, missing))
            except (Changed, Unavailable) as error:
                if isinstance(error, Unavailable) and not is_gone(held, error):
                    raise NotRead(error) from error
                # The saga waits for an operator, as if the type of an input had changed.
                names = " or ".join(name for name, seq in needed.items() if seq in missing)
                raise TypeChanged(f"the stored value of {names} {ev.GONE}") from error
            values = {seq: Value(read[seq].payload, read[seq].hidden) for seq in missing}
            cached |= values
            self._known |= values
        return {name: self._known[seq] if seq in self._known else cached[seq] for name, seq in needed.items()}

    def _callback(self) -> Callable[[], str]:
        """Return the function that makes the URL of a public wait. The key that signs it is an input of the wait, so it
        is read before the code is called."""
        message = self._message
        url = partial(self._services.callback_url, message.saga, message.saga_id, message.step)
        if not message.undo:
            try:
                url()
            except Unavailable as error:
                raise NotRead(error) from error
            except SagaError:  # the service has no callbacks, which code that reads the URL learns
                pass
        return url

    def _unlist(self, held: SagaState) -> None:
        """Take the saga off the attention list, because its inputs can be read again."""
        stale_after = self._type.definition.stale_after.total_seconds()
        with suppress(Unavailable):  # the next commit does the same
            self._services.control.mark_read(held, stale_after)

    def _code_begins(self, held: SagaState) -> None:
        """Record that the code begins. Past the saga's deadline, raise instead (rule 20)."""
        if held.out_of_time(self._services.clock.now()):
            raise NotCalled(ev.LATE, "the saga's deadline passed before the step could start")
        self._began = True
        if self._context is not None:
            self._context.begin(self._code.timeout)
            patience = self._context.cleanup_until - self._services.clock.now()
            hangs = partial(self._hangs, held, self._context)
            self._silence = OVERTIME.set(patience, hangs, self._services.logger)
            name = "undo started" if self._context.undo else "step started"
            fields = {"saga_id": self._context.saga_id, "step": self._context.step, "attempt": self._context.attempt}
            self._services.logger.info(name, extra=fields)

    def _hangs(self, held: SagaState, context: StepContext) -> None:
        """Report that the code has not ended after its timeout. Nothing is committed or released, because the code may
        still act (rule 5). If its process ends, the takeover records the timeout."""
        step = held.steps[self._message.index]
        number = self._number(held)
        text = f"the code has not ended {context.overtime:.1f} s after its timeout of {self._code.timeout:g} s"
        fields = {"saga_id": held.saga_id, "step": step.name, "attempt": number}
        self._services.logger.error(f"attempt {number} of {self._named(step)} hangs: {text}", extra=fields)
        noted = Progress(0.0, text, self._services.clock.now(), late=True, redacted_by=self._mark)
        self._services.control.note_progress(held, noted)

    def _cancel_accepted(self) -> bool:
        """Whether a cancel was accepted; false if the store is unreachable."""
        try:
            state = self._services.control.get(self._message.saga_id)
        except Unavailable:
            return False
        return state is not None and bool(state.cancel.at)

    def _answer(self, held: SagaState, type_: Any, value: object) -> None:
        """Send a signal to the running step. When its wait is committed, the signal ends it."""
        from sagas.store.inbox import SentSignal

        data = encode(value, type_)
        index = self._message.index
        payload = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        redaction = self._type.definition.redaction
        hidden = redaction.hidden.get(self._message.step, ())
        self._answered += redaction.view(self._message.step, data)[1]
        self._secrets = None
        signal = SentSignal(payload, content_hash(data), WORKER, self._services.clock.now(), hidden)
        # The answer does not matter: if another signal or a cancel came first, or the lease is lost, the commit
        # notices.
        stale_after = self._type.definition.stale_after.total_seconds()
        write_contended(self._services.clock, partial(self._services.accept, held, index, signal, stale_after))

    def complete(self, held: SagaState, payload: str | None) -> Committed:
        """Journal and commit the success. ``payload`` is the result as JSON text."""
        step = held.steps[self._message.index]
        index = self._message.index
        if self._message.undo:
            return self._commit(held, ev.StepCompensated(index, step.undo_attempts.made), None, {})
        code = self._type.step(step.name)
        if step.waits_for == "children" and code.children is not None:
            many = len(json.loads(payload or "[]"))
            types = tuple(child.name for child in code.children.sagas)
            if many > MOST_CHILDREN:
                excess = f"step {step.name!r} requested {many:,} children; the limit is {MOST_CHILDREN:,}"
                return self.fail(held, WrongResult(excess))
            return self._commit(held, ev.ChildrenStarted(index, step.attempts.made, many, types), payload, {})
        if step.waits_for and code.waits_for:
            # The step's code has run and its wait begins. There is no result yet.
            until = self._until or round(self._services.clock.now() + code.wait, 3)
            return self._commit(held, ev.WaitStarted(index, step.attempts.made, until), None, {})
        hidden = hiding(self._type.definition.redaction.hidden.get(step.name, ()))
        return self._commit(held, ev.StepCompleted(index, step.attempts.made), payload, hidden)

    def _skip(self, held: SagaState, reason: str) -> Committed:
        """Journal and commit that the step is skipped, because its condition is false (rule 21)."""
        step = held.steps[self._message.index]
        fields = {"saga_id": held.saga_id, "step": step.name, "reason": reason}
        self._services.logger.info(f"step {step.name} was skipped: {reason}", extra=fields)
        return self._commit(held, ev.StepSkipped(self._message.index, step.attempts.made, reason), None, {})

    def fail(self, held: SagaState, error: Exception) -> Committed:
        """Journal and commit the failure, or that the step is skipped."""
        if isinstance(error, Skipped):
            return self._skip(held, str(error))
        step = held.steps[self._message.index]
        index = self._message.index
        retry = self._code.retry
        if isinstance(error, NotCalled):
            fields = {"saga_id": held.saga_id, "step": step.name, "reason": error.because}
            self._services.logger.info(f"{self._named(step)} was not called: {error}", extra=fields)
            return self._commit(held, not_called(held, index, error, self._services.clock.now()), None, {})
        if isinstance(error, NotRead):
            fact = not_read(held, index, error.cause, self._services.clock)
            fields = {"saga_id": held.saga_id, "step": step.name, "error": fact.message, "until": iso(fact.retry_at)}
            text = f"{self._named(step)} was not called: its inputs cannot be read"
            self._services.logger.warning(text, extra=fields)
            return self._commit(held, fact, None, {})
        raised = error
        error = leading(raised, retry)
        if isinstance(error, NotYet):
            within = self._type.step(step.name).within
            now = self._services.clock.now()
            fact = postponement(held, index, error, within, now, self._redacted, self._mark)
            return self._commit(held, fact, None, self._marked)
        failure = retry, step, index, error, self._services.clock
        redact = self._redacted
        if self._message.undo:
            trace_id = self._invocation.trace_id
            fact, details = undo_failure(*failure, trace_id, raised=raised, began=self._began, redact=redact)
        else:
            cancelled = self._context is not None and self._context.knows_of_cancel
            plan = self._type.plan(held.steps)
            now = self._services.clock.now()
            look_at = next_look(plan, held, now) if settles(plan, held, now) else 0.0
            fact, details = step_failure(
                *failure,
                raised=raised,
                cancelled=cancelled,
                began=self._began,
                redact=redact,
                look_at=look_at,
                in_doubt_on=self._type.step(step.name).in_doubt_on,
                late=self._context is not None and self._context.refused,
            )
        # The journal has the whole error. The log has only its type, because the text may quote payloads.
        fields: dict[str, Any] = {"saga_id": held.saga_id, "step": step.name, "error": type(error).__name__}
        granted = step.undo_attempts.at_grant if self._message.undo else step.attempts.at_grant
        fields |= {"attempt": self._number(held), "of": granted + retry.executions}
        code = self._named(step)
        text = f"attempt {fields['attempt']} of {fields['of']} of {code} failed: {fields['error']}"
        if isinstance(fact, ev.StepPostponed):
            text = f"{code} was not called, because a stored value does not fit it; the saga waits for a release"
        if retry_at := getattr(fact, "retry_at", 0.0):
            fields["delay"] = round(retry_at - self._services.clock.now(), 3)
            text += f"; next attempt in {fields['delay']:g} s"
        self._services.logger.warning(text, extra=fields)
        return self._commit(held, fact, None, details | self._marked)

    def _redacted(self, text: str, longest: int | None = None) -> str:
        """Return a text of the code, cut to ``longest`` characters, without the hidden values that the code could
        see."""
        if self._secrets is None:
            known = secrets_in(self._type.definition, self._parameters, self._values)
            self._secrets = Secrets((*known, *self._answered))
        return self._secrets.without(text, longest)

    @property
    def _marked(self) -> dict[str, Any]:
        """Details that say under which type the texts of an entry were redacted."""
        return {"redacted_by": self._mark} if self._mark else {}

    def _logger(self) -> StepLogger:
        """Return the logger of the code. Its lines are redacted if the code can see hidden values."""
        logger = StepLogger(self._services.logger)
        if self._mark or any(value.hidden for value in self._values.values()):
            from sagas.engine.attempt.redacted_lines import RedactedLines  # imported here: most types hide nothing

            logger.addFilter(RedactedLines(self._redacted))
        return logger

    def _named(self, step: StepState) -> str:
        return f"the undo of step {step.name}" if self._message.undo else f"step {step.name}"

    def _number(self, held: SagaState) -> int:
        """Return the number of this attempt."""
        step = held.steps[self._message.index]
        return step.undo_attempts.made if self._message.undo else step.attempts.made

    def _commit(self, held: SagaState, fact: ev.Fact, payload: str | None, details: dict[str, Any]) -> Committed:
        """Commit an outcome, with retries while there is time."""
        message = self._message
        trace_id = self._invocation.trace_id
        dying = DeadMessage(message.dispatch, message.hops, message.message_id)
        chained = message.chained
        context = EntryContext(
            payload,
            details,
            trace_id=trace_id,
            message=None if chained else dying,
            next_lease=self._next_lease,
            chained=chained,
            why_skipped=partial(self._why_skipped, held),
        )
        plan = self._type.plan(held.steps)
        try:
            return self._patiently(
                self._invocation.deadline - COMMIT_RESERVE,
                lambda: self._services.committer.commit(plan, held, fact, context),
            )
        except Unavailable as error:
            owner = held.lease.owner if held.lease else ""
            stored = details_of(fact) | details
            number = self._number(held)
            pending = PendingCommit(fact.action, number, held.token, held.seq, owner, stored, trace_id, payload)
            raise NotCommitted(pending, message) from error

    def _patiently(self, until: float, request: Callable[[], T]) -> T:
        """Return the result of ``request``, with retries while there is time. ``until``: epoch seconds by which a retry
        must end, if it takes as long as the last try."""
        clock = self._services.clock
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
