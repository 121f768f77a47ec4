"""Jobs: actions on many sagas. Each saga gets a separate call, with its own audit entry."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from sagas import threads
from sagas.client.operate.outcomes import CallOutcome, Report, outcome_of
from sagas.client.operate.pacing import job_reason, new_job, paced

_REMEMBERED = 50
_LISTED = 200


@dataclass(frozen=True, slots=True)
class Item:
    """A saga in a job, as the operator saw it: ``seq`` is the number of its last audit entry."""

    name: str
    saga_id: str
    seq: int


Act = Callable[[str, Item, str], str]
"""Applies an action to a saga, with a reason, and returns the id of the saga to look at next."""
TakeLetters = Callable[[str, Iterable[Item]], str]
"""Deletes the dead letters that an action has made stale, and returns why some may be left."""


@dataclass(slots=True)
class Job:
    """An action on many sagas, at most ``rate`` per second. ``job_id`` is the number of the job in this console. Audit
    trails have its unique ``name`` and the reason. A job that goes on with another keeps its name, so that a call whose
    answer was lost can be repeated."""

    job_id: int
    do: str
    reason: str
    items: Mapping[str, Item]
    rate: float
    name: str = field(default_factory=new_job)
    report: Report = field(init=False)
    _stop: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.report = Report(self.name, (*self.items,))

    @property
    def unfinished(self) -> list[Item]:
        """The sagas that were not tried, or that can be tried again."""
        return [self.items[saga_id] for saga_id in self.report.unfinished]

    @property
    def listed(self) -> list[tuple[Item, CallOutcome]]:
        """The outcomes that a page lists. Unsuccessful ones come first."""
        # Use a copy, because outcomes can still arrive.
        settled = sorted(self.report.outcomes.copy().values(), key=lambda outcome: outcome.outcome == "done")
        return [(self.items[item.saga_id], item) for item in settled[:_LISTED]]

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def stop(self) -> None:
        self._stop.set()

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for the job's end. Returns whether the job has ended."""
        return self._ended.wait(timeout)

    def run(self, act: Act, take_letters: TakeLetters) -> None:
        """Apply the action to all sagas, in order, and then delete their stale dead letters."""
        reason, sleep = job_reason(self.report.job, self.reason), self._stop.wait

        def call(saga_id: str) -> CallOutcome:
            return outcome_of(saga_id, lambda _: act(self.do, self.items[saga_id], reason), sleep)

        def stopped() -> str:
            return "you stopped it" if self._stop.is_set() else ""

        try:
            self.report.stopped = paced(
                *(self.report.chosen, call, self.report.settle), rate=self.rate, sleep=sleep, stopped=stopped
            )
            self.report.letters = take_letters(self.do, [self.items[saga_id] for saga_id in self.report.done])
        finally:
            self._ended.set()


class Jobs:
    """The jobs of a console. They end when the console ends. ``rate``: sagas per second."""

    def __init__(self, act: Act, rate: float, take_letters: TakeLetters) -> None:
        self._act = act
        self._take_letters = take_letters
        self._rate = rate
        self._jobs: dict[int, Job] = {}
        self._number = 0
        self._lock = threading.Lock()

    def start(
        self, do: str, reason: str, items: Iterable[Item], rate: float | None = None, name: str | None = None
    ) -> Job:
        """Start a job. ``rate`` is in sagas per second. Default: the console's rate. ``name`` is that of the job that
        this one goes on with, if any."""
        with self._lock:
            self._number += 1
            by_id = {item.saga_id: item for item in items}
            job = Job(self._number, do, reason, by_id, rate or self._rate, name or new_job())
            self._jobs[job.job_id] = job
            for old in [*self._jobs][:-_REMEMBERED]:
                if self._jobs[old].ended:
                    del self._jobs[old]
        run = partial(job.run, self._act, self._take_letters)
        threads.start(f"sagas-job-{job.job_id}", run, logging.getLogger(__name__))
        return job

    def get(self, job_id: int) -> Job | None:
        return self._jobs.get(job_id)

    def stop(self) -> None:
        for job in list(self._jobs.values()):
            job.stop()
