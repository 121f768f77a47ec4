"""Circuit breakers at work: who may pass, and what the attempts' outcomes make of them.

An execution environment reads a breaker at most once a second. It is written when an attempt failed, when one
succeeded after a failure, and around a probe: at most two requests an outcome, none of them repeated, and none for a
success while no failure is known. Steps without one cost nothing; undos always pass.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from dataclasses import dataclass, field, replace

from sagas.authoring.policies import Exhausted
from sagas.core.breaker import (
    PROBE_POLL,
    AttemptOutcome,
    BreakerState,
    Limits,
    admit,
    opened,
    probe_ended,
    silent_until,
)
from sagas.core.effects import Postpone
from sagas.core.events import (
    DeadLetterCause,
    Fact,
    StepCompleted,
    StepDeadLettered,
    StepFailed,
    StepLost,
    StepPostponed,
)
from sagas.core.states import SagaState
from sagas.core.text import iso
from sagas.engine.clock import Clock
from sagas.engine.ports import EngineObserver
from sagas.engine.registry import Registry
from sagas.errors import BreakerOpen, NotFound, Unavailable
from sagas.messaging.limits import LONGEST_DELAY
from sagas.messaging.message.message import Message
from sagas.store.types.breakers import BreakerItems

GOOD_FOR = 1.0
"""Seconds for which an environment keeps what it read; never longer than the breaker would stay open. A breaker that
an operator closed holds nothing back for longer."""
_CLOCK_AND_CACHE_SLACK = GOOD_FOR + 1.5
"""Seconds for which a worker may act on what a breaker was: as long as it keeps that, by clocks that differ."""
_QUIET = 1.0
"""Seconds after a count in which an environment gathers further failures, unless they would open the breaker."""
_LONGEST_QUIET = 60.0
"""The same where counting was refused, at most: each refusal doubles it. A thousand environments that count once a
second are what one key of DynamoDB takes."""


@dataclass(slots=True)
class _Known:
    """What this environment knows of a breaker, and what it has not told it yet.

    Args:
        state: as it was last read or written.
        at: epoch seconds at which that was asked for; 0 for never.
        untold: failures here since the last success here that are not counted yet.
        quiet: seconds for which failures are gathered after a count.
        quiet_until: epoch seconds until which they are.
    """

    state: BreakerState = field(default_factory=BreakerState)
    at: float = 0.0
    untold: int = 0
    quiet: float = _QUIET
    quiet_until: float = 0.0


class Breakers:
    """The breakers of all steps that declare one.

    They observe: outcomes count when they are committed, once each, where they are committed.

    Args:
        store: the breakers, shared by all execution environments.
        registry: tells which steps declare one.
        clock: tells the time, and the chance that spreads those that wait.
        logger: told when a breaker opens or closes.
        observer: told when a breaker opens or closes.
    """

    def __init__(
        self,
        store: BreakerItems,
        registry: Registry,
        clock: Clock,
        logger: logging.Logger,
        observer: EngineObserver,
    ) -> None:
        self._observer = observer
        self._store = store
        self._registry = registry
        self._clock = clock
        self._logger = logger
        self._all: defaultdict[tuple[str, str], _Known] = defaultdict(_Known)

    def known_until(self, message: Message) -> float:
        """Return when a message should come back that is known to wait here; see :class:`sagas.engine.gates.Gate`.

        Where something else may be wrong with a message, it must be looked at all the same: one that was
        received before may have lost its worker, or be dying, and a dead letter that was redriven is known by its hops.
        """
        limits = self._limits_for(message)
        if limits is None or message.pending_commit is not None or message.receives > 1:
            return 0.0
        step = self._registry.get(message.saga).step(message.step)
        if step.on_exhausted is Exhausted.DEAD_LETTER or self._fails_fast(message):
            return 0.0
        known, now = self._all[message.saga, message.step], self._clock.now()
        if not self._fresh(known, limits):
            return 0.0
        return admit(limits, known.state, message.saga_id, now, now, self._clock.chance()).wait_until

    def is_open(self, message: Message) -> bool:
        """Whether the message's step may be claimed at once, as far as is known here."""
        limits = self._limits_for(message)
        if limits is None:
            return True
        state = self._recent(message.saga, message.step, limits)
        return state.closed or state.probed_by(message.saga_id, self._clock.now())

    def admit(self, message: Message, state: SagaState, act_until: float) -> Postpone | BreakerOpen | None:
        """Let a message pass, if need be as the probe; see :meth:`sagas.engine.gates.Gate.admit`."""
        until = self._wait_until(message, act_until)
        if not until or not self._fails_fast(message):
            return Postpone(until) if until else None
        return BreakerOpen(f"the circuit breaker of step {message.step!r} is open")

    def _wait_until(self, message: Message, deadline: float) -> float:
        """Let a message pass whose step would run now, if need be as the probe. ``deadline``: epoch seconds by which
        its function cannot act any more. Returns 0 to pass, or the epoch seconds at which the message should come
        back."""
        limits = self._limits_for(message)
        if limits is None:
            return 0.0
        state, now, chance = self._recent(message.saga, message.step, limits), self._clock.now(), self._clock.chance()
        asked = admit(limits, state, message.saga_id, now, deadline, chance)
        if asked.state is state:
            return asked.wait_until
        probed = replace(asked.state, revision=self._clock.new_owner())
        state = self._store.swap(message.saga, message.step, state, probed)
        self._learn(message.saga, message.step, state)
        if state.closed or state.probed_by(message.saga_id, now):
            return 0.0
        # Another was faster. Whatever it is at, one look is enough for now.
        return admit(limits, state, message.saga_id, now, now, chance).wait_until or now + PROBE_POLL

    def _fails_fast(self, message: Message) -> bool:
        """Whether a step that may not pass is to fail instead of waiting."""
        return not message.undo and self._step_fails_fast(message.saga, message.step)

    def _step_fails_fast(self, saga: str, step: str) -> bool:
        policy = self._registry.get(saga).step(step).circuit_breaker
        return policy is not None and policy.when_open == "fail"

    def waits_behind(self, saga: str, step: str) -> BreakerState | None:
        """Return the breaker that holds a step back, as far as is known here; ``None`` when none does."""
        limits = self._waiting_limits(saga, step)
        state = self._recent(saga, step, limits) if limits else BreakerState()
        return None if state.closed else state

    def states(self) -> dict[tuple[str, str], BreakerState]:
        """Return the breakers of all steps that declare one, by saga type and step, as they are stored."""
        declared = ((saga.definition.name, step) for saga in self._registry for step in saga.definition.steps)
        return self._store.get_many([(saga, step.name) for saga, step in declared if step.circuit_breaker])

    def close(self, saga: str, step: str) -> BreakerState:
        """Close a breaker, whatever it is; return what it was."""
        if self._registry.get(saga).step(step).circuit_breaker is None:
            raise NotFound(f"step {step!r} of saga {saga!r} has no circuit breaker")
        before = self._store.get(saga, step)
        self._store.close(saga, step, self._clock.now(), self._clock.new_owner())
        self._learn(saga, step, None)
        if not before.closed:
            self._observer.breaker_closed(saga)
        return before

    def silent_until(self, state: SagaState) -> float:
        """Return until when the breaker of a saga's step explains its silence; see :class:`sagas.engine.gates.Gate`."""
        if state.current is None or state.undoing:
            return 0.0
        return self.postponed_until(state.saga, state.current.name, state.updated_at)

    def postponed_until(self, saga: str, step: str, since: float) -> float:
        """Until when (epoch seconds) the silence of a message at that step may be this breaker's doing; 0 for never.

        A copy comes back after at least as many seconds as there were copies before it, be the breaker closed by then
        or not (see ``sagas.messaging.postponing``). How many there were is not known, but n of them have taken n**2 / 2
        seconds. A message that was sent after the breaker had closed was not postponed by it. ``since``: epoch seconds
        before which the message was not sent.
        """
        limits = self._waiting_limits(saga, step)
        if limits is None:
            return 0.0
        state = self._recent(saga, step, limits)
        last = state.closed_at if state.closed else max(state.open_until, state.probe_until)
        if not last or last + _CLOCK_AND_CACHE_SLACK < since:
            return 0.0
        copies = math.sqrt(2 * max(last - since, 0.0))
        return silent_until(limits, state) + _CLOCK_AND_CACHE_SLACK + min(copies, LONGEST_DELAY)

    def committed(self, before: SagaState, after: SagaState, fact: Fact) -> None:
        """Count what an attempt's outcome says of the dependency."""
        match fact:
            case StepCompleted() | StepPostponed():  # that it is not yet time, the dependency said
                outcome = AttemptOutcome.SUCCESS
            case StepFailed(permanent=False, excused=False):
                outcome = AttemptOutcome.FAILURE
            case StepFailed() | StepLost() | StepDeadLettered(cause=DeadLetterCause.TYPE_CHANGED):
                outcome = AttemptOutcome.NONE
            case _:
                return
        saga, step = after.saga, after.steps[fact.index].name
        limits = self._limits(saga, step)
        if limits is None:
            return
        try:
            self._tell(saga, step, limits, after.saga_id, outcome)
        except Unavailable:
            # The outcome itself is committed. A probe that could not report counts as dead when its time is over.
            known, now = self._all[saga, step], self._clock.now()
            known.quiet_until, known.quiet = now + known.quiet, min(2 * known.quiet, _LONGEST_QUIET)
            fields = {"saga": saga, "saga_id": after.saga_id, "step": step}
            self._logger.warning("the circuit breaker was not told of an outcome", extra=fields)

    def _tell(self, saga: str, step: str, limits: Limits, saga_id: str, outcome: AttemptOutcome) -> None:
        known = self._all[saga, step]
        if outcome is AttemptOutcome.FAILURE and known.state.probe != saga_id:
            # Not read before: what is stored refuses to count, should it not be closed. A probe that is committed
            # where nobody knows of it as such, hours later even, is not worth a request of every failing step.
            self._count(saga, step, limits, known)
            return
        if outcome is AttemptOutcome.SUCCESS:
            known.untold = 0
        state = known.state if known.state.probe == saga_id else self._recent(saga, step, limits)
        if state.closed:
            if state.failures and outcome is AttemptOutcome.SUCCESS:
                self._learn(saga, step, self._store.forget(saga, step, self._clock.new_owner()))
            return
        ended = probe_ended(limits, state, saga_id, outcome, self._clock.now())
        if ended is state:
            return
        ended = replace(ended, revision=self._clock.new_owner())
        found = self._store.swap(saga, step, state, ended)
        self._learn(saga, step, found)
        if found is not ended:
            return  # closed by hand, or another probe's since this one's time was over
        if ended.closed:
            self._logger.info("the circuit breaker closed", extra={"saga": saga, "step": step})
            self._observer.breaker_closed(saga)
        elif ended.open_until != state.open_until:
            self._opened(saga, step, ended)

    def _count(self, saga: str, step: str, limits: Limits, known: _Known) -> None:
        """Count a failure at once if it may be the one too many, or the first in a while; else gather it."""
        known.untold += 1
        now = self._clock.now()
        enough = (known.state.failures if known.state.closed else 0) + known.untold >= limits.threshold
        if now < known.quiet_until and (known.quiet > _QUIET or not enough):
            return
        state = self._store.count(saga, step, known.untold, self._clock.new_owner())
        known.untold, known.quiet, known.quiet_until = 0, _QUIET, now + _QUIET
        self._learn(saga, step, state)
        after = opened(limits, state, now)
        if after is not state:
            after = replace(after, revision=self._clock.new_owner())
            won = self._store.open(saga, step, limits.threshold, after)
            self._learn(saga, step, won)
            if won is not None:
                self._opened(saga, step, won)

    def _opened(self, saga: str, step: str, state: BreakerState) -> None:
        fields = {"saga": saga, "step": step, "failures": state.failures, "open_until": iso(state.open_until)}
        self._logger.warning("the circuit breaker opened", extra=fields)
        self._observer.breaker_opened(saga)

    def _learn(self, saga: str, step: str, state: BreakerState | None) -> None:
        """Remember what a breaker was just seen to be; ``None``: not what was thought, so that it is read next time."""
        known = self._all[saga, step]
        known.state, known.at = state or BreakerState(), self._clock.now() if state else 0.0
        if not known.state.closed:
            known.untold = 0  # they are part of what opened it

    def _recent(self, saga: str, step: str, limits: Limits) -> BreakerState:
        known = self._all[saga, step]
        if not self._fresh(known, limits):
            self._learn(saga, step, self._store.get(saga, step))
        return known.state

    def _fresh(self, known: _Known, limits: Limits) -> bool:
        return self._clock.now() - known.at < min(GOOD_FOR, limits.open_for)

    def _limits_for(self, message: Message) -> Limits | None:
        return None if message.undo else self._limits(message.saga, message.step)

    def _waiting_limits(self, saga: str, step: str) -> Limits | None:
        limits = self._limits(saga, step)
        fails = limits is not None and self._step_fails_fast(saga, step)
        return None if fails else limits

    def _limits(self, saga: str, step: str) -> Limits | None:
        try:
            policy = self._registry.get(saga).step(step).circuit_breaker
        except NotFound:
            return None
        return Limits(policy.failure_threshold, policy.open_for) if policy else None
