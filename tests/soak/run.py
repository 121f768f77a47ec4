"""One run from the start of its stack to the figures."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.soak.driver import Driver
from tests.soak.faults import Struck, struck
from tests.soak.findings import Findings, findings
from tests.soak.harbour import Harbour, harbour
from tests.soak.lives import lives

_RECOVERING = ("StepLost", "MessageResent", "SagaRecovered", "SagaRecoveryExhausted", "SagaRetried")
_WAITING = ("WaitStarted", "SignalReceived", "WaitTimedOut", "ChildrenStarted", "ChildrenEnded")
_PATIENCE = 120.0
"""Seconds that sagas under way get to come to rest when no more are started, and queues to run dry after them."""


@dataclass(frozen=True)
class Settings:
    """What a run is to be.

    Args:
        sagas: how many at most.
        calm: how many are run before them that nothing disturbs.
        seed: decides requests, moods, deeds and faults.
        seconds: after which no more are started.
        rate: the share of requests that are disturbed.
        window: how many are under way at most.
        isolation: of the service: ``step`` gives each step a function, ``saga`` is faster to warm up.
    """

    sagas: int
    calm: int
    seed: int
    seconds: float
    rate: float = 0.03
    window: int = 32
    isolation: str = "saga"


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run came to."""

    settings: Settings
    started: int
    starting: float
    calming: float
    running: float
    faults: Counter[str]
    ticks: Counter[str]
    found: Findings

    def __str__(self) -> str:
        found, settings = self.found, self.settings
        recovered = Counter({name: found.actions[name] for name in _RECOVERING})
        waits = Counter({name: found.actions[name] for name in _WAITING})
        lines = [
            f"seed {settings.seed}: {self.started} of {settings.sagas} sagas in {self.running:.0f} s"
            f" ({self.started / max(self.running, 0.1):.1f}/s), stack started in {self.starting:.0f} s",
            f"  undisturbed  {_told(found.calm_ends)} before that, in {self.calming:.0f} s",
            f"  ends         {_told(found.ends)}",
            f"  journal      {found.entries} entries, {found.executions} executions, {_told(recovered)}",
            f"  waits        {_told(waits)}",
            f"  errors       {_told(found.errors)}",
            f"  faults       {sum(self.faults.values())}: {_told(self.faults)}",
            f"  supervisor   {_told(self.ticks)}",
            f"  violations   {len(found.violations)}",
        ]
        return "\n".join([*lines, *(f"    {line}" for line in found.violations + found.trails)])


def _kinds(faults: list[Struck]) -> Counter[str]:
    return Counter(fault.kind for fault in faults)


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none"


def soak(project: Path, settings: Settings) -> Figures:
    """Run: first a few sagas that nothing disturbs, then the others.

    Args:
        project: an empty directory.
        settings: what the run is to be.
    """
    begun = time.monotonic()
    with harbour(project, seed=settings.seed, rate=settings.rate, isolation=settings.isolation) as stack:
        up = time.monotonic()
        calm = _driven(stack, settings, faulty=False)
        disturbed = time.monotonic()
        stack.disturb()
        faulty = _driven(stack, settings, faulty=True)
        running = time.monotonic() - disturbed
        faults = struck(stack.spent)
        found = findings(stack, [*calm.courses, *faulty.courses], faults)
    return Figures(
        settings, len(faulty.courses), up - begun, disturbed - up, running, _kinds(faults), faulty.ticks, found
    )


def _driven(stack: Harbour, settings: Settings, *, faulty: bool) -> Driver:
    driver, until = Driver(stack, settings.window), time.monotonic() + settings.seconds
    many = settings.sagas if faulty else settings.calm
    driver.run(lives(settings.seed, many, faulty=faulty), until, until + _PATIENCE)
    return driver
