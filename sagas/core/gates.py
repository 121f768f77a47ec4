"""What can stop a saga before a step: the step's circuit breaker, or an operator's pause.

A circuit breaker is a pure automaton (Nygard, "Release It!", 2007, chapter "Circuit Breaker").

    closed     --threshold consecutive failures-->  open
    open       --open_for seconds-->                half-open
    half-open  --one saga is admitted-->            half-open, probed
    probed     --success-->  closed    --failure-->  open    --no outcome, or no report-->  half-open
    any        --an operator-->                     closed

An open breaker becomes half-open by time alone, without a write. The admitted saga is the probe. A saga has one
execution at a time, so the outcome of the probe is clear: the probe's function or a takeover reports it. Until the
breaker is closed, no other outcome changes it.

A refused saga returns at a random time, in a range that grows with the age of the outage. So waiting sagas read the
breaker less and less often, however many they are. Once the breaker is closed, they do not return all at once, but over
about as long as it had been open.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from sagas.core.states import SagaState

PROBE_POLL = 5.0
"""Minimum seconds for which a message waits while another saga is the probe, unless the open period is shorter."""
LONGEST_SPREAD = 840.0
"""Maximum seconds over which returns are spread. With a short open period, this fits into SQS's longest delay."""


class AttemptOutcome(StrEnum):
    """What an attempt says about the step's dependency."""

    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    NONE = "NONE"
    """The attempt ended for another reason: the business said no, the error is permanent, it was cancelled, its code
    never began, or its worker died. It may not have called the dependency, so the breaker ignores it."""


class Limits(Struct, frozen=True):
    """The failures in a row that open a breaker, and the seconds for which it stays open."""

    threshold: int
    open_for: float


class CountedError(Struct, frozen=True):
    """A failure of the dependency that a breaker counted. Its text is only in the saga's entry, so a purge deletes it.

    Args:
        type: the type of the error.
        at: when the attempt failed (epoch seconds).
        saga_id: the saga whose attempt failed.
        seq: the number of the saga's journal entry with the error.
    """

    type: str
    at: float
    saga_id: str
    seq: int


class BreakerState(Struct, frozen=True):
    """One breaker. Times are epoch seconds; 0 means never.

    Args:
        failures: failures in a row; while the breaker is not closed, those that opened it.
        open_until: end of the open period; 0 if the breaker is closed.
        probe: the saga that was admitted as the probe.
        probe_until: when the probe counts as lost if it has not reported.
        closed_at: when the breaker was last closed.
        opened_at: when the breaker last left the closed state.
        revision: stamp of the write that stored this state; empty if it was never stored.
        last_error: the error that was counted last; ``None`` if there was none.
    """

    failures: int = 0
    open_until: float = 0.0
    probe: str = ""
    probe_until: float = 0.0
    closed_at: float = 0.0
    opened_at: float = 0.0
    revision: str = ""
    last_error: CountedError | None = None

    @property
    def closed(self) -> bool:
        """Whether all sagas may pass."""
        return not self.open_until

    def probed_by(self, saga_id: str, now: float) -> bool:
        """Whether a saga is the probe."""
        return self.probe == saga_id and now < self.probe_until


class Admission(Struct, frozen=True):
    """The answer to a message. ``state``: the breaker afterwards. ``wait_until``: epoch seconds at which the message
    returns; 0 if it is admitted."""

    state: BreakerState
    wait_until: float = 0.0


def spread(limits: Limits, state: BreakerState, now: float) -> float:
    """Return the seconds over which the sagas that wait for a breaker spread their returns.

    That is the time since the breaker was closed, but at least one open period, and at most a message's longest delay.
    """
    return min(max(limits.open_for, now - state.opened_at if state.opened_at else 0.0), LONGEST_SPREAD)


def admit(
    limits: Limits, state: BreakerState, saga_id: str, now: float, probe_until: float, chance: float
) -> Admission:
    """Admit a saga through a closed breaker, or as the only probe of a half-open one. ``now``: epoch seconds.
    ``probe_until``: epoch seconds at which the saga, as the probe, counts as lost if it has not reported."""
    if state.closed or state.probed_by(saga_id, now):
        return Admission(state)
    later = spread(limits, state, now) * chance
    if now < state.open_until:
        return Admission(state, state.open_until + later)
    if now < state.probe_until:
        return Admission(state, min(state.probe_until, now + min(PROBE_POLL, limits.open_for)) + later)
    return Admission(replace(state, probe=saga_id, probe_until=probe_until))


def opened(limits: Limits, state: BreakerState, now: float) -> BreakerState:
    """Open a closed breaker if it has enough failures in a row; else return the same object. ``now``: epoch seconds."""
    if not state.closed or state.failures < limits.threshold:
        return state
    return replace(state, open_until=now + limits.open_for, opened_at=now)


def probe_ended(limits: Limits, state: BreakerState, saga_id: str, outcome: AttemptOutcome, now: float) -> BreakerState:
    """Return a breaker after a saga's attempt; the same object unless the saga is the probe. ``now``: epoch seconds."""
    if state.closed or state.probe != saga_id:
        return state
    free = replace(state, probe="", probe_until=0.0)
    if outcome is AttemptOutcome.SUCCESS:
        return closed(free, now)
    return free if outcome is AttemptOutcome.NONE else replace(free, open_until=now + limits.open_for)


def closed(state: BreakerState, now: float) -> BreakerState:
    """Close a breaker in any state. ``now``: epoch seconds."""
    return replace(state, failures=0, open_until=0.0, probe="", probe_until=0.0, closed_at=now)


def silent_until(limits: Limits, state: BreakerState) -> float:
    """Return the time (epoch seconds) until which this breaker may still delay messages; 0 for never.

    If an operator closes the breaker early, a message that was refused just before still waits until the end of the
    open period, plus the spread.
    """
    if state.closed:
        last = state.closed_at and state.closed_at + limits.open_for
    else:
        last = max(state.open_until, state.probe_until)
    return last and last + PROBE_POLL + spread(limits, state, last)


class Scope(Struct, frozen=True):
    """What is paused: a saga type, one of its steps, or one of its sagas.

    Args:
        name: the name of the type.
        step: the name of the step; empty for all steps.
        saga_id: the id of the saga; empty for all sagas.
    """

    name: str
    step: str = ""
    saga_id: str = ""

    @classmethod
    def parse(cls, text: str) -> Scope:
        """Parse the format of :attr:`text`."""
        name, _, saga_id = text.partition("#")
        name, _, step = name.partition("/")
        return cls(name, step, saga_id)

    @property
    def text(self) -> str:
        """The scope as a text, to store and display: ``TYPE``, ``TYPE/STEP`` or ``TYPE#ID``."""
        return self.name + (f"/{self.step}" if self.step else "") + (f"#{self.saga_id}" if self.saga_id else "")

    def covers(self, state: SagaState) -> bool:
        """Whether a saga at its current step is in this scope."""
        step = state.current
        at_step = not self.step or (step is not None and step.name == self.step)
        return state.saga == self.name and at_step and self.saga_id in ("", state.saga_id)


class Pause(Struct, frozen=True):
    """A pause, or one that has ended. Times are epoch seconds; 0 means never.

    Args:
        at: when the pause began.
        by: the operator.
        reason: why.
        starts_only: new sagas are refused, and sagas in flight continue.
        starts: new sagas are accepted, but wait before their first step.
        undos: undos wait, too.
        resumed_at: when the pause ended; 0 until then.
        revision: stamp of the write that stored this pause; empty if it is not stored as one that is on.
    """

    at: float = 0.0
    by: str = ""
    reason: str = ""
    starts_only: bool = False
    starts: bool = False
    undos: bool = False
    resumed_at: float = 0.0
    revision: str = ""

    @property
    def on(self) -> bool:
        """Whether the pause is in effect."""
        return bool(self.at) and not self.resumed_at

    def holds(self, *, undo: bool) -> bool:
        """Whether the pause stops steps or, with ``undo``, undos."""
        return self.on and not self.starts_only and (self.undos or not undo)


NO_PAUSE = Pause()
