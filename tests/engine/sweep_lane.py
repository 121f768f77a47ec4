"""A sweep round over millions of objects, in virtual time: the real ``Sweeper``, on a bucket, sagas and a stored round
that are made up. Workers die. ``python -m tests.engine.sweep_lane N`` prints what became of a round over N objects."""

from __future__ import annotations

import json
import logging
import resource
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sagas import OrphanSweep, Saga, step
from sagas.authoring.definition.definition import definition_of
from sagas.core.states import SagaStatus
from sagas.engine.clock import SystemClock
from sagas.engine.sweep.sweep import Sweeper, SweepRequest
from sagas.engine.sweep.sweep_pages import SweepServices
from sagas.store.index.summaries import SagaSummaries, SagaSummary
from sagas.store.journal.entries import Entry
from sagas.store.journal.journal import Journal
from sagas.store.schedule.sweep_rounds import Round, SweepRounds

PAGE = 1_000
LIST = 0.15
"""Seconds to list a page."""
READ = 0.2
"""Seconds to read the sagas of a page."""
RESULTS = 0.4
"""Seconds to read what they have stored, two entries each."""
DELETE = 0.3
WRITE = 0.01
MESSAGE = 0.2
"""Seconds until a message that was sent is received."""
VISIT = 880.0
"""Seconds for which a worker sweeps."""
REDELIVERY = 300.0
"""Seconds until the message of a dead worker is delivered again."""
ORPHANS = 4
"""One of this many objects is an orphan."""
OLD = datetime(2020, 1, 1, tzinfo=UTC)


class Zip(Saga[None], name="zip", orphans=OrphanSweep("BUCKET", "zips/", timedelta(hours=48))):
    """Leaves files behind."""

    @step
    def upload(self) -> str:
        return "file"


class Died(BaseException):
    """The worker died."""


class VirtualClock(SystemClock):
    def __init__(self) -> None:
        self.time = 1_900_000_000.0
        self._owners = 0

    def now(self) -> float:
        return self.time

    def new_owner(self) -> str:
        self._owners += 1
        return str(self._owners)


class Bucket:
    """An S3 client. The object with the number n belongs to the saga whose id is n."""

    def __init__(self, clock: VirtualClock, size: int) -> None:
        self.clock = clock
        self.size = size
        self.deleted = 0

    def list_objects_v2(self, *, StartAfter: str = "", **_: Any) -> dict[str, Any]:
        self.clock.time += LIST
        first = number_of(StartAfter.split("/")[1]) + 1 if StartAfter else 0
        end = min(first + PAGE, self.size)
        contents = [
            {"Key": f"zips/{saga_of(number)}/file", "Size": 1, "ETag": "", "LastModified": OLD}
            for number in range(first, end)
        ]
        return {"Contents": contents, "IsTruncated": end < self.size}

    def delete_objects(self, *, Delete: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.clock.time += DELETE
        self.deleted += len(Delete["Objects"])
        return {}


class Summaries(SagaSummaries):
    """Most sagas are COMPLETED and name their object; the others were undone."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock

    def of(self, saga_ids: Iterable[str]) -> dict[str, SagaSummary]:
        self.clock.time += READ
        return {
            saga_id: SagaSummary("zip", SagaStatus.COMPLETED, attention=False, settled_at=1.0, results=(1, 2))
            if number_of(saga_id) % ORPHANS
            else SagaSummary("zip", SagaStatus.CANCELLED, attention=False)
            for saga_id in saga_ids
        }


class Results(Journal):
    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock

    def entries_of(self, places: Iterable[tuple[str, int]]) -> dict[str, dict[int, Entry]]:
        found = dict[str, dict[int, Entry]]()
        for saga_id, seq in places:
            self.clock.time += RESULTS / PAGE / 2
            entry = Entry(saga_id, seq, 0.0, "zip", "StepCompleted", "COMPLETED", 1, payload='{"key":"file"}')
            found.setdefault(saga_id, {})[seq] = entry
        return found

    def load(self, entry: Entry) -> Entry:
        return entry


class DeadlyRounds(SweepRounds):
    """One stored round. Some workers die before they write a page, and some afterwards."""

    def __init__(self, clock: VirtualClock, dies_every: int) -> None:
        self.clock = clock
        self.dies_every = dies_every
        self.stored = Round("zip")
        self.writes = 0

    def get(self, saga: str) -> Round:
        return self.stored

    def move(self, before: Round, after: Round) -> bool:
        self.clock.time += WRITE
        self.writes += 1
        dies = self.writes % self.dies_every == 0
        if dies and self.writes % 2:
            raise Died
        moved = self.stored.by == before.by
        if moved:
            self.stored = after
        if dies:
            raise Died
        return moved


class Outcome(NamedTuple):
    """What became of a round. ``acted``: objects that were deleted, those of pages that were swept again twice."""

    listed: int
    deleted: int
    acted: int
    messages: int
    deaths: int
    hours: float


def sweep(size: int, dies_every: int) -> Outcome:
    """Sweep so many objects, from the tick to the end of the round. One of ``dies_every`` writes, an odd number, is the
    last act of its worker. Of two such writes, one is made, and the other is not."""
    clock = VirtualClock()
    bucket = Bucket(clock, size)
    rounds = DeadlyRounds(clock, dies_every)
    services = SweepServices(
        Summaries(clock), Results(clock), bucket, clock, logging.getLogger("lane"), {"BUCKET": "zips"}
    )
    sent = list[tuple[str, int]]()
    ended = list[Round]()

    def send(saga: str, number: int) -> None:
        sent.append((saga, number))

    sweeper = Sweeper([definition_of(Zip)], rounds, services, send, ended.append)
    began = clock.time
    sweeper.run(SweepRequest(), clock.time + 60)
    messages = 0
    deaths = 0
    while sent:
        message = sent.pop()
        messages += 1
        clock.time += MESSAGE
        try:
            _, again = sweeper.work(*message, clock.time + VISIT)
        except Died:
            deaths += 1
            clock.time += REDELIVERY
            again = True
        if again:
            sent.append(message)
    (last,) = ended
    assert not last.under_way
    return Outcome(
        last.sums["listed"], last.sums["deleted"], bucket.deleted, messages, deaths, (clock.time - began) / 3600
    )


def saga_of(number: int) -> str:
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def number_of(saga_id: str) -> int:
    return int(saga_id.replace("-", ""), 16)


if __name__ == "__main__":
    outcome = sweep(int(sys.argv[1]), 401)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**outcome._asdict(), "megabytes": memory}))
