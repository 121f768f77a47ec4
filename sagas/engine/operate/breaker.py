"""Circuit breakers: they admit steps, and count the outcomes of attempts.

An execution environment reads a breaker at most once a second. It writes a breaker after a failed attempt, after a
success that follows a failure, and around a probe. An outcome takes at most two requests, not counting retries. A
success that follows a success takes none. Steps without a breaker cost nothing. Undos always pass.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from sagas.authoring.policies import Exhausted
from sagas.core.commands import Postpone
from sagas.core.events import (
    DeadLetterCause,
    Fact,
    StepCompleted,
    StepDeadLettered,
    StepFailed,
    StepLost,
    StepPostponed,
    StepSkipped,
)
from sagas.core.gates import (
    PROBE_POLL,
    AttemptOutcome,
    BreakerState,
    CountedError,
    Limits,
    admit,
    closed,
    opened,
    probe_ended,
    silent_until,
)
from sagas.core.states import SagaState
from sagas.core.text import iso
from sagas.engine.clock import Clock
from sagas.engine.ports import EngineObserver
from sagas.engine.registry import Registry
from sagas.errors import BreakerOpen, NotFound, Unavailable
from sagas.messaging.message import Message
from sagas.messaging.routes import LONGEST_DELAY
from sagas.store.types.breakers import BreakerItems

GOOD_FOR = 1.0
"""Seconds for which an environment caches a breaker, at most its open period. After that time, a breaker that an
operator has closed blocks nothing."""
_CLOCK_AND_CACHE_SLACK = GOOD_FOR + 1.5
"""Seconds for which a worker may act on outdated data: the life of the cache, plus the difference between clocks."""
_QUIET = 1.0
"""Seconds after a count for which an environment collects further failures, unless they would open the breaker."""
_LONGEST_QUIET = 60.0
"""Upper limit of this time, which doubles with each refused count: a key takes only a thousand writes per second."""


class _Cached(Struct):
    """A breaker as this environment has cached it, and the failures that it has not counted in the store yet.

    Args:
        state: the breaker as last read or written.
        at: epoch seconds of this read or write; 0 if there was none.
        uncounted: failures in this environment since its last success that the store has not counted yet.
        quiet: seconds for which failures are collected after a count.
        quiet_until: epoch seconds until which failures are collected.
    """

    state: BreakerState = field(default_factory=BreakerState)
    at: float = 0.0
    uncounted: int = 0
    quiet: float = _QUIET
    quiet_until: float = 0.0


class Breakers:
    """The breakers of all steps that declare one.

    Each outcome counts once: the environment that commits it counts it.

    Args:
        store: the breakers, shared by all execution environments.
        registry: the saga types and their policies.
        clock: the current time, and the random numbers that spread waiting messages.
        logger: logs each time a breaker opens or closes.
        observer: notified each time a breaker opens or closes.
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
        self._all: defaultdict[tuple[str, str], _Cached] = defaultdict(_Cached)

    def cached_until(self, message: Message) -> float:
        """Return when a message should come back if it has to wait here; see :class:`sagas.engine.ports.Gate`.

        A message that may have another problem must always be handled. A message that was received before may have lost
        its worker, or may soon be dead-lettered. A redriven dead letter is recognized by its hops.
        """
        limits = self._limits_for(message)
        if limits is None or message.pending_commit is not None or message.receives > 1:
            return 0.0
        step = self._registry.get(message.saga).step(message.step)
        if step.on_exhausted is Exhausted.DEAD_LETTER or self._fails_fast(message):
            return 0.0
        cached = self._all[message.saga, message.step]
        now = self._clock.now()
        if not self._fresh(cached, limits):
            return 0.0
        return admit(limits, cached.state, message.saga_id, now, now, self._clock.chance()).wait_until

    def is_open(self, message: Message) -> bool:
        """Whether the message's step may be claimed now, as far as this environment knows."""
        limits = self._limits_for(message)
        if limits is None:
            return True
        state = self._recent(message.saga, message.step, limits)
        return state.closed or state.probed_by(message.saga_id, self._clock.now())

    def admit(self, message: Message, state: SagaState, act_until: float) -> Postpone | BreakerOpen | None:
        """Admit a message, if necessary as the probe; see :meth:`sagas.engine.ports.Gate.admit`."""
        until = self._wait_until(message, act_until)
        if not until or not self._fails_fast(message):
            return Postpone(until) if until else None
        return BreakerOpen(f"the circuit breaker of step {message.step!r} is open")

    def _wait_until(self, message: Message, deadline: float) -> float:
        """Admit a message whose step would run now, if necessary as the probe. ``deadline``: epoch seconds after which
        the function can no longer act. Returns 0 if the message is admitted, else the time of its return (epoch
        seconds)."""
        limits = self._limits_for(message)
        if limits is None:
            return 0.0
        state = self._recent(message.saga, message.step, limits)
        now = self._clock.now()
        chance = self._clock.chance()
        admission = admit(limits, state, message.saga_id, now, deadline, chance)
        if admission.state is state:
            return admission.wait_until
        probed = replace(admission.state, revision=self._clock.new_owner())
        state = self._store.swap(message.saga, message.step, state, probed)
        self._learn(message.saga, message.step, state)
        if state.closed or state.probed_by(message.saga_id, now):
            return 0.0
        # Another environment has changed the breaker first. This call does not try again.
        return admit(limits, state, message.saga_id, now, now, chance).wait_until or now + PROBE_POLL

    def _fails_fast(self, message: Message) -> bool:
        """Whether the message's step fails, instead of waiting, while its breaker is open."""
        return not message.undo and self._step_fails_fast(message.saga, message.step)

    def _step_fails_fast(self, saga: str, step: str) -> bool:
        policy = self._registry.get(saga).step(step).circuit_breaker
        return policy is not None and policy.when_open == "fail"

    def waits_behind(self, saga: str, step: str) -> BreakerState | None:
        """Return the breaker that blocks a step, as far as this environment knows; ``None`` if none does."""
        limits = self._waiting_limits(saga, step)
        state = self._recent(saga, step, limits) if limits else BreakerState()
        return None if state.closed else state

    def states(self) -> dict[tuple[str, str], BreakerState]:
        """Return the stored breakers of all steps that declare one, by saga type and step."""
        declared = ((saga.definition.name, step) for saga in self._registry for step in saga.definition.steps)
        return self._store.get_many([(saga, step.name) for saga, step in declared if step.circuit_breaker])

    def states_of(self, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], BreakerState]:
        """Return the stored breakers of those of these steps that still declare one, in order of saga type and step."""
        return self._store.get_many(sorted(place for place in places if self._limits(*place)))

    def close(self, saga: str, step: str) -> BreakerState:
        """Close a breaker in any state. Return its previous state."""
        self._check_declared(saga, step)
        before = self._store.get(saga, step)
        self._store.close(saga, step, self._clock.now(), self._clock.new_owner())
        self._learn(saga, step, None)
        if not before.closed:
            self._observer.breaker_closed(saga)
        return before

    def open(self, saga: str, step: str) -> None:
        """Open a breaker, as failures of its step do."""
        limits = self._check_declared(saga, step)
        before = self._store.get(saga, step)
        failed = replace(closed(before, 0.0), failures=limits.threshold, revision=self._clock.new_owner())
        self._learn(saga, step, self._store.swap(saga, step, before, opened(limits, failed, self._clock.now())))

    def _check_declared(self, saga: str, step: str) -> Limits:
        """Return the limits of a step's breaker. Raises ``NotFound`` if the step declares none."""
        policy = self._registry.get(saga).step(step).circuit_breaker
        if policy is None:
            raise NotFound(f"step {step!r} of saga {saga!r} has no circuit breaker")
        return Limits(policy.failure_threshold, policy.open_for)

    def silent_until(self, state: SagaState) -> float:
        """Return the time until which the breaker of the saga's step may be holding the saga back. See
        :class:`sagas.engine.ports.Gate`."""
        if state.current is None or state.undoing:
            return 0.0
        return self.postponed_until(state.saga, state.current.name, state.updated_at)

    def postponed_until(self, saga: str, step: str, since: float) -> float:
        """Return the time (epoch seconds) until which a breaker may be holding a message back; 0 if none is.

        Each copy of a postponed message waits at least as many seconds as there were copies before it, even after the
        breaker has closed (see ``sagas.messaging.queues``). The number of copies is unknown, but n copies take n**2
        / 2 seconds. Messages that are sent after the breaker has closed are not postponed. ``since``: the earliest time
        (epoch seconds) at which the message can have been sent.
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
        """Count an attempt's outcome as a success or a failure of the dependency, or as neither."""
        error: CountedError | None = None
        match fact:
            case StepSkipped(attempt=0):  # no attempt has asked the breaker
                return
            case StepSkipped():
                outcome = AttemptOutcome.NONE
            case StepPostponed() if fact.because:  # the code was not called
                outcome = AttemptOutcome.NONE
            case StepCompleted() | StepPostponed():  # the dependency answered, even if only "not yet"
                outcome = AttemptOutcome.SUCCESS
            case StepFailed(permanent=False, excused=False):
                outcome = AttemptOutcome.FAILURE
                error = CountedError(fact.failure.type, after.updated_at, after.saga_id, after.seq)
            case StepFailed() | StepLost() | StepDeadLettered(cause=DeadLetterCause.TYPE_CHANGED):
                outcome = AttemptOutcome.NONE
            case _:
                return
        saga = after.saga
        step = after.steps[fact.index].name
        limits = self._limits(saga, step)
        if limits is None:
            return
        try:
            self._record(saga, step, limits, after.saga_id, outcome, error)
        except Unavailable:
            # The outcome itself has been committed. A probe without a result counts as lost when its time expires.
            cached = self._all[saga, step]
            now = self._clock.now()
            cached.quiet_until = now + cached.quiet
            cached.quiet = min(2 * cached.quiet, _LONGEST_QUIET)
            fields = {"saga": saga, "saga_id": after.saga_id, "step": step}
            self._logger.warning("an outcome was not counted by the circuit breaker", extra=fields)

    def _record(
        self, saga: str, step: str, limits: Limits, saga_id: str, outcome: AttemptOutcome, error: CountedError | None
    ) -> None:
        """Count an outcome. ``error``: the error of a failure, ``None`` for any other outcome."""
        cached = self._all[saga, step]
        if error is not None and cached.state.probe != saga_id:
            # No read is needed: the store refuses the count unless the breaker is closed. This may miss a probe that
            # commits in another environment, maybe hours later, but a read after every failed step would cost more.
            self._count(saga, step, limits, cached, error)
            return
        if outcome is AttemptOutcome.SUCCESS:
            cached.uncounted = 0
        state = cached.state if cached.state.probe == saga_id else self._recent(saga, step, limits)
        if state.closed:
            if state.failures and outcome is AttemptOutcome.SUCCESS:
                self._learn(saga, step, self._store.forget(saga, step, self._clock.new_owner()))
            return
        ended = probe_ended(limits, state, saga_id, outcome, self._clock.now())
        if ended is state:
            return
        ended = replace(ended, revision=self._clock.new_owner(), last_error=error or state.last_error)
        stored = self._store.swap(saga, step, state, ended)
        self._learn(saga, step, stored)
        if stored is not ended:
            return  # an operator has closed it, or another probe has begun because the time of this one has expired
        if ended.closed:
            self._logger.info("the circuit breaker closed", extra={"saga": saga, "step": step})
            self._observer.breaker_closed(saga)
        elif ended.open_until != state.open_until:
            self._opened(saga, step, ended)

    def _count(self, saga: str, step: str, limits: Limits, cached: _Cached, error: CountedError) -> None:
        """Count a failure at once if it may reach the threshold, or if the quiet time has passed. Else collect it."""
        cached.uncounted += 1
        now = self._clock.now()
        enough = (cached.state.failures if cached.state.closed else 0) + cached.uncounted >= limits.threshold
        if now < cached.quiet_until and (cached.quiet > _QUIET or not enough):
            return
        state = self._store.count(saga, step, cached.uncounted, error, self._clock.new_owner())
        cached.uncounted = 0
        cached.quiet = _QUIET
        cached.quiet_until = now + _QUIET
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
        """Cache a breaker. ``None`` clears the cache, so the breaker is read next time."""
        cached = self._all[saga, step]
        cached.state = state or BreakerState()
        cached.at = self._clock.now() if state else 0.0
        if not cached.state.closed:
            cached.uncounted = 0  # these failures have helped to open it

    def _recent(self, saga: str, step: str, limits: Limits) -> BreakerState:
        cached = self._all[saga, step]
        if not self._fresh(cached, limits):
            self._learn(saga, step, self._store.get(saga, step))
        return cached.state

    def _fresh(self, cached: _Cached, limits: Limits) -> bool:
        return self._clock.now() - cached.at < min(GOOD_FOR, limits.open_for)

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
