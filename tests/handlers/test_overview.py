"""The overview: what it says, who writes it and when, and what that costs."""

from __future__ import annotations

import json
import types
from typing import Any

import pytest

from sagas import AutoDisable
from sagas.core.states import SagaState, SagaStatus, Unread
from sagas.engine.read import overview
from sagas.handlers import supervisor
from sagas.store.overview import stored_form
from tests.handlers.conftest import Make, Site
from tests.store.states import saga
from tests.support.aws import LambdaContext
from tests.support.reads import counted
from tests.support.sagas import FAIL, Booked, Fatal, Held, Stubborn, Trip

MONTH = 730 * 3_600.0
EIGHT = {"SAGAS_SHARDS": "8"}
"""As many as a service has."""
NOTHING = {"types": 0, "overdue": 0, "breakers": 0, "pauses": 0, "messages": 0}


class Unlucky(Fatal, name="unlucky", auto_disable=AutoDisable(threshold=1)):
    """Its starts are paused once one has failed."""


def write(site: Site) -> dict[str, Any]:
    """Have the supervisor write the overview."""
    return supervisor.handler({"task": "overview"}, LambdaContext())


def shown(site: Site) -> Any:
    """The overview as the API shows it."""
    answer = site.call("GET", "/overview")
    assert answer.status == 200, answer.body
    return answer.body


@pytest.fixture(autouse=True)
def _fresh() -> None:
    supervisor.reset()


def of(name: str, count: int, *, continuing: int = 0, at_least: bool = False) -> dict[str, Any]:
    return {"type": name, "count": count, "continuing": continuing, "at_least": at_least}


def dead(site: Site, name: str, number: int, **fields: Any) -> list[SagaState]:
    """Store sagas of a type that wait for an operator."""
    now = site.clock.now()
    states = [saga(SagaStatus.FAILED, saga=name, error_type="Declined", attention=now, **fields) for _ in range(number)]
    for state in states:
        assert site.engine.control.create(state, 60.0)
    return states


def many(number: int) -> list[type[Any]]:
    """Return so many saga types, which functions load from this module."""
    for each in range(number):
        if f"Many{each}" not in globals():
            made = types.new_class(f"Many{each}", (Booked,), {"name": f"many-{each}"}, _of_this_module)
            globals()[made.__name__] = made
    return [globals()[f"Many{each}"] for each in range(number)]


def _of_this_module(namespace: dict[str, Any]) -> None:
    namespace |= {"__module__": __name__, "__doc__": "One of many."}


# What it says


def test_before_the_first_run_it_is_counted_when_asked(site: Make) -> None:
    s = site(Stubborn)
    FAIL["second"] = RuntimeError("no")
    s.begin("stubborn")
    s.begin("stubborn")
    s.run()
    s.begin("stubborn")
    view = shown(s)
    assert view["attention"]["types"] == [of("stubborn", 2)]
    assert view["open"] | {"tag": ""} == {"due": 1, "waiting": 0, "paused": 0, "at_least": False, "tag": ""}
    assert (view["breakers"], view["pauses"], view["left_out"]) == ([], [], NOTHING)


def test_it_is_what_the_last_run_found(site: Make) -> None:
    s = site(Stubborn)
    write(s)
    first = shown(s)
    assert (first["attention"]["count"], first["attention"]["types"]) == (0, [])
    FAIL["second"] = RuntimeError("no")
    s.begin("stubborn")
    s.run()
    assert shown(s) == first
    assert write(s) == {"needing": 1, "written": True}
    assert shown(s)["attention"]["types"] == [of("stubborn", 1)]


def test_open_breakers_and_pauses_are_in_it(site: Make) -> None:
    s = site(Held, Unlucky, Trip)
    saga_id = s.begin("held")
    s.invoke("held", "call")
    assert s.call("PUT", "/types/trip", {"paused": True, "reason": "INC-4711"}).status == 200
    FAIL["second"] = RuntimeError("no")
    s.begin("unlucky")
    s.run()
    write(s)
    view = shown(s)
    [breaker] = view["breakers"]
    assert (breaker["type"], breaker["step"], breaker["state"], breaker["failures"]) == ("held", "call", "open", 1)
    error = breaker["last_error"]
    assert (error["type"], error["message"], error["saga_id"]) == ("RuntimeError", "out of reach", saga_id)
    paused = {pause["type"]: (pause["by"], pause["reason"]) for pause in view["pauses"]}
    assert paused["trip"][1] == "INC-4711"
    assert paused["unlucky"] == ("auto_disable", "1 sagas in a row failed")
    s.call("POST", "/breakers/held/call/close")
    for name in ("trip", "unlucky"):
        s.call("PUT", f"/types/{name}", {"paused": False})
    s.clock.advance(6)  # for which an environment knows the pauses
    write(s)
    assert (shown(s)["breakers"], shown(s)["pauses"]) == ([], [])


def test_the_texts_of_a_breakers_error_are_in_no_item_of_the_overview(site: Make) -> None:
    s = site(Held)
    s.begin("held")
    s.invoke("held", "call")
    write(s)
    assert "out of reach" not in str(s.stack.control("overview"))
    assert "out of reach" in str(shown(s))


def test_overdue_sagas_are_listed_the_longest_first(site: Make) -> None:
    s = site(Trip)
    first, second = s.begin("trip"), s.begin("trip")
    s.invoke("trip", "book")
    s.lose_messages()
    s.clock.advance(3_600)
    write(s)
    overdue = shown(s)["overdue"]
    assert overdue["count"] == 2
    assert {each["saga_id"] for each in overdue["sagas"]} == {first, second}
    assert [each["due_since"] for each in overdue["sagas"]] == sorted(each["due_since"] for each in overdue["sagas"])
    s.begin("trip")
    write(s)
    assert shown(s)["overdue"]["count"] == 2, "a saga that is not late is not overdue"


def test_paused_sagas_are_counted(site: Make) -> None:
    s = site(Trip)
    s.begin("trip")
    assert s.call("PUT", "/types/trip", {"paused": True, "reason": "stop"}).status == 200
    s.clock.advance(10)
    s.run()
    write(s)
    assert (shown(s)["open"]["paused"], shown(s)["open"]["due"]) == (1, 0)


# However many there are


@pytest.mark.parametrize("most", [1, 3, 7])
def test_thousands_of_one_type_hide_no_other(site: Make, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(overview, "MOST", most)
    s = site(Trip, **EIGHT)
    dead(s, "payment", 80)
    dead(s, "transfer", 1)
    dead(s, "alpha", 2)
    write(s)
    counts = {each["type"]: (each["count"], each["at_least"]) for each in shown(s)["attention"]["types"]}
    assert counts.keys() == {"alpha", "payment", "transfer"}
    assert counts["payment"][1]
    assert most <= counts["payment"][0] <= 8 * most
    assert counts["transfer"][0] == 1
    assert shown(s)["attention"]["at_least"]


@pytest.mark.slow
def test_twelve_thousand_of_one_type_hide_no_other(site: Make) -> None:
    s = site(Trip, **EIGHT)
    dead(s, "payment", 12_000)
    dead(s, "transfer", 1)
    write(s)
    assert shown(s)["attention"]["types"] == [of("payment", 8_000, at_least=True), of("transfer", 1)]
    [payment, transfer] = s.call("GET", "/attention", group="incident").body["incidents"]
    assert (payment["type"], payment["count"], payment["at_least"]) == ("payment", 1_000, True)
    assert (transfer["type"], transfer["count"], transfer["at_least"]) == ("transfer", 1, False)


def test_the_tag_changes_with_what_is_listed_and_only_then(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    s = site(Trip)
    [one, _] = dead(s, "trip", 2)
    write(s)
    first = shown(s)["attention"]["tag"]
    s.clock.advance(900)
    write(s)
    assert shown(s)["attention"]["tag"] == first
    s.call("POST", f"/sagas/trip/{one.saga_id}/resolve", {"reason": "paid by hand"})
    dead(s, "trip", 1)
    write(s)
    assert (shown(s)["attention"]["count"], shown(s)["attention"]["tag"] == first) == (2, False)
    monkeypatch.setattr(overview, "MOST", 1)
    dead(s, "trip", 40)
    tags = list[str]()
    for _ in range(2):
        s.clock.advance(60)
        write(s)
        tags.append(shown(s)["attention"]["tag"])
    assert tags[0] != tags[1], "what was not read may have changed"


def test_it_has_at_most_twelve_kilobytes_and_says_what_it_leaves_out(site: Make) -> None:
    s = site(*many(20))
    for number in range(400):
        dead(s, f"a-type-with-a-rather-long-name-{number}", 1)
    for each in range(20):
        s.call("PUT", f"/types/many-{each}", {"paused": True, "reason": "r" * 480})
    write(s)
    view = shown(s)
    assert len(stored_form(view)) <= 12_288
    assert view["attention"]["count"] == 400
    assert len(view["attention"]["types"]) + view["left_out"]["types"] == 400
    assert len(view["pauses"]) + view["left_out"]["pauses"] == 20
    assert view["left_out"]["types"] > 0


# The number of sagas that wait for an operator, as a metric


def gauges(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """What was written of the gauge since it was asked last, by type."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "SagasNeedingAttention" in line]
    return {line["saga"]: line["SagasNeedingAttention"][0] for line in lines if "_aws" in line}


def test_a_gauge_is_written_until_the_last_saga_has_gone_and_then_once_as_zero(
    site: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    s = site(Stubborn)
    write(s)
    assert gauges(capsys) == {}
    FAIL["second"] = RuntimeError("no")
    ids = [s.begin("stubborn"), s.begin("stubborn")]
    s.run()
    for expected in (2, 2):
        write(s)
        assert gauges(capsys) == {"stubborn": expected}
    s.call("POST", f"/sagas/stubborn/{ids[0]}/resolve", {"reason": "paid by hand"})
    write(s)
    assert gauges(capsys) == {"stubborn": 1}
    s.call("POST", f"/sagas/stubborn/{ids[1]}/resolve", {"reason": "paid by hand"})
    write(s)
    assert gauges(capsys) == {"stubborn": 0}
    write(s)
    assert gauges(capsys) == {}


def test_sagas_that_continue_on_their_own_are_listed_and_not_in_the_gauge(
    site: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    s = site(Trip)
    unread = Unread(s.clock.now(), "no_right", "s3:GetObject", listed=True)
    state = saga(SagaStatus.WAITING, unread=unread)
    assert s.engine.control.create(state, 60.0)
    assert write(s)["needing"] == 0
    assert shown(s)["attention"]["types"] == [of("trip", 1, continuing=1)]
    assert gauges(capsys) == {}
    dead(s, "trip", 1)
    write(s)
    assert gauges(capsys) == {"trip": 1}
    [counts] = s.call("GET", "/stats").body["types"]
    assert counts["attention"] == 1


def test_messages_that_no_saga_needs_are_counted_once_they_stay(site: Make, capsys: pytest.CaptureFixture[str]) -> None:
    def leftover() -> list[float]:
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "LeftoverMessages" in line]
        return [line["LeftoverMessages"][0] for line in lines if "_aws" in line]

    s = site(Stubborn, Trip)
    FAIL["second"] = RuntimeError("no")
    s.begin("stubborn")
    s.run()
    found = list[list[float]]()

    def run(minutes: int) -> None:
        for _ in range(minutes):
            s.clock.advance(60)
            write(s)
            found.append(leftover())

    run(4)
    assert found == [[], [], [], []], "a saga needs that one"
    found.clear()
    s.stack.sqs.send_message(QueueUrl=s.stack.dead["stubborn"], MessageBody="nobody's")
    s.stack.sqs.send_message(QueueUrl=s.stack.dead["stubborn"], MessageBody="nobody's, too")
    run(4)
    assert [each for each in found if each] in ([[2]] * 2, [[2]] * 3), "at the second sight of them"
    assert shown(s)["messages"] == [{"type": "stubborn", "count": 2}]
    s.stack.sqs.send_message(QueueUrl=s.stack.dead["trip"], MessageBody="nobody's")
    run(1)
    if len(shown(s)["messages"]) == 1:  # it was the other type's turn
        run(1)
    assert found[-1] == [2], "that of the other type is seen for the first time"
    run(1)
    assert found[-1] == [3]
    found.clear()
    s.stack.sqs.purge_queue(QueueUrl=s.stack.dead["trip"])
    s.stack.sqs.purge_queue(QueueUrl=s.stack.dead["stubborn"])
    run(3)
    assert found == [[0], [], []]
    assert shown(s)["messages"] == []


# When it is written, and what that costs


def test_it_is_written_if_something_but_its_time_has_changed_else_every_ten_minutes(site: Make) -> None:
    s = site(Trip)
    written = list[bool]()
    for _ in range(22):
        written.append(write(s)["written"])
        s.clock.advance(60)
    assert [minute for minute, each in enumerate(written) if each] == [0, 10, 20]
    s.begin("trip")
    assert write(s)["written"]
    assert not write(s)["written"]


def test_another_form_is_not_read(site: Make) -> None:
    s = site(Trip)
    write(s)
    item = s.stack.control("overview") | {"format": {"N": "9"}, "overview": {"S": '{"unknown": 1}'}}
    s.stack.dynamodb.put_item(TableName=s.stack.sagas_table, Item=item)
    assert shown(s)["attention"]["count"] == 0
    assert write(s)["written"]


def _idle_month(s: Site, monkeypatch: pytest.MonkeyPatch) -> float:
    """What the runs of a month of virtual time read and write while nothing happens, in USD. A run each minute, and ten
    minutes are like the ten before them."""
    write(s)
    asked = counted(monkeypatch)
    periods = list[tuple[float, int, int]]()
    for _ in range(2):
        asked.clear()
        for _ in range(10):
            s.clock.advance(60)
            write(s)
        periods.append((asked.read, asked.written, asked.calls))
    assert periods[0] == periods[1]
    return asked.usd * MONTH / 600


@pytest.mark.parametrize("number", [1, 50])
def test_an_idle_service_pays_less_than_ten_cents_a_month_however_many_types_it_has(
    site: Make, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    usd = _idle_month(site(*many(number), **EIGHT), monkeypatch)
    assert f"{usd:.2f}" == "0.09", "docs/operations/deploying.md says so"


def test_who_asks_again_reads_two_items(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    s = site(*many(50), **EIGHT)
    write(s)
    shown(s)
    s.clock.advance(30)
    asked = counted(monkeypatch)
    shown(s)
    assert asked.requests == ["GetItem", "GetItem"], "the pauses, with the tables' owner, and the overview"
    assert asked.read <= 2.0
