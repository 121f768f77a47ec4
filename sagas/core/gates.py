"""What holds a saga back before a step: the step's circuit breaker, and a pause by an operator.

A circuit breaker is a pure automaton (Nygard, "Release It!", 2007, chapter "Circuit Breaker").

    closed     --threshold consecutive failures-->  open
    open       --open_for seconds-->                half-open
    half-open  --one saga is let through-->         half-open, probed
    probed     --success-->  closed    --failure-->  open    --no outcome, or nothing heard-->  half-open
    any        --an operator-->                     closed

The time alone makes an open breaker half-open, so nothing has to be written for that. The probe is known by its saga,
which has one execution at a time: what reports that saga's outcome, its function or the one that finds it dead,
reports the probe's. Outcomes of other sagas, begun before the breaker opened, change nothing while it is not closed.

What may not pass comes back at a random time whose range grows with the age of the outage: as many sagas as may wait
behind a breaker, they look at it ever more rarely, and once it is closed they return within about the time that it had
been open, not all at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from sagas.core.states import SagaState

PROBE_POLL = 5.0
"""Seconds for which a message that met another saga's probe stays away at least, if the breaker opens for as long."""
LONGEST_SPREAD = 840.0
"""Seconds over which returns are spread at most: with some open period before it, a wait fits one delay of SQS."""


class AttemptOutcome(StrEnum):
    """What an attempt's outcome says about the dependency behind the step."""

    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    NONE = "NONE"
    """The attempt ended for a reason of its own: the business said no, trying again is pointless, it was cancelled, its
    code never began, or its worker died. It may never have got as far as the dependency, so it neither closes a breaker
    nor counts against it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When it opens, and for how many seconds."""

    threshold: int
    open_for: float


@dataclass(frozen=True, slots=True)
class BreakerState:
    """One breaker. Times are epoch seconds; 0 means never.

    Args:
        failures: consecutive failures; while it is not closed, those that opened it.
        open_until: end of the open period; 0 when closed.
        probe: the saga that was let through.
        probe_until: when the probe counts as dead if nothing was heard.
        closed_at: when it was closed last.
        opened_at: when it left the closed state last.
        revision: stamp of the write that made this state; empty if it was never written.
    """

    failures: int = 0
    open_until: float = 0.0
    probe: str = ""
    probe_until: float = 0.0
    closed_at: float = 0.0
    opened_at: float = 0.0
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


def spread(limits: Limits, state: BreakerState, now: float) -> float:
    """Return over how many seconds those that wait behind a breaker spread their return.

    As long as it is not closed for, at least one open period, and no longer than a message can be delayed.
    """
    return min(max(limits.open_for, now - state.opened_at if state.opened_at else 0.0), LONGEST_SPREAD)


def admit(
    limits: Limits, state: BreakerState, saga_id: str, now: float, probe_until: float, chance: float
) -> Admission:
    """Let a saga through a closed breaker, or as the one probe of a half-open one. ``now``: epoch seconds.
    ``probe_until``: epoch seconds by which the asker will have reported, or be dead."""
    if state.closed or state.probed_by(saga_id, now):
        return Admission(state)
    later = spread(limits, state, now) * chance
    if now < state.open_until:
        return Admission(state, state.open_until + later)
    if now < state.probe_until:
        return Admission(state, min(state.probe_until, now + min(PROBE_POLL, limits.open_for)) + later)
    return Admission(replace(state, probe=saga_id, probe_until=probe_until))


def opened(limits: Limits, state: BreakerState, now: float) -> BreakerState:
    """Return a closed breaker opened, if there were as many failures in a row as its threshold; else the same object.
    ``now``: epoch seconds."""
    if not state.closed or state.failures < limits.threshold:
        return state
    return replace(state, open_until=now + limits.open_for, opened_at=now)


def probe_ended(limits: Limits, state: BreakerState, saga_id: str, outcome: AttemptOutcome, now: float) -> BreakerState:
    """Return a breaker after an attempt of that saga ended; the same object unless it was the probe. ``now``: epoch
    seconds."""
    if state.closed or state.probe != saga_id:
        return state
    free = replace(state, probe="", probe_until=0.0)
    if outcome is AttemptOutcome.SUCCESS:
        return closed(free, now)
    return free if outcome is AttemptOutcome.NONE else replace(free, open_until=now + limits.open_for)


def closed(state: BreakerState, now: float) -> BreakerState:
    """Return a breaker closed, whatever it was. ``now``: epoch seconds."""
    return replace(state, failures=0, open_until=0.0, probe="", probe_until=0.0, closed_at=now)


def silent_until(limits: Limits, state: BreakerState) -> float:
    """Return until when (epoch seconds) a message may still stay away because of this breaker; 0 for never.

    One that looked just before the breaker closed, by hand perhaps and well before its open period would have ended,
    stays away to the end of that period and then for as long as returns were spread over.
    """
    if state.closed:
        last = state.closed_at and state.closed_at + limits.open_for
    else:
        last = max(state.open_until, state.probe_until)
    return last and last + PROBE_POLL + spread(limits, state, last)


@dataclass(frozen=True, slots=True)
class Scope:
    """What is paused: a saga type, one of its steps, or one of its sagas.

    Args:
        name: of the type.
        step: name of the step; empty for all.
        saga_id: id of the saga; empty for all.
    """

    name: str
    step: str = ""
    saga_id: str = ""

    @classmethod
    def parse(cls, text: str) -> Scope:
        """Read what :attr:`text` wrote."""
        name, _, saga_id = text.partition("#")
        name, _, step = name.partition("/")
        return cls(name, step, saga_id)

    @property
    def text(self) -> str:
        """How it is stored, and shown to operators: ``TYPE``, ``TYPE/STEP`` or ``TYPE#ID``."""
        return self.name + (f"/{self.step}" if self.step else "") + (f"#{self.saga_id}" if self.saga_id else "")

    def covers(self, state: SagaState) -> bool:
        """Whether a saga, as it stands, is in this scope."""
        step = state.current
        at_step = not self.step or (step is not None and step.name == self.step)
        return state.saga == self.name and at_step and self.saga_id in ("", state.saga_id)


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause, or one that has ended. Times are epoch seconds; 0 means never.

    Args:
        at: when it began.
        by: the operator.
        reason: why.
        starts_only: new sagas are refused, and those in flight go on.
        starts: new sagas are accepted, and wait before their first step.
        undos: undos wait, too.
        resumed_at: when it ended; 0 while it lasts.
    """

    at: float = 0.0
    by: str = ""
    reason: str = ""
    starts_only: bool = False
    starts: bool = False
    undos: bool = False
    resumed_at: float = 0.0

    @property
    def on(self) -> bool:
        """Whether it lasts."""
        return bool(self.at) and not self.resumed_at

    def holds(self, *, undo: bool) -> bool:
        """Whether steps, or undos, may not begin."""
        return self.on and not self.starts_only and (self.undos or not undo)


NO_PAUSE = Pause()
