"""What docs/operations/deploying.md says of costs and loads, against what is counted when sagas run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import prices
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from tests.engine.metering import metered
from tests.support.bench import Bench, deploy_functions
from tests.support.sagas import Order

PAGE = (Path(__file__).parents[2] / "docs" / "operations" / "deploying.md").read_text()

GIGABYTES, STEP_SECONDS, API_GIGABYTES, API_SECONDS = 0.25, 0.05, 0.5, 0.1
DAY = 86_400


class Three(Saga[Order], name="three"):
    """Each step takes what the one before returned."""

    @step
    def a(self, request: Order) -> str:
        return request.item

    @step
    def b(self, a: str) -> str:
        return a

    @step
    def c(self, b: str) -> str:
        return b


class Five(Three, name="five"):
    @step
    def d(self, c: str) -> str:
        return c

    @step
    def e(self, d: str) -> str:
        return d


class Ten(Five, name="ten"):
    @step
    def f(self, e: str) -> str:
        return e

    @step
    def g(self, f: str) -> str:
        return f

    @step
    def h(self, g: str) -> str:
        return g

    @step
    def i(self, h: str) -> str:
        return h

    @step
    def j(self, i: str) -> str:
        return i


@dataclass(frozen=True)
class Counted:
    """What one saga took."""

    steps: int
    control_writes: int
    entry_writes: int
    index_writes: int
    reads: int
    messages: int

    @property
    def usd(self) -> float:
        """A million of them: a message is sent, received and deleted."""
        writes = self.control_writes + self.entry_writes + self.index_writes
        invocations = (self.steps + 1) * prices.INVOCATION
        gigabyte_seconds = self.steps * STEP_SECONDS * GIGABYTES + API_SECONDS * API_GIGABYTES
        lasting = gigabyte_seconds * prices.GIGABYTE_SECOND_ARM
        stored = writes * prices.WRITE_UNIT + self.reads * prices.READ_UNIT
        return prices.REST_CALL + stored + 3 * self.messages * prices.SQS_REQUEST + invocations + lasting


@pytest.fixture
def count(deployed: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Any]], Counted]:
    """Run a saga to its end and count. The clock stands still, which leaves no bucket of due times to chance."""

    def run(saga_class: type[Any]) -> Counted:
        w = deployed(saga_class)
        name = saga_class.__name__.lower()
        w.start(name, {"item": "warm-up"})
        w.run()
        meter = metered(w, monkeypatch)
        saga_id = w.start(name, {"item": "x"})
        w.run()
        counted = replace(meter)
        assert w.show(saga_id)["status"] == "COMPLETED"
        steps = len(w.show(saga_id)["steps"])
        written = (counted.control_units, counted.entry_units, counted.index_units)
        return Counted(steps, *written, counted.read_units, counted.messages)

    return run


@pytest.mark.parametrize(("saga_class", "word"), [(Three, "three steps"), (Five, "five"), (Ten, "ten")])
def test_what_a_million_sagas_cost(count: Callable[[type[Any]], Counted], saga_class: type[Any], word: str) -> None:
    counted = count(saga_class)
    (said,) = re.findall(rf"([0-9.]+) for {word}[,.\n]", PAGE)
    assert round(counted.usd, 1) == float(said)
    fixed, each = re.findall(r"\*\*([0-9.]+) \+ ([0-9.]+) \*s\*\*\*", PAGE)[0]
    assert counted.usd == pytest.approx(float(fixed) + float(each) * counted.steps, abs=0.05)


def test_what_a_retention_takes(deployed: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    """The writes of a saga that is purged, against those of one that is kept."""

    def writes(w: Bench, purged: int) -> int:
        meter = metered(w, monkeypatch)
        w.start("three", {"item": "x"})
        for name in ("a", "b", "c"):
            w.invoke("three", name)
        w.clock.advance(3600)
        assert len(w.engine.purger.run(60.0).purged) == purged
        return meter.units + meter.index_units

    first = deployed(Three)
    kept = writes(first, 0)
    (said,) = re.findall(r"\*\*(\d+) writes\*\* for three steps", PAGE)
    assert writes(deploy_functions(monkeypatch, first.stack, Bench, SAGAS_RETENTION="3600"), 1) - kept == int(said)


def test_what_a_load_needs(count: Callable[[type[Any]], Counted]) -> None:
    counted = count(Five)
    each = {
        "writes a second, table `sagas` with indexes": counted.control_writes + counted.index_writes,
        "writes a second, table `audit`": counted.entry_writes,
        "Lambda, executions at a time": counted.steps * STEP_SECONDS + API_SECONDS,
        "executions at a time for one queue": STEP_SECONDS,
        "API calls a second": 1,
        "cost of it, a day": counted.usd / 1e6 * DAY,
    }
    for what, one in each.items():
        for load, said in zip((10, 1_000, 100_000), _row(what), strict=True):
            assert said == pytest.approx(load * one, rel=0.02, abs=0.5), f"{what} at {load} a second"


def _row(what: str) -> list[float]:
    """The numbers that the cells of a row of the page begin with."""
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {what}")]
    cells = [cell.strip() for cell in row.split("|")[2:-1]]
    return [_number(cell) for cell in cells]


def _number(cell: str) -> float:
    found = re.match(r"([0-9.,]+)( million)?", cell)
    assert found is not None, cell
    return float(found[1].replace(",", "").rstrip(".")) * (1e6 if found[2] else 1)
