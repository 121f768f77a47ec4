"""What is done to many sagas: each is a call of its own, and audited as such."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sagas.client.pacing import new_job, note_of, paced
from sagas.errors import Ambiguous, SagaError, Unavailable

_REMEMBERED = 50
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Item:
    """One saga of a job."""

    name: str
    saga_id: str


@dataclass(slots=True)
class Job:
    """Something done to many sagas.

    Args:
        job_id: its number within the console.
        do: what is done.
        note: why; kept in the audit trail of each.
        items: to what.
        rate: how many a second at most.
        name: in the notes that its sagas keep, where another console's job has another.
    """

    job_id: int
    do: str
    note: str
    items: tuple[Item, ...]
    rate: float
    outcomes: dict[Item, tuple[str, str]] = field(default_factory=dict[Item, tuple[str, str]])
    name: str = field(default_factory=new_job)
    stopped: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, outcome: str) -> int:
        """Return for how many it was ``done``, ``refused``, ``failed`` or ``unknown``."""
        return sum(one == outcome for one, _ in self._so_far().values())

    def _so_far(self) -> dict[Item, tuple[str, str]]:
        """The outcomes as they are now: further ones come while they are looked at."""
        with self._lock:
            return self.outcomes.copy()

    @property
    def left(self) -> tuple[Item, ...]:
        """What was not tried."""
        return tuple(item for item in self.items if item not in self.outcomes)

    @property
    def failed(self) -> tuple[Item, ...]:
        """What may be tried again."""
        return tuple(item for item, (outcome, _) in self._so_far().items() if outcome in ("failed", "unknown"))

    @property
    def told(self) -> list[tuple[Item, tuple[str, str]]]:
        """What became of the sagas, those first for which it was not done; as many as a page has room for."""
        settled = sorted(self._so_far().items(), key=lambda one: one[1][0] == "done")
        return settled[:_SHOWN]

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

    def run(self, act: Callable[[str, Item, str], None]) -> None:
        """Do it to all, in order."""
        note = note_of(self.name, self.note)

        def call(item: Item) -> tuple[Item, str, str]:
            try:
                act(self.do, item, note)
            except Ambiguous as error:
                return item, "unknown", f"{error}; it may have happened: look"
            except Unavailable as error:
                return item, "failed", str(error)
            except SagaError as error:
                return item, "refused", str(error)
            except Exception as error:  # noqa: BLE001 - the job goes on, and tells
                return item, "unknown", f"{type(error).__name__}: {error}; it may have happened: look"
            return item, "done", ""

        def settle(settled: tuple[Item, str, str]) -> bool:
            item, outcome, why = settled
            with self._lock:
                self.outcomes[item] = outcome, why
            return outcome in ("failed", "unknown")

        def stopped() -> str:
            return "you stopped it" if self._stop.is_set() else ""

        self.stopped = paced(self.items, call, settle, rate=self.rate, sleep=self._stop.wait, stopped=stopped)
        self._over.set()


class Jobs:
    """The jobs of a console. They end with it.

    Args:
        act: does one thing to one saga, with a note.
        rate: how many a second at most.
    """

    def __init__(self, act: Callable[[str, Item, str], None], rate: float = 5.0) -> None:
        self._act = act
        self._rate = rate
        self._jobs: dict[int, Job] = {}
        self._number = 0
        self._lock = threading.Lock()

    def start(self, do: str, note: str, items: Iterable[Item], rate: float | None = None) -> Job:
        """Begin to do something to many sagas, so many a second; as many as the console does, if that is not said."""
        with self._lock:
            self._number += 1
            job = Job(self._number, do, note, tuple(dict.fromkeys(items)), rate or self._rate)
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
