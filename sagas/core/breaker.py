"""The circuit breaker of one step, as a pure automaton (Nygard, "Release It!", 2007, chapter "Circuit Breaker").

    closed     --threshold consecutive failures-->  open
    open       --open_for seconds-->                half-open
    half-open  --one saga is let through-->         half-open, probed
    probed     --success-->  closed    --failure-->  open    --no outcome, or nothing heard-->  half-open

The time alone makes an open breaker half-open, so nothing has to be written for that. The probe is known by its saga,
which has one execution at a time: what reports that saga's outcome, its function or the one that finds it dead,
reports the probe's. Outcomes of other sagas, begun before the breaker opened, change nothing while it is not closed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

PROBE_POLL = 5.0
"""Seconds after which a message that met another saga's probe looks again."""


class AttemptOutcome(StrEnum):
    """What an attempt's outcome says about the dependency behind the step."""

    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    NONE = "NONE"
    """The attempt ended for a reason of its own: the business said no, or trying again is pointless. It may never have
    got as far as the dependency, so it neither closes a breaker nor counts against it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When it opens, and for how many seconds."""

    threshold: int
    open_for: float


@dataclass(frozen=True, slots=True)
class BreakerState:
    """One breaker. Times are epoch seconds; 0 means never.

    Args:
        failures: consecutive failures, while closed.
        open_until: end of the open period; 0 when closed.
        probe: the saga that was let through.
        probe_until: when the probe counts as dead if nothing was heard.
        closed_at: when it was closed last.
        revision: stamp of the write that made this state; empty if it was never written.
    """

    failures: int = 0
    open_until: float = 0.0
    probe: str = ""
    probe_until: float = 0.0
    closed_at: float = 0.0
    revision: str = ""

    @property
    def closed(self) -> bool:
        """Whether everybody may pass."""
        return not self.open_until

    def probed_by(self, saga_id: str, now: float) -> bool:
        """Whether that saga is the one that may try."""
        return self.probe == saga_id and now < self.probe_until


@dataclass(frozen=True, slots=True)
class Admission:
    """The breaker after a message asked to pass. ``wait_until``: epoch seconds to come back at; 0 to pass."""

    state: BreakerState
    wait_until: float = 0.0


def admit(state: BreakerState, saga_id: str, now: float, probe_until: float) -> Admission:
    """Let a saga through a closed breaker, or as the one probe of a half-open one.

    Args:
        state: the breaker.
        saga_id: who asks; asking twice is the same as asking once.
        now: epoch seconds.
        probe_until: epoch seconds by which the asker will have reported, or be dead.
    """
    if state.closed or state.probed_by(saga_id, now):
        return Admission(state)
    if now < state.open_until:
        return Admission(state, state.open_until)
    if now < state.probe_until:
        return Admission(state, min(state.probe_until, now + PROBE_POLL))
    return Admission(replace(state, probe=saga_id, probe_until=probe_until))


def record_outcome(
    limits: Limits, state: BreakerState, saga_id: str, outcome: AttemptOutcome, now: float
) -> BreakerState:
    """Return the breaker after an attempt of that saga ended; the same object when it changes nothing.

    Args:
        limits: the step's policy.
        state: the breaker.
        saga_id: whose attempt it was.
        outcome: what its end says.
        now: epoch seconds.
    """
    if state.closed:
        return _counted(limits, state, outcome, now)
    if state.probe != saga_id:
        return state
    free = replace(state, probe="", probe_until=0.0)
    if outcome is AttemptOutcome.SUCCESS:
        return replace(free, failures=0, open_until=0.0, closed_at=now)
    return free if outcome is AttemptOutcome.NONE else replace(free, open_until=now + limits.open_for)


def _counted(limits: Limits, state: BreakerState, outcome: AttemptOutcome, now: float) -> BreakerState:
    if outcome is AttemptOutcome.SUCCESS and state.failures:
        return replace(state, failures=0)
    if outcome is not AttemptOutcome.FAILURE:
        return state
    failures = state.failures + 1
    opens = failures >= limits.threshold
    return replace(state, failures=failures, open_until=now + limits.open_for if opens else 0.0)
