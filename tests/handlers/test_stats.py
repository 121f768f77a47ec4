"""Counts of sagas: they add up, and say which of them do not."""

from __future__ import annotations

from typing import Any

import pytest

from sagas.core.text import iso
from sagas.engine.read import statistics
from sagas.errors import Rejected
from tests.handlers.conftest import Make
from tests.support.sagas import FAIL, Trip


def of(answer: Any, name: str = "trip") -> Any:
    assert answer.status == 200
    return next(one for one in answer.body["types"] if one["type"] == name)


def test_sagas_are_counted_by_status(site: Make) -> None:
    w = site(Trip)
    for _ in range(3):
        w.begin("trip")
    w.run()
    FAIL["pay"] = Rejected("no")
    w.begin("trip")
    w.run()
    FAIL.clear()
    w.clock.advance(600)
    oldest = w.begin("trip")
    w.begin("trip")
    w.invoke("trip", "book")
    w.clock.advance(40)
    told = of(w.call("GET", "/stats"))
    assert {status: count for status, count in told["statuses"].items() if count} == {
        "COMPLETED": 3,
        "COMPENSATED": 1,
        "PENDING": 1,
        "RUNNING": 1,
    }
    assert (told["in_flight"], told["attention"], told["at_least"]) == (2, 0, [])
    assert (told["started_per_minute"], told["ended_per_minute"]) == (0.4, 0)
    assert told["oldest_in_flight"] == w.call("GET", f"/sagas/trip/{oldest}").body["created_at"]
    w.clock.advance(40)
    told = of(w.call("GET", "/stats", since=iso(w.clock.now() - 60)))
    assert told["statuses"]["COMPLETED"] == 0
    w.run()
    assert of(w.call("GET", "/stats", type="trip"))["statuses"]["COMPLETED"] == 5


def test_what_waits_in_queues_and_who_needs_a_person(site: Make) -> None:
    w = site(Trip)
    w.begin("trip")
    answer = w.call("GET", "/stats")
    assert {tuple(one["steps"]): one["messages"] for one in answer.body["queues"]}[("book",)] == 1
    FAIL["pay"] = Rejected("no")
    FAIL["undo_book"] = RuntimeError("down")
    w.run()
    w.clock.advance(31)
    told = of(w.call("GET", "/stats"))
    needing = len(w.call("GET", "/attention").body["sagas"])
    assert told["attention"] == needing
    assert any("approximately" in text for text in answer.body["approximate"])


def test_what_is_not_counted_to_its_end_says_so(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_MOST", 2)
    w = site(Trip)
    for _ in range(6):
        w.begin("trip")
    told = of(w.call("GET", "/stats"))
    assert {"PENDING", "RUNNING", "started_per_minute"} <= set(told["at_least"])
    assert told["in_flight"] == 2


def test_an_answer_is_kept_for_half_a_minute(site: Make) -> None:
    w = site(Trip)
    assert of(w.call("GET", "/stats"))["in_flight"] == 0
    w.begin("trip")
    assert of(w.call("GET", "/stats"))["in_flight"] == 0
    w.clock.advance(31)
    assert of(w.call("GET", "/stats"))["in_flight"] == 1


def test_bad_questions(site: Make) -> None:
    w = site(Trip)
    assert w.call("GET", "/stats", type="none").status == 404
    assert w.call("GET", "/stats", since="yesterday").paths == ["query.since"]
    assert w.call("GET", "/stats", until="2026-11-22").paths == ["query.until"]


def test_since_a_time_to_come_none_has_ended(site: Make) -> None:
    """DynamoDB refuses a span that ends before it begins."""
    w = site(Trip)
    w.begin("trip")
    w.run()
    assert of(w.call("GET", "/stats", since=iso(w.clock.now() + 86_400)))["statuses"]["COMPLETED"] == 0
    assert of(w.call("GET", "/stats", since="9999-12-31"))["statuses"]["COMPLETED"] == 0
    assert of(w.call("GET", "/stats", since="0001-01-02"))["statuses"]["COMPLETED"] == 1
