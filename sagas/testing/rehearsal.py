"""One saga on its way in memory: the automaton decides, the runner runs, and nothing can get lost."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sagas.authoring.codec import content_hash
from sagas.authoring.context import Context
from sagas.authoring.definition import SagaDefinition, StepDefinition
from sagas.authoring.policies import Retry
from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.commands import Command, Postpone, Run, Send, Write
from sagas.core.states import DeadLetter, Lease, SagaState
from sagas.core.times import iso
from sagas.engine.registry import SagaType, plan_for
from sagas.engine.runner import Runner, inputs_needed, parameters_of
from sagas.errors import Rejected
from sagas.store.entries import Entry, details_of
from sagas.testing.fake_context import FakeContext

Failing = BaseException | type[BaseException]
"""What an attempt raises instead of running."""
_BEGINNING = datetime(2030, 1, 1, tzinfo=UTC).timestamp()
_CHANCE = 0.5
"""What stands for chance where a retry has jitter: tests repeat."""
_FOREVER = 10.0 * 365 * 24 * 3600


@dataclass(slots=True)
class Rehearsal:
    """One saga on its way: state and journal in memory, one message at a time, a clock that skips."""

    definition: SagaDefinition
    fail: Mapping[str, Failing]
    clients: Mapping[str, Any] | Callable[[str], Any] | None
    saga_id: str
    request: Any
    state: SagaState = field(init=False)
    entries: dict[int, Entry] = field(default_factory=dict[int, Entry])
    now: float = _BEGINNING
    runner: Runner = field(default_factory=Runner)

    def __post_init__(self) -> None:
        definition, saga_type = self.definition, SagaType(self.definition)
        self.state = SagaState(
            self.saga_id, definition.name, definition.version, saga_type.new_steps, self.saga_id, created_at=self.now
        )
        details = {"request_hash": content_hash(self.request)} | saga_type.first_entry_details
        started = self._entry("SagaStarted", self.state, 1, details, payload=_text(self.request))
        self.entries[1] = replace(started, actor="test")

    def play(self) -> None:
        """Deliver the saga's message until none follows."""
        send: Send | None = Send(0, False, self.state.dispatch)
        while send is not None:
            self.now = max(self.now, send.not_before)
            send = self._deliver(send)

    def _deliver(self, send: Send) -> Send | None:
        lease = Lease(f"{round(self.now * 1000):011x}", self.now + _FOREVER, self.now + _FOREVER)
        arrived = ev.MessageArrived(send.index, send.undo, send.dispatch, 0, f"message-{send.dispatch}", lease)
        decision = decide(plan_for(self.definition, self._names), self.state, arrived, self.now)
        self.state = decision.state
        for command in decision.commands:
            if isinstance(command, Run):
                return self._settle(*self._execute(command), send)
            if isinstance(command, Postpone):
                return replace(send, not_before=command.until)
            if isinstance(command, Write):
                return self._settle(command.fact, {}, None, send)
        return None

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(step.name for step in self.state.steps)

    def _execute(self, command: Run) -> tuple[ev.Fact, dict[str, Any], str | None]:
        """Run the code; return what happened, what else is to be known of it, and the result."""
        step = self.definition.step(self.state.steps[command.index].name)
        try:
            payload = self._call(step, command)
        except Exception as error:  # noqa: BLE001 - whatever the code raises is a failed attempt
            failure = _undo_failure if command.undo else _step_failure
            return failure(self.state, step, command, error, self.now)
        kind = ev.StepCompensated if command.undo else ev.StepCompleted
        return kind(command.index, command.attempt), {}, payload

    def _call(self, step: StepDefinition, command: Run) -> str | None:
        needed = inputs_needed(parameters_of(step, command.undo), self.state)
        payloads = {name: self.entries[seq].payload if seq else None for name, seq in needed.items()}
        return self.runner.run(
            self.definition, self._spoiled(step), command.undo, payloads, self._context(step, command)
        )

    def _spoiled(self, step: StepDefinition) -> StepDefinition:
        """The step with what ``fail`` names replaced by code that raises."""
        if step.undo is not None and step.undo.name in self.fail:
            step = replace(step, undo=replace(step.undo, function=_raiser(self.fail[step.undo.name])))
        return replace(step, function=_raiser(self.fail[step.name])) if step.name in self.fail else step

    def _context(self, step: StepDefinition, command: Run) -> Context:
        timeout = step.undo.timeout if command.undo and step.undo else step.timeout
        return FakeContext(
            saga_id=self.saga_id,
            saga=self.definition.name,
            step=step.name,
            attempt=command.attempt,
            undo=command.undo,
            deadline=datetime.fromtimestamp(self.now + timeout, UTC),
            remaining_time=timeout,
            client=self.clients,
            prefix=self.definition.prefix,
        )

    def _settle(self, fact: ev.Fact, details: dict[str, Any], payload: str | None, send: Send) -> Send | None:
        """Journal a fact and whatever it entails; return the message that follows."""
        commands = self._commit(fact, details, payload)
        while pending := next((command.fact for command in commands if isinstance(command, Write)), None):
            if isinstance(pending, ev.StepDeadLettered):
                pending = replace(pending, message=DeadLetter(send.dispatch, 0, f"message-{send.dispatch}"))
            commands = self._commit(pending, {}, None)
        return next((command for command in commands if isinstance(command, Send)), None)

    def _commit(self, fact: ev.Fact, details: dict[str, Any], payload: str | None) -> tuple[Command, ...]:
        decision = decide(plan_for(self.definition, self._names), self.state, fact, self.now)
        before, self.state = self.state, decision.state
        if isinstance(fact, ev.StepFact) and before.lease:
            details = {"started_at": iso(int(before.lease.owner, 16) / 1000)} | details_of(fact) | details
        else:
            details = details_of(fact) | details
        entry = self._entry(fact.action, self.state, self.state.seq, details, fact=fact, payload=payload)
        self.entries[entry.seq] = entry
        return decision.commands

    def _entry(
        self,
        action: str,
        after: SagaState,
        seq: int,
        details: dict[str, Any],
        *,
        fact: ev.Fact | None = None,
        payload: str | None = None,
    ) -> Entry:
        index: int | None = getattr(fact, "index", None)
        return Entry(
            saga_id=self.saga_id,
            seq=seq,
            at=self.now,
            saga=self.definition.name,
            action=action,
            status=after.status.value,
            token=after.token,
            step=None if index is None else after.steps[index].name,
            attempt=getattr(fact, "attempt", None),
            correlation_id=self.saga_id,
            details=details,
            payload=payload,
        )


def _raiser(failing: Failing) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise failing if isinstance(failing, type) else failing.with_traceback(None)

    return fail


def _text(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


def _failure_of(error: BaseException) -> ev.Failure:
    return ev.Failure(type(error).__name__, str(error)[:1_000])


def _retry_at(retry: Retry, failures: int, now: float) -> float:
    return math.ceil((now + retry.delay(failures, _CHANCE)) * 1000) / 1000


Failed = tuple[ev.Fact, dict[str, Any], None]


def _step_failure(state: SagaState, step: StepDefinition, command: Run, error: Exception, now: float) -> Failed:
    used = command.attempt - state.steps[command.index].attempts_at_grant
    permanent = step.retry.gives_up(error)
    again = not permanent and used < step.retry.executions
    retry_at = _retry_at(step.retry, used, now) if again else 0.0
    rejected = isinstance(error, Rejected)
    fact = ev.StepFailed(command.index, command.attempt, _failure_of(error), permanent, rejected, retry_at)
    return fact, {} if again else {"stack_trace": _trace(error)}, None


def _undo_failure(state: SagaState, step: StepDefinition, command: Run, error: Exception, now: float) -> Failed:
    retry = step.undo.retry if step.undo else step.retry
    used = command.attempt - state.steps[command.index].undo_attempts_at_grant
    if retry.gives_up(error) or used >= retry.executions:
        details = {"stack_trace": _trace(error), "attempts": command.attempt, "trace_id": ""}
        return ev.CompensationFailed(command.index, command.attempt, _failure_of(error)), details, None
    at = _retry_at(retry, used, now)
    return ev.CompensationAttemptFailed(command.index, command.attempt, _failure_of(error), at), {}, None


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-4_000:]
