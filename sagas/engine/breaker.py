"""Circuit breakers at work: who may pass, and what the attempts' outcomes make of them.

An execution environment reads a breaker once in a second or two. It is written when an attempt failed, when one
succeeded after a failure, and around a probe. Steps without one cost nothing; undos always pass.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from sagas.core.breaker import PROBE_POLL, Admission, AttemptOutcome, BreakerState, Limits, admit, record_outcome
from sagas.core.events import Fact, StepCompleted, StepFact, StepFailed, StepLost
from sagas.core.states import SagaState
from sagas.core.times import iso
from sagas.engine.clock import Clock
from sagas.engine.ports import EngineObserver
from sagas.engine.registry import Registry
from sagas.errors import NotFound, Unavailable
from sagas.messaging.limits import LONGEST_DELAY
from sagas.messaging.message import Message

_GOOD_FOR = 1.5
"""Seconds for which a breaker that was read is believed; never longer than it would stay open."""
_CLOCK_AND_CACHE_SLACK = 5.0
"""Seconds for which a worker may act on what a breaker was: as long as it is believed, by clocks that differ."""
_ROUNDS = 20
"""How often a write is tried anew that met another one. In each round one of those that met gets through."""
_RACE = 1.0
"""Seconds after which a message comes back that lost every round."""


class BreakerStore(Protocol):
    """The stored breakers; see ``sagas.store.breakers.BreakerItems``."""

    def get(self, saga: str, step: str) -> BreakerState: ...
    def swap(self, saga: str, step: str, before: BreakerState, after: BreakerState) -> bool: ...


class Breakers:
    """The breakers of all steps that declare one.

    They observe: outcomes count when they are committed, once each, where they are committed. So an execution that was
    killed counts too, when it is found dead.

    Args:
        store: the breakers, shared by all execution environments.
        registry: tells which steps declare one.
        clock: tells the time.
        logger: told when a breaker opens or closes.
        observer: told when a breaker opens or closes.
    """

    def __init__(
        self,
        store: BreakerStore,
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
        self._known: dict[tuple[str, str], tuple[float, BreakerState]] = {}

    def passes(self, message: Message) -> bool:
        """Whether the message's step may be claimed at once, as far as is known here.

        Raises:
            Unavailable: the store is out of reach.
        """
        limits = self._limits_for(message)
        if limits is None:
            return True
        state = self._recent(message.saga, message.step, limits)
        return state.closed or state.probed_by(message.saga_id, self._clock.now())

    def admit(self, message: Message, deadline: float) -> float:
        """Let a message pass whose step would run now, if need be as the probe.

        Args:
            message: the message at hand.
            deadline: epoch seconds by which its function cannot act any more.

        Returns:
            0 to pass, or the epoch seconds at which the message should come back.

        Raises:
            Unavailable: the store is out of reach.
        """
        limits = self._limits_for(message)
        if limits is None:
            return 0.0

        def ask(state: BreakerState) -> Admission:
            return admit(state, message.saga_id, self._clock.now(), deadline)

        admission = self._change(message.saga, message.step, limits, ask)
        return admission.wait_until if admission else self._clock.now() + _RACE

    def open_until(self, saga: str, step: str) -> float:
        """Until when (epoch seconds) a step is held back, as far as is known here; 0 when it is not.

        Raises:
            Unavailable: the store is out of reach.
        """
        limits = self._limits(saga, step)
        if limits is None:
            return 0.0
        state = self._recent(saga, step, limits)
        return state.open_until if not state.closed and state.open_until > self._clock.now() else 0.0

    def postponed_until(self, saga: str, step: str, since: float) -> float:
        """Until when (epoch seconds) the silence of a message at that step may be this breaker's doing; 0 for never.

        A postponed message comes back at the end of the open period, or soon after a probe. A copy of a copy of it may
        come as many seconds later as there were copies; since each was as late, they are few (n of them take n**2 / 2
        seconds). A message that was sent after the breaker had closed was not postponed by it.

        Args:
            saga: the saga type.
            step: the step.
            since: epoch seconds before which the message was not sent.

        Raises:
            Unavailable: the store is out of reach.
        """
        limits = self._limits(saga, step)
        if limits is None:
            return 0.0
        state = self._recent(saga, step, limits)
        last = max(state.open_until, state.probe_until, state.closed_at)
        if last + _CLOCK_AND_CACHE_SLACK < since:
            return 0.0
        copies = math.sqrt(2 * max(last - since, 0.0))
        return last + PROBE_POLL + _CLOCK_AND_CACHE_SLACK + min(copies, LONGEST_DELAY) if last else 0.0

    def committed(self, before: SagaState, after: SagaState, fact: Fact) -> None:
        """Count an attempt's outcome."""
        outcome = _outcome_of(fact)
        if outcome is not None and isinstance(fact, StepFact):
            self._count(after, after.steps[fact.index].name, outcome)

    def _count(self, saga: SagaState, step: str, outcome: AttemptOutcome) -> None:
        limits = self._limits(saga.saga, step)
        if limits is None:
            return

        def tell(state: BreakerState) -> Admission:
            return Admission(record_outcome(limits, state, saga.saga_id, outcome, self._clock.now()))

        try:
            told = self._change(saga.saga, step, limits, tell)
        except Unavailable:
            told = None
        if told is None:
            # The outcome itself is committed. A probe that could not report counts as dead when its time is over.
            fields = {"saga": saga.saga, "saga_id": saga.saga_id, "step": step}
            self._logger.warning("the circuit breaker was not told of an outcome", extra=fields)

    def _change(
        self, saga: str, step: str, limits: Limits, ask: Callable[[BreakerState], Admission]
    ) -> Admission | None:
        """Write what ``ask``, a pure function, makes of the breaker; ``None`` when others always were faster."""
        state = self._recent(saga, step, limits)
        for _ in range(_ROUNDS):
            admission = ask(state)
            if admission.state == state:
                return admission
            after = replace(admission.state, revision=self._clock.new_owner())
            if self._store.swap(saga, step, state, after):
                self._known[saga, step] = (self._clock.now(), after)
                fields = {"saga": saga, "step": step, "failures": after.failures}
                if after.closed and not state.closed:
                    self._logger.info("the circuit breaker closed", extra=fields)
                    self._observer.breaker_closed(saga)
                elif after.open_until != state.open_until:
                    self._logger.warning(
                        "the circuit breaker opened", extra=fields | {"open_until": iso(after.open_until)}
                    )
                    self._observer.breaker_opened(saga)
                return admission
            state = self._read(saga, step)
        return None

    def _recent(self, saga: str, step: str, limits: Limits) -> BreakerState:
        known = self._known.get((saga, step))
        good_for = min(_GOOD_FOR, limits.open_for)
        return known[1] if known and self._clock.now() - known[0] < good_for else self._read(saga, step)

    def _read(self, saga: str, step: str) -> BreakerState:
        asked = self._clock.now()
        state = self._store.get(saga, step)
        self._known[saga, step] = (asked, state)
        return state

    def _limits_for(self, message: Message) -> Limits | None:
        return None if message.undo else self._limits(message.saga, message.step)

    def _limits(self, saga: str, step: str) -> Limits | None:
        try:
            policy = self._registry.get(saga).step(step).circuit_breaker
        except NotFound:
            return None
        return Limits(policy.failure_threshold, policy.open_for) if policy else None


def _outcome_of(fact: Fact) -> AttemptOutcome | None:
    """What a committed fact says of the dependency; ``None`` if it is not the outcome of a step's attempt."""
    match fact:
        case StepCompleted():
            return AttemptOutcome.SUCCESS
        case StepLost() | StepFailed(permanent=False):
            return AttemptOutcome.FAILURE
        case StepFailed():
            return AttemptOutcome.NONE
        case _:
            return None
