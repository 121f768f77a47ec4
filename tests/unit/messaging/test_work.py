"""Messages of the service's own work queues."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sagas.errors import FORMAT, InvalidRequest, NewerFormat, NotFound
from sagas.messaging.routes import Routes
from sagas.messaging.work import MOST_HOPS, DueSagas, Work, parse_work

DUE = ("2026-11-22T05:00:00.000Z", "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17")


def _record(body: Any) -> dict[str, Any]:
    return {"body": body if isinstance(body, str) else json.dumps(body)}


def test_a_message_is_read_as_it_was_sent() -> None:
    work = Work("sweep", {"saga": "zip", "from": [1, {"a": None}]}, hops=3)
    assert parse_work(_record(work.body)) == work
    due = DueSagas([DUE], 1_790_000_000.5)
    assert DueSagas.of(parse_work(_record(due.work("recover").body))) == due


def test_what_a_later_version_adds_is_passed_over() -> None:
    assert parse_work(_record({"task": "recover", "colour": "blue"})) == Work("recover")


def test_a_newer_format_waits_whatever_else_it_is_like() -> None:
    with pytest.raises(NewerFormat):
        parse_work(_record({"task": ["of", "another", "kind"], "format": FORMAT + 1}))


@pytest.mark.parametrize(
    "body", ["", "{", "[]", "null", {}, {"task": ""}, {"task": 5}, {"task": "recover", "hops": -1}, {"task": "x" * 65}]
)
def test_what_is_no_message_is_refused(body: Any) -> None:
    with pytest.raises(InvalidRequest):
        parse_work(_record(body))


def test_a_loop_comes_to_an_end() -> None:
    assert parse_work(_record(Work("sweep", hops=MOST_HOPS).body)).hops == MOST_HOPS
    with pytest.raises(InvalidRequest, match="in a loop"):
        parse_work(_record(Work("sweep", hops=MOST_HOPS + 1).body))


@pytest.mark.parametrize(
    "details",
    [
        {},
        {"sagas": [], "until": 1},
        {"sagas": [DUE] * 101, "until": 1},
        {"sagas": [["today", DUE[1]]], "until": 1},
        {"sagas": [[DUE[0], "lane#trip#book"]], "until": 1},
        {"sagas": [DUE], "until": "later"},
    ],
)
def test_details_that_do_not_fit_are_refused(details: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="details"):
        DueSagas.of(Work("recover", details))


def test_only_a_function_that_works_knows_the_queue() -> None:
    routes = {"base": "https://sqs/1", "token": "t"}
    text = json.dumps({**routes, "work": {"bulk": "Work-bulk-1"}})
    assert Routes.parse(text, {}).work_queue("bulk") == "https://sqs/1/Work-bulk-1"
    with pytest.raises(NotFound, match="no work queue 'bulk'"):
        Routes.parse(json.dumps(routes), {}).work_queue("bulk")
