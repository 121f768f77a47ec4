"""Peak memory of a sweep over 200,000 objects, and how many requests it takes.

Run it: ``python benchmarks/sweep_memory.py [--objects 200000]``. It prints a line for a tenth of the objects and one
for all of them, and fails if the second takes noticeably more memory: a sweep holds one page, however long the prefix
is. S3 is replaced by one that makes its listing up, and the control table by one that knows every saga from its id, so
that the figures are the sweep's own. Every object belongs to another saga, and a third of them are orphans.
"""

from __future__ import annotations

import argparse
import logging
import resource
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from sagas import Context, OrphanSweep, Saga, step
from sagas.authoring.definition.definition import definition_of
from sagas.core.states import SagaStatus
from sagas.engine.clock import SystemClock
from sagas.engine.sweep.orphans import SweepReport
from sagas.engine.sweep.sweep import Sweeper, SweepRequest
from sagas.engine.sweep.sweep_pages import SweepServices
from sagas.store.index.summaries import SagaSummaries, SagaSummary
from sagas.store.journal.entries import Entry
from sagas.store.journal.journal import Journal

MIB = 2**20
LIMIT = 2 * MIB
"""How much more the whole may take than a tenth of it."""
_PREFIX = "swept/"
_PAGE = 1_000
_BATCH = 100
_PAYLOADS = {1: '{"item":"x"}', 2: '{"key":"archive.zip"}'}
_OLD = datetime(2020, 1, 1, tzinfo=UTC)


class Swept(Saga[str], name="swept", orphans=OrphanSweep("BUCKET", _PREFIX)):
    """A saga with objects."""

    @step
    def store(self, ctx: Context) -> None: ...


def _key(number: int) -> str:
    return f"{_PREFIX}{number:08x}-0000-7000-8000-000000000000/archive.zip"


class GeneratedS3:
    """The part of an S3 client that a sweep uses. Its objects are numbered."""

    def __init__(self, objects: int) -> None:
        self.requests: Counter[str] = Counter()
        self._objects = objects

    def list_objects_v2(self, *, StartAfter: str = "", **_: Any) -> dict[str, Any]:  # noqa: N803 - boto3's names
        """Make up the page after a key."""
        self.requests["ListObjectsV2"] += 1
        first = int(StartAfter.removeprefix(_PREFIX)[:8], 16) + 1 if StartAfter else 0
        last = min(first + _PAGE, self._objects)
        found = [
            {"Key": _key(number), "Size": 1, "ETag": f'"{number:032x}"', "LastModified": _OLD}
            for number in range(first, last)
        ]
        return {"Contents": found, "IsTruncated": last < self._objects}

    def delete_objects(self, **_: Any) -> dict[str, Any]:
        """Forget it."""
        self.requests["DeleteObjects"] += 1
        return {}


class GeneratedSummaries(SagaSummaries):
    """Every third saga was undone."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    def of(self, saga_ids: Iterable[str]) -> dict[str, SagaSummary]:
        """Tell, a hundred at a time."""
        asked = list(saga_ids)
        self.requests["BatchGetItem"] += -(-len(asked) // _BATCH)
        return {saga_id: SagaSummary("swept", _status(saga_id), False, 1.0, tuple(_PAYLOADS)) for saga_id in asked}


class GeneratedEntries(Journal):
    """Every saga has a request and a result, which names its archive."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    def entries_of(self, places: Iterable[tuple[str, int]]) -> dict[str, dict[int, Entry]]:
        """Make them up, a hundred at a time."""
        self.requests["BatchGetItem"] += 1
        found: dict[str, dict[int, Entry]] = {}
        for saga_id, seq in places:
            entry = Entry(saga_id, seq, 0.0, "swept", "StepCompleted", "COMPLETED", 1, payload=_PAYLOADS[seq])
            found.setdefault(saga_id, {})[seq] = entry
        return found

    def load(self, entry: Entry) -> Entry:
        """It is whole."""
        return entry


def _status(saga_id: str) -> SagaStatus:
    return SagaStatus.COMPLETED if int(saga_id[:8], 16) % 3 else SagaStatus.COMPENSATED


def sweep(objects: int) -> tuple[SweepReport, Counter[str]]:
    """Sweep so many objects; return the report and the requests by kind."""
    s3, summaries, entries, clock = GeneratedS3(objects), GeneratedSummaries(), GeneratedEntries(), SystemClock()
    services = SweepServices(summaries, entries, s3, clock, logging.getLogger("sweep"), {"BUCKET": "bucket"})
    rounds: Any = None  # a sweep by hand has none
    (report,) = Sweeper([definition_of(Swept)], rounds, services).run(SweepRequest(now=True), clock.now() + 3600)
    return report, s3.requests + summaries.requests + entries.requests


def measure(objects: int) -> int:
    """Sweep so many objects, print what it took, and return the peak of Python's own memory in bytes."""
    tracemalloc.start()
    started = time.perf_counter()
    report, requests = sweep(objects)
    seconds, peak = time.perf_counter() - started, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.finished
    assert report.listed == objects
    print(
        f"{report.listed} objects, {report.deleted} deleted, {seconds:.1f} s (traced), peak {peak / MIB:.2f} MiB, "
        f"process peak {peak_rss() / MIB:.0f} MiB, {requests.total() / objects * 1000:.2f} requests per 1,000: "
        f"{dict(requests)}"
    )
    return peak


def peak_rss() -> int:
    """The most memory this process has held at any time, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--objects", type=int, default=200_000)
    objects = arguments.parse_args().objects
    sweep(_PAGE)  # what is loaded on first use is no part of it
    few, many = measure(objects // 10), measure(objects)
    if many > few + LIMIT:
        raise SystemExit("memory grows with the number of objects")


if __name__ == "__main__":
    main()
