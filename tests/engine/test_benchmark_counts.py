"""What the benchmark's dollars are computed from, against what is metered when the same saga runs here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from benchmarks.ours.saga import Purchase
from benchmarks.prices import Counts
from benchmarks.recorder import Recorder, counts_of
from benchmarks.variants import ORDER, OURS, REFUSED
from tests.engine.metering import Meter, metered
from tests.support.bench import Bench


@dataclass(frozen=True)
class Run:
    """What a saga took, by the benchmark's recorder, and another of the same request, by the tests' own meter."""

    counts: Counts
    meter: Meter


@pytest.fixture
def run(deployed: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], Run]:
    """Run a saga twice. Neither looks while the other does: both ask DynamoDB what is in its tables."""

    def running(order: dict[str, Any]) -> Run:
        w = deployed(Purchase)
        w.start("purchase", ORDER)
        w.run()
        recorder, delivered = Recorder(), 0
        recorder.install()
        try:
            w.start("purchase", order)
            while handed := sum(w.invoke(saga, step) for saga, step in w.stack.steps()):
                delivered += handed
        finally:
            recorder.remove()
        # What plays Lambda's part is not the functions' own.
        requests = [one for one in recorder.taken() if one.operation not in ("ReceiveMessage", "DeleteMessage")]
        meter = metered(w, monkeypatch)
        w.start("purchase", order)
        w.run()
        return Run(counts_of(requests, delivered), meter)

    return running


@pytest.mark.parametrize(("order", "works"), [(ORDER, OURS.invocations), (REFUSED, OURS.undoing)])
def test_the_recorder_counts_what_is_metered(
    run: Callable[[dict[str, Any]], Run], order: dict[str, Any], works: int
) -> None:
    seen = run(order)
    assert seen.counts.write_units == seen.meter.units + seen.meter.index_units
    assert seen.counts.read_units == seen.meter.read_units
    assert seen.counts.messages == seen.meter.messages == seen.counts.invocations == works


# 0.63 of it tell how a saga ended, by an index: those of a rare status are found without going over all.
@pytest.mark.parametrize(("order", "usd"), [(ORDER, 21.90), (REFUSED, 33.91)])
def test_a_million_sagas_cost_no_more_than_they_did(
    run: Callable[[dict[str, Any]], Run], order: dict[str, Any], usd: float
) -> None:
    assert round(run(order).counts.usd, 2) <= usd
