"""How fast a round goes with more workers: in virtual time, on a listing that is made up, with the real rounds."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from sagas.core.states import SagaStatus
from sagas.engine.clock import SystemClock, uuid7
from sagas.engine.composition.core import settings_from
from sagas.engine.sweep.orphans import SweepReport
from sagas.engine.sweep.sweep_pages import SweepServices
from sagas.engine.sweep.sweep_rounds import EndedRound, PartName, RoundSweep
from sagas.store.index.summaries import SagaSummaries, SagaSummary
from sagas.store.journal.entries import Entry
from sagas.store.journal.journal import Journal
from sagas.store.schedule.sweep_rounds import SweepRounds
from tests.engine.sweeping import BUCKET, DAY, SweepDesk

PAGE = 20
"""Objects in a page here. Each stands for fifty: what a page takes is that of a thousand objects."""
STANDS_FOR = 1_000 // PAGE
LIST, PROBE, READ, DELETE, WRITE = 0.15, 0.03, 0.2, 0.3, 0.01
"""Seconds: to list a thousand objects, to list one, to ask about a thousand sagas, to delete some, to write a part."""
RESULTS = 0.4
"""Seconds to read what a thousand sagas have stored, two entries each."""
MESSAGE = 0.2
"""Seconds until a message that was sent is received."""
VISIT = 60.0
OLD = datetime(2020, 1, 1, tzinfo=UTC)


class Turns:
    """Virtual time of several threads: whoever is behind all others goes on."""

    def __init__(self, workers: int) -> None:
        self.times = dict.fromkeys(range(workers), 0.0)
        self._changed = threading.Condition()
        self._own = threading.local()

    def enter(self, worker: int) -> None:
        self._own.worker = worker
        self.take(0.0)

    def now(self) -> float:
        return self.times[self._own.worker]

    def take(self, seconds: float) -> None:
        worker = self._own.worker
        with self._changed:
            self.times[worker] += seconds
            self._changed.notify_all()
            self._changed.wait_for(lambda: worker == min(self.times, key=lambda one: (self.times[one], one)), 30)

    def leave(self) -> None:
        with self._changed:
            del self.times[self._own.worker]
            self._changed.notify_all()


class WorkerClock(SystemClock):
    def __init__(self, turns: Turns, start: float) -> None:
        self._turns = turns
        self._start = start

    def now(self) -> float:
        return self._start + self._turns.now()

    def sleep(self, seconds: float) -> None:
        self._turns.take(seconds)


@dataclass
class MadeUp:
    """S3."""

    turns: Turns
    keys: list[str]
    deleted: set[str] = field(default_factory=set[str])

    def list_objects_v2(self, *, StartAfter: str = "", MaxKeys: int, **_: Any) -> dict[str, Any]:
        self.turns.take(PROBE if MaxKeys == 1 else LIST)
        first = bisect_right(self.keys, StartAfter)
        found = self.keys[first : first + MaxKeys]
        contents = [{"Key": key, "Size": 1, "ETag": "", "LastModified": OLD} for key in found]
        return {"Contents": contents, "IsTruncated": first + MaxKeys < len(self.keys)}

    def delete_objects(self, *, Delete: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.turns.take(DELETE)
        keys = {one["Key"] for one in Delete["Objects"]}
        assert not keys & self.deleted, "none is dealt with twice"
        self.deleted |= keys
        return {}


@dataclass
class MadeUpSummaries(SagaSummaries):
    """Sagas of which nine of ten are COMPLETED and name their object; the others were undone."""

    turns: Turns

    def of(self, saga_ids: Iterable[str]) -> dict[str, SagaSummary]:
        self.turns.take(READ)
        return {
            saga_id: SagaSummary("zip", SagaStatus.COMPLETED, attention=False, settled_at=1.0, results=(1, 2))
            if int(saga_id[-2:], 16) % 10
            else SagaSummary("zip", SagaStatus.CANCELLED, attention=False)
            for saga_id in saga_ids
        }


@dataclass
class MadeUpJournal(Journal):
    """Their results."""

    turns: Turns

    def entries_of(self, places: Iterable[tuple[str, int]]) -> dict[str, dict[int, Entry]]:
        self.turns.take(RESULTS)
        found: dict[str, dict[int, Entry]] = {}
        for saga_id, seq in places:
            entry = Entry(saga_id, seq, 0.0, "zip", "StepCompleted", "COMPLETED", 1, payload='{"key":"file"}')
            found.setdefault(saga_id, {})[seq] = entry
        return found

    def load(self, entry: Entry) -> Entry:
        return entry


class TimedRounds(SweepRounds):
    """The real ones, which take their time."""

    turns: Turns

    def advance(self, part: Any) -> bool:
        self.turns.take(WRITE)
        return super().advance(part)


def sweep_with(d: SweepDesk, workers: int, keys: list[str], start: float) -> EndedRound:
    """Sweep these with so many workers at a time; return what became of the round."""
    turns = Turns(workers)
    world, queue, ended = MadeUp(turns, keys), deque[tuple[float, PartName]](), list[EndedRound]()
    rounds = TimedRounds(d.engine.tables, settings_from(d.bench.stack.environment))
    rounds.turns = turns
    clock, logger = WorkerClock(turns, start), d.engine.services.logger
    sagas = MadeUpSummaries(turns), MadeUpJournal(turns)
    services = SweepServices(*sagas, world, clock, logger, {"ZIPS_BUCKET": BUCKET})
    definition, policy = d.sweeper.declared("zip")

    def send(part: PartName) -> None:
        queue.append((turns.now() + MESSAGE, part))

    sweep = RoundSweep(services, rounds, definition, policy, send, ended.append)

    def run(worker: int) -> None:
        turns.enter(worker)
        if worker == 0:
            sweep.tick(services.clock.now(), SweepReport("zip", "zips/"))
        while not ended:
            now = turns.now()
            if not queue or queue[0][0] > now:
                turns.take(0.5)
                continue
            _, part = queue.popleft()
            until = services.clock.now() + VISIT
            if sweep.work(part, until, until, SweepReport("zip", "zips/")):
                send(part)
        turns.leave()

    threads = [threading.Thread(target=run, args=(worker,), daemon=True) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    (told,) = ended
    assert told.counts["deleted"] == len(world.deleted)
    return told


def test_parts_are_swept_at_the_same_time(desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.store.journal.objects.PAGE", PAGE)
    keys = sorted(f"zips/{uuid7(1_600_000_000 + n * 60, n.to_bytes(10, 'big'))}/file" for n in range(240 * PAGE))
    d, rates = desk(), dict[int, float]()
    for workers, some in ((1, keys[: 40 * PAGE]), (8, keys)):
        told = sweep_with(d, workers, some, 1_795_000_000.0 + workers * DAY)
        assert told.counts["listed"] == told.counts["kept"] + told.counts["deleted"] == len(some)
        rates[workers] = len(some) * STANDS_FOR / told.seconds
    print(rates)
    assert rates[8] > 4 * rates[1]
    assert 10_000_000 / rates[8] < 3_600
