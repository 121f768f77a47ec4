"""What each trip of a saga takes, against the table in ``benchmarks/trips.py``."""

from __future__ import annotations

import importlib
import json
import re
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from benchmarks.ours.saga import Purchase
from benchmarks.recorder import Recorder, counts_of
from benchmarks.trips import API_SECONDS, STEP_SECONDS, TRIPS, Taken, life, named, usd_with_api
from benchmarks.units import KILOBYTE, item_size
from benchmarks.variants import ORDER, OURS, REFUSED
from sagas import Saga, step
from sagas.engine.engine import settings_from
from sagas.engine.registry import Registry
from sagas.handlers import api as api_handler
from sagas.handlers import now as now_handler
from tests.engine.metering import Meter, Wire, metered
from tests.engine.trip_sagas import Ten
from tests.engine.trips import DRIVERS, SLOT, WORKER
from tests.handlers.conftest import request
from tests.support.aws import LambdaContext
from tests.support.bench import Bench, Make
from tests.support.engine import Engine
from tests.support.sagas import FAIL, Fatal, Trip
from tests.unit.cli.conftest import Run, api, run
from tests.unit.client.stub import StubApi

__all__ = ["api", "run"]  # fixtures

pytestmark = pytest.mark.usefixtures("clean")
sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "_ext"))
costs: Any = importlib.import_module("costs")
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "limits.md").read_text()
GIGABYTE_STORED = 0.45
"""USD a month, 0.20 of it for backups."""
WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"})


def _since(meter: Meter, worker: bool) -> Taken:
    """What a meter has seen since it was asked last. A bench for the worker hides messages in Lambda's stead, too."""
    taken = Taken(
        meter.control_units,
        meter.entry_units,
        meter.join_units,
        meter.index_units,
        meter.read_units,
        meter.messages,
        max(meter.sizes, default=0),
        sum(size >= KILOBYTE for size in meter.sizes),
        named([name for name in meter.requests if not worker or name != "ChangeMessageVisibility"]),
    )
    meter.clear()
    return taken


@pytest.fixture
def made(bench: Make, deployed: Make) -> Callable[..., Bench]:
    """Make a bench for the worker, or for the step function, in which clients are made and the first type is known."""

    def make(*classes: type[Any], **environment: str) -> Bench:
        api_handler.reset()
        now_handler.reset()
        if environment == WORKER:
            b = bench(*classes)
            variables = b.stack.environment | environment
            registry, settings = Registry(b.stack.classes), settings_from(variables)
            b.engine = Engine(registry, settings, b.stack.routes, clock=b.clock)
            b.release()
            return b
        b = deployed(*classes, **environment)
        b.release()
        b.clock.time = (b.clock.time // SLOT + 1) * SLOT + 1.0  # which slot of due times it meets is not left to chance
        first = b.stack.steps()[0][0]
        b.start(first, {"few": {"legs": 1}, "travel": {"number": 0}, "purchase": ORDER}.get(first))
        b.run(rounds=1_000)
        return b

    return make


@pytest.mark.parametrize("name", TRIPS | DRIVERS)
def test_a_trip_takes_what_the_table_says(
    name: str, made: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, classes, environment = DRIVERS[name]
    b = made(*classes, **environment)
    meter, worker = metered(b, monkeypatch), environment == WORKER
    taken, counts = Taken(), False
    for _ in driver(b):
        seen = _since(meter, worker)
        taken, counts = taken + seen if counts else taken, not counts
    seen = _since(meter, worker)
    taken = taken + seen if counts else taken
    assert taken == TRIPS[name], taken


# What follows from the table.


@pytest.mark.parametrize(("steps", "name"), [(2, "two"), (3, "three"), (5, "five"), (10, "ten")])
def test_a_life_is_its_start_its_steps_and_its_last(steps: int, name: str) -> None:
    whole = TRIPS[f"a life of {name} steps"]
    assert replace(life(steps), largest=whole.largest) == whole


def test_twice_as_many_children_take_twice_as_much() -> None:
    eight, sixteen, more = (TRIPS[f"a parent of {count} children, and these"] for count in (8, 16, 24))
    sooner, later = sixteen.beyond(eight), more.beyond(sixteen)
    assert all(late <= 1.02 * early for late, early in zip(later, sooner, strict=True))


def test_what_a_saga_that_is_kept_costs(made: Callable[..., Bench]) -> None:
    """The page of costs says 1.87 USD a month and million, and the note of a service without retention about 2."""
    w = made(Purchase)
    saga_id = w.start("purchase", ORDER)
    w.run()
    saga = w.stack.control(saga_id)
    entries = w.stack.dynamodb.query(
        TableName=w.stack.audit_table,
        KeyConditionExpression="saga_id = :saga",
        ExpressionAttributeValues={":saga": {"S": saga_id}},
    )["Items"]
    assert len(entries) == 6
    indexes = [("saga_id", "name_shard", "created_at"), ("saga_id", "ended", "ended_at")]
    listed = [{name: saga[name] for name in keys} for keys in indexes]
    # DynamoDB adds 100 bytes to each item, and to each entry of an index.
    stored = sum(item_size(item) + 100 for item in (saga, *entries, *listed))
    dollars = stored * GIGABYTE_STORED / 1_000
    assert dollars == pytest.approx(1.87, abs=0.02)
    assert "a million sagas add 1.87 to every month's bill" in costs.page()


# The benchmark of ``benchmarks/``: its recorder, and the table.


@pytest.mark.parametrize(
    ("name", "order", "works"),
    [
        ("a life of five steps", ORDER, OURS.invocations),
        ("five steps, and the last one rejects: three steps are undone", REFUSED, OURS.undoing),
    ],
)
def test_the_recorder_of_the_benchmark_counts_the_same(
    name: str, order: dict[str, Any], works: int, made: Callable[..., Bench]
) -> None:
    w = made(Purchase)
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
    counts, taken = counts_of(requests, delivered), TRIPS[name]
    assert (counts.write_units, counts.read_units) == (taken.writes, taken.reads)
    assert counts.messages == taken.messages == counts.invocations == works
    assert counts.usd == taken.usd_with_functions(works)


# What requests say.


def test_no_request_asks_for_more_than_it_needs(deployed: Make, wire: Wire) -> None:
    """No table is scanned, and nobody is told what nobody reads."""
    w = deployed(Trip)
    saga_id = w.start("trip")
    w.run()
    w.show(saga_id)
    w.engine.reader.list(["trip"], None, 10, None)
    w.engine.reader.attention(None, 10, None)
    assert WRITES & set(wire.names())
    assert "Scan" not in wire.names()
    assert not any("ReturnConsumedCapacity" in parameters for _, parameters in wire.requests)


def test_one_line_of_sagas_attention_is_read_from_the_index_and_the_overview(
    deployed: Make, wire: Wire, api: StubApi, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = deployed(Fatal)
    FAIL["second"] = RuntimeError()
    saga_id = w.start("fatal")
    w.run()
    table = w.stack.sagas_table
    item = w.stack.dynamodb.get_item(TableName=table, Key={"saga_id": {"S": saga_id}})["Item"]
    item = {name: item[name] for name in ("saga_id", "incident_shard", "incident")}  # nothing else is read
    others = [item | {"saga_id": {"S": f"{saga_id[:-3]}{number:03}"}} for number in range(100, 840)]
    for first in range(0, len(others), 20):
        puts = [{"PutRequest": {"Item": each}} for each in others[first : first + 20]]
        w.stack.dynamodb.batch_write_item(RequestItems={table: puts})
    shards = w.engine.reader.listing.shards.number()

    def served() -> tuple[int, Any, dict[str, str]]:
        url = urlsplit(api.asked[-1].path.removeprefix("/v1"))
        answer = api_handler.handler(request("GET", url.path, **dict(parse_qsl(url.query))), LambdaContext())
        return answer["statusCode"], json.loads(answer["body"]), {}

    monkeypatch.setattr(api, "next", served)
    w.engine.overview.run()
    run("attention")  # over how many shards they are spread is read once
    wire.requests.clear()
    head, line, *_ = run("attention").stdout.splitlines()
    assert head.split()[:4] == ["type", "step", "error", "sagas"]
    assert line.split()[:4] == ["fatal", "second", "RuntimeError", "741"]
    assert len(api.asked) == 4  # each run asks for the incidents, and for the overview
    # All are in one shard. Its first keys are read, the sagas like them are counted, then come the last key and what
    # follows.
    *listed, overview = [(name, asked.get("IndexName")) for name, asked in wire.requests]
    assert listed == [("Query", "incidents")] * (shards + 3)
    assert overview == ("GetItem", None)


def test_which_types_are_paused_is_read_once_in_five_seconds_at_half_the_price(deployed: Make, wire: Wire) -> None:
    w = deployed(Trip)
    w.start("trip")
    read = len(wire.of_pauses)
    for name in ("book", "pay"):  # one function's environment here
        w.invoke("trip", name)
    assert len(wire.of_pauses) - read == 1
    w.clock.advance(6)
    w.invoke("trip", "tell")
    assert len(wire.of_pauses) - read == 2
    assert [asked["ConsistentRead"] for asked in wire.of_pauses] == [False] * len(wire.of_pauses)


def test_a_step_reads_just_what_it_names_where_messages_bring_nothing(deployed: Make, wire: Wire) -> None:
    w = deployed(Trip, SAGAS_CARRY_INPUTS="0")
    saga_id = w.start("trip")
    for name, seq in (("book", 1), ("pay", 2)):
        wire.requests.clear()
        w.invoke("trip", name)
        [asked] = [parameters["RequestItems"] for name, parameters in wire.requests if name == "BatchGetItem"]
        key = {"saga_id": {"S": saga_id}, "seq": {"N": str(seq)}}
        assert asked == {w.stack.audit_table: {"Keys": [key], "ConsistentRead": True}}


def test_a_step_claims_journals_and_commits_on_conditions(deployed: Make, wire: Wire) -> None:
    w = deployed(Trip)
    w.start("trip")
    wire.requests.clear()
    w.invoke("trip", "book")
    writes = [parameters for name, parameters in wire.requests if name in WRITES]
    tables = [w.stack.sagas_table, w.stack.audit_table, w.stack.sagas_table]
    assert [parameters["TableName"] for parameters in writes] == tables
    assert all("ConditionExpression" in parameters for parameters in writes)


def test_the_index_is_written_at_start_and_end_only(deployed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    w = deployed(Ten)
    w.release()
    seen = metered(w, monkeypatch)
    saga_id = w.start("ten")
    w.run()
    assert len(seen.dues) == 2
    assert seen.dues[-1] == ""
    assert item_size(w.stack.control(saga_id)) == seen.sizes[-1]


# What many steps cost, on docs/reference/limits.md.


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "units", "size"), [(5, 1.4, 624), (50, 3.1, 2829), (200, 9.7, 10270)])
def test_a_write_of_a_long_saga_costs_more(
    deployed: Make, monkeypatch: pytest.MonkeyPatch, steps: int, units: float, size: int
) -> None:
    """The control item has 50 bytes per step, so the writes of a saga grow with the square of its steps."""

    def work(self: object) -> int:
        return 7

    members: dict[str, Any] = {f"work{number:03d}": step(work) for number in range(steps)}
    members["__module__"] = __name__
    many = types.new_class("Many", (Saga[int],), {"name": "many"}, lambda body: body.update(members))
    monkeypatch.setitem(globals(), "Many", many)
    w = deployed(many, SAGAS_CHAIN="*")
    w.release()
    saga_id = w.start("many", 1)
    seen = metered(w, monkeypatch)
    w.invoke("many", "work000", remaining=800.0)
    assert w.status(saga_id) == "COMPLETED"
    assert (round(seen.control_units / steps, 1), max(seen.sizes)) == (units, size)


# What a load needs, on docs/reference/limits.md.


def test_what_a_load_needs() -> None:
    each = {
        "writes per second, table `sagas` with indexes": life(5).control + life(5).indexes,
        "writes per second, table `audit`": life(5).entries,
        "Lambda, executions at a time": 5 * STEP_SECONDS + API_SECONDS,
        "executions at a time for one queue": STEP_SECONDS,
        "API calls per second": 1,
        "USD per day": usd_with_api(5) / 1e6 * 86_400,
    }
    for what, one in each.items():
        for load, said in zip((10, 1_000, 100_000), _row(what), strict=True):
            assert said == pytest.approx(load * one, rel=0.02, abs=0.5), f"{what} at {load} per second"


def _row(what: str) -> list[float]:
    """The numbers that the cells of a row of the page begin with."""
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {what}")]
    cells = [cell.strip() for cell in row.split("|")[2:-1]]
    return [_number(cell) for cell in cells]


def _number(cell: str) -> float:
    found = re.match(r"([0-9.,]+)( million)?", cell)
    assert found is not None, cell
    return float(found[1].replace(",", "").rstrip(".")) * (1e6 if found[2] else 1)
