"""What is done to many sagas: each is a call of its own, and audited as such."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sagas.client.operate.outcomes import Outcome, Report, outcome_of
from sagas.client.operate.pacing import job_reason, new_job, paced

_REMEMBERED = 50
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Item:
    """One saga of a job."""

    name: str
    saga_id: str


Act = Callable[[str, Item, str], str]
"""Does something to a saga, with a reason, and returns the id of the saga to look at next."""


@dataclass(slots=True)
class Job:
    """Something done to many sagas.

    Args:
        job_id: its number within the console. The notes that its sagas keep have the job's name in the report instead:
            another console has the same numbers.
        do: what is done.
        reason: why; kept in the audit trail of each.
        items: to what, by the ids of the sagas.
        rate: how many a second at most.
    """

    job_id: int
    do: str
    reason: str
    items: Mapping[str, Item]
    rate: float
    report: Report = field(init=False)
    _stop: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.report = Report(new_job(), (*self.items,))

    @property
    def unfinished(self) -> list[Item]:
        """What may be tried again, or was not tried."""
        return [self.items[saga_id] for saga_id in self.report.unfinished]

    @property
    def told(self) -> list[tuple[Item, Outcome]]:
        """What became of the sagas, those first for which it was not done; as many as a page has room for."""
        # A copy: further outcomes come meanwhile.
        settled = sorted(self.report.outcomes.copy().values(), key=lambda one: one.outcome == "done")
        return [(self.items[one.saga_id], one) for one in settled[:_SHOWN]]

    @property
    def over(self) -> bool:
        """Whether nothing more is done."""
        return self._over.is_set()

    def stop(self) -> None:
        """Do no more than what is being done."""
        self._stop.set()

    def wait(self, timeout: float) -> bool:
        """Wait for its end; tell whether it has come."""
        return self._over.wait(timeout)

    def run(self, act: Act) -> None:
        """Do it to all, in order."""
        reason, sleep = job_reason(self.report.job, self.reason), self._stop.wait

        def call(saga_id: str) -> Outcome:
            return outcome_of(saga_id, lambda _: act(self.do, self.items[saga_id], reason), sleep)

        def stopped() -> str:
            return "you stopped it" if self._stop.is_set() else ""

        self.report.stopped = paced(
            *(self.report.chosen, call, self.report.settle), rate=self.rate, sleep=sleep, stopped=stopped
        )
        self._over.set()


class Jobs:
    """The jobs of a console. They end with it.

    Args:
        act: does one thing to one saga.
        rate: how many a second at most.
    """

    def __init__(self, act: Act, rate: float = 5.0) -> None:
        self._act = act
        self._rate = rate
        self._jobs: dict[int, Job] = {}
        self._number = 0
        self._lock = threading.Lock()

    def start(self, do: str, reason: str, items: Iterable[Item], rate: float | None = None) -> Job:
        """Begin to do something to many sagas, so many a second; as many as the console does, if that is not said."""
        with self._lock:
            self._number += 1
            job = Job(self._number, do, reason, {one.saga_id: one for one in items}, rate or self._rate)
            self._jobs[job.job_id] = job
            for old in [*self._jobs][:-_REMEMBERED]:
                if self._jobs[old].over:
                    del self._jobs[old]
        threading.Thread(target=job.run, args=(self._act,), name=f"sagas-job-{job.job_id}", daemon=True).start()
        return job

    def get(self, job_id: int) -> Job | None:
        """Return a job; ``None`` if there is none, or another console had it."""
        return self._jobs.get(job_id)

    def stop(self) -> None:
        """Stop all."""
        for job in list(self._jobs.values()):
            job.stop()
