"""What a saga costs: the requests, the write units and the size of its control item, counted at the clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.units import KILOBYTE, item_size
from sagas.authoring.context import Context
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.handlers import api as api_handler
from sagas.handlers import step as step_handler
from tests.engine.metering import Meter, Wire, metered
from tests.handlers.conftest import Answer, request
from tests.support.aws import LambdaContext
from tests.support.bench import Bench
from tests.support.sagas import Order, Trip

pytestmark = pytest.mark.usefixtures("clean")
Make = Callable[..., Bench]
_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"})


def _large(letter: str) -> str:
    return letter * 50_000


class TenSteps(Saga[Order], name="create-report"):
    """Ten steps, each taking what the one before returned: 50 KB."""

    @step
    def check_sources(self, request: Order) -> str:
        return _large("a")

    @step
    def fetch_sources(self, check_sources: str) -> str:
        return _next("a", check_sources)

    @step
    def reserve_space(self, fetch_sources: str) -> str:
        return _next("b", fetch_sources)

    @step
    def render_tables(self, reserve_space: str) -> str:
        return _next("c", reserve_space)

    @step
    def render_charts(self, render_tables: str) -> str:
        return _next("d", render_tables)

    @step
    def assemble_parts(self, render_charts: str) -> str:
        return _next("e", render_charts)

    @step
    def sign_document(self, assemble_parts: str) -> str:
        return _next("f", assemble_parts)

    @step
    def store_document(self, sign_document: str) -> str:
        return _next("g", sign_document)

    @step
    def charge_account(self, store_document: str, check_sources: str) -> str:
        assert check_sources == _large("a")
        return _next("h", store_document)

    @step
    def send_mail(self, charge_account: str, ctx: Context) -> None:
        assert charge_account == _large("i")


def _next(letter: str, came: str) -> str:
    assert came == _large(letter)
    return _large(chr(ord(letter) + 1))


def _handle(w: Bench, wire: Wire, name: str, step_name: str) -> list[tuple[str, dict[str, Any]]]:
    """Deliver one message; return the requests of the handler alone."""
    records = w.stack.receive(name, step_name)
    assert len(records) == 1
    wire.requests.clear()
    answer = step_handler.handler({"Records": records}, LambdaContext())
    requests = list(wire.requests)
    assert answer == {"batchItemFailures": []}
    w.stack.settle(name, step_name, records, answer)
    return requests


# Requests.


def test_a_start_is_two_writes_and_one_message(deployed: Make, wire: Wire) -> None:
    w = deployed(Trip)
    w.start("trip", {"item": "warm-up"})
    wire.requests.clear()
    w.start("trip", {"item": "train"})
    assert wire.names() == ["PutItem", "PutItem", "SendMessage"]


def test_no_request_asks_dynamodb_for_what_nobody_reads(deployed: Make, wire: Wire) -> None:
    w = deployed(Trip)
    w.start("trip", {"item": "train"})
    w.run()
    assert _WRITES & set(wire.names())
    assert not any("ReturnConsumedCapacity" in parameters for _, parameters in wire.requests)


@pytest.fixture
def post() -> Iterator[Callable[[dict[str, Any], str], Answer]]:
    """Start a trip by the API, with a body and an idempotency key."""

    def call(body: dict[str, Any], key: str) -> Answer:
        event = request("POST", "/sagas/trip", body, key=key)
        return Answer(api_handler.handler(event, LambdaContext()))

    api_handler.reset()
    yield call
    api_handler.reset()


def test_a_start_by_the_api_is_answered_from_what_it_wrote(
    deployed: Make, wire: Wire, post: Callable[[dict[str, Any], str], Answer]
) -> None:
    w = deployed(Trip)
    post({"item": "warm-up"}, "first")
    wire.requests.clear()
    answer = post({"item": "x" * 20_000}, "second")
    assert wire.names() == ["PutObject", "PutItem", "PutItem", "SendMessage"]
    assert (answer.status, answer.body["status"]) == (202, "PENDING")
    wire.requests.clear()
    answer = post({"item": "train"}, "third")
    assert wire.names() == ["PutItem", "PutItem", "SendMessage"]
    saga_id = answer.body["saga_id"]
    assert answer.body | {"links": {}} == w.show(saga_id) | {"links": {}}


def test_a_start_that_is_repeated_shows_the_saga_as_it_is_now(
    deployed: Make, wire: Wire, post: Callable[[dict[str, Any], str], Answer]
) -> None:
    w = deployed(Trip)
    first = post({"item": "train"}, "key")
    w.run()
    wire.requests.clear()
    again = post({"item": "train"}, "key")
    assert (again.status, again.body["saga_id"]) == (200, first.body["saga_id"])
    assert again.body["status"] == "COMPLETED"
    assert [step["result"] for step in again.body["steps"]] == [{"number": 1}, "paid 1", None]
    assert "SendMessage" not in wire.names()


def test_to_ask_for_a_saga_that_has_not_changed_is_one_read(deployed: Make, wire: Wire) -> None:
    w = deployed(Trip)
    saga_id = w.start("trip", {"item": "train"})
    w.run()
    api_handler.reset()
    event = request("GET", f"/sagas/trip/{saga_id}")
    tag = Answer(api_handler.handler(event, LambdaContext())).headers["etag"]
    event["headers"]["If-None-Match"] = tag
    wire.requests.clear()
    answer = Answer(api_handler.handler(event, LambdaContext()))
    assert (answer.status, answer.body, answer.headers["etag"]) == (304, None, tag)
    assert wire.names() == ["GetItem"]
    api_handler.reset()


def test_a_happy_step_is_three_writes_and_one_message(deployed: Make, wire: Wire) -> None:
    """Its inputs came with the message."""
    w = deployed(Trip)
    w.start("trip", {"item": "train"})
    for name in ("book", "pay"):
        requests = _handle(w, wire, "trip", name)
        assert [name for name, _ in requests] == ["UpdateItem", "PutItem", "UpdateItem", "SendMessage"]


def test_which_types_are_paused_is_read_once_in_five_seconds_at_half_the_price(deployed: Make, wire: Wire) -> None:
    w = deployed(Trip)
    w.start("trip", {"item": "train"})
    read = len(wire.of_pauses)
    for name in ("book", "pay"):  # one function's environment here
        _handle(w, wire, "trip", name)
    assert len(wire.of_pauses) - read == 1
    w.clock.advance(6)
    _handle(w, wire, "trip", "tell")
    assert len(wire.of_pauses) - read == 2
    assert [asked["ConsistentRead"] for asked in wire.of_pauses] == [False] * len(wire.of_pauses)


def test_a_step_reads_just_what_it_names_where_messages_bring_nothing(deployed: Make, wire: Wire) -> None:
    w = deployed(Trip, SAGAS_CARRY_INPUTS="0")
    saga_id = w.start("trip", {"item": "train"})
    for name, seq in (("book", 1), ("pay", 2)):
        requests = _handle(w, wire, "trip", name)
        assert [name for name, _ in requests] == ["UpdateItem", "BatchGetItem", "PutItem", "UpdateItem", "SendMessage"]
        assert _read_keys(w, requests) == [(saga_id, seq)]


def _read_keys(w: Bench, requests: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, int]]:
    [asked] = [parameters for name, parameters in requests if name == "BatchGetItem"]
    [table] = asked["RequestItems"]
    assert table == w.stack.audit_table
    keys = asked["RequestItems"][table]
    assert keys["ConsistentRead"] is True
    return [(key["saga_id"]["S"], int(key["seq"]["N"])) for key in keys["Keys"]]


def test_the_tables_of_a_step_are_claim_journal_commit(deployed: Make, wire: Wire) -> None:
    w = deployed(Trip)
    w.start("trip", {"item": "train"})
    requests = _handle(w, wire, "trip", "book")
    tables = [parameters["TableName"] for name, parameters in requests if name in _WRITES]
    assert tables == [w.stack.sagas_table, w.stack.audit_table, w.stack.sagas_table]
    assert all("ConditionExpression" in parameters for name, parameters in requests if name in _WRITES)


def test_the_last_step_ends_in_one_transaction_and_reads_nothing(deployed: Make, wire: Wire) -> None:
    """It names no input, so nothing is read; nothing follows, so nothing is sent."""
    w = deployed(Trip)
    w.start("trip", {"item": "train"})
    for name in ("book", "pay"):
        _handle(w, wire, "trip", name)
    last = _handle(w, wire, "trip", "tell")
    assert [name for name, _ in last] == ["UpdateItem", "TransactWriteItems"]
    [items] = [parameters["TransactItems"] for name, parameters in last if name == "TransactWriteItems"]
    assert sorted(kind for item in items for kind in item) == ["Put", "Update"]


def test_no_request_of_a_whole_saga_is_a_scan(deployed: Make, wire: Wire) -> None:
    w = deployed(TenSteps)
    saga_id = w.start("create-report", {"item": "x"})
    w.run()
    w.show(saga_id)
    w.engine.reader.list(["create-report"], None, 10, None)
    w.engine.reader.attention(None, 10, None)
    assert "Scan" not in wire.names()


# Large results, the size of the control item, and write units.


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Callable[[Bench], Meter]:
    """Watch what a bench's tables hold after each write."""

    def watch(w: Bench) -> Meter:
        return metered(w, monkeypatch)

    return watch


def test_large_results_come_back_equal_to_the_step_that_takes_them(deployed: Make, wire: Wire) -> None:
    """The steps themselves compare what they get."""
    w = deployed(TenSteps)
    saga_id = w.start("create-report", {"item": "x"})
    w.run()
    saga = w.show(saga_id)
    assert saga["status"] == "COMPLETED"
    assert [step["result"] for step in saga["steps"]] == [*(_large(letter) for letter in "abcdefghi"), None]
    assert wire.names().count("PutObject") == 9
    assert all("payload" not in entry for entry in w.stack.entries(saga_id)[1:-1])


def test_the_control_item_of_ten_steps_stays_under_a_kilobyte(
    deployed: Make, meter: Callable[[Bench], Meter], capsys: pytest.CaptureFixture[str]
) -> None:
    """At every moment: the lease held, the lease released, over."""
    w = deployed(TenSteps)
    seen = meter(w)
    saga_id = w.start("create-report", {"item": "x"})
    w.run()
    assert w.show(saga_id)["status"] == "COMPLETED"
    assert len(seen.sizes) == 1 + 2 * 10
    with capsys.disabled():
        print(f"\ncontrol item of ten steps: at most {max(seen.sizes)} bytes, {seen.sizes[-1]} at the end")
    assert max(seen.sizes) < KILOBYTE
    assert item_size(w.stack.control(saga_id)) == seen.sizes[-1]


def test_the_index_is_written_at_start_and_end_only(deployed: Make, meter: Callable[[Bench], Meter]) -> None:
    w = deployed(TenSteps)
    seen = meter(w)
    w.start("create-report", {"item": "x"})
    w.run()
    assert len(seen.dues) == 2
    assert seen.dues[-1] == ""
    assert seen.index_units == 4  # what is due at start and end; by name at the start; how it ended at the end


def test_write_units(deployed: Make, meter: Callable[[Bench], Meter], capsys: pytest.CaptureFixture[str]) -> None:
    w = deployed(Trip)
    seen = meter(w)
    w.start("trip", {"item": "train"})
    costs = {"start": seen.units}
    for name in ("book", "pay", "tell"):
        before = seen.units
        w.invoke("trip", name)
        costs[name] = seen.units - before
    with capsys.disabled():
        print(f"\nwrite units of a saga of three steps: {costs}, indexes {seen.index_units}")
    assert costs == {"start": 2, "book": 3, "pay": 3, "tell": 5}
    assert seen.index_units == 4
