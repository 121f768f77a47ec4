"""Finding sagas: by what is in their requests, how and when they ended, by key, by id alone and by how an id begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from sagas import Exhausted, Retry, Saga, step
from sagas.core.text import iso
from sagas.errors import Rejected
from tests.handlers.conftest import Make, Site
from tests.support.bench import Death, once
from tests.support.sagas import Idle


@dataclass(frozen=True)
class Part:
    id: int = 7


@dataclass(frozen=True)
class Journey:
    customer_id: str
    fails: bool = False
    part: Part = field(default_factory=Part)
    note: str | None = None


class Tour(
    Saga[Journey],
    name="tour",
    find_by={"customer": "$.customer_id", "part": "$.part.id", "failing": "$.fails", "note": "$.note"},
):
    @step
    def go(self, request: Journey) -> str:
        if request.fails:
            raise Rejected("no")
        return request.customer_id


class Plain(Idle[Journey], name="plain"):
    """It has no search keys."""


class Frail(Saga[Journey], name="frail"):
    @step(retry=Retry.constant(max_retries=0, delay=1, on_exhausted=Exhausted.FAIL))
    def go(self, request: Journey) -> None:
        raise RuntimeError("no")


def begin(site: Site, customer: str = "c-17", name: str = "tour", **more: Any) -> str:
    site.clock.advance(1)
    return site.begin(name, {"customer_id": customer, **more})


def ids(site: Site, **query: str) -> list[str]:
    """All that a list has, page by page."""
    found, cursor = list[str](), dict[str, str]()
    while True:
        answer = site.call("GET", "/sagas", **query, **cursor)
        assert answer.status == 200, answer.body
        found += [saga["saga_id"] for saga in answer.body["sagas"]]
        if answer.body["cursor"] is None:
            return found
        cursor = {"cursor": answer.body["cursor"]}


def test_by_what_is_in_the_request_newest_first(site: Make) -> None:
    w = site(Tour, Plain)
    mine = [begin(w) for _ in range(5)]
    others = [begin(w, "c-18"), begin(w, "c-1"), begin(w, "c-17", "plain")]
    long = begin(w, "x" * 400)
    assert ids(w, type="tour", customer="c-17", limit="2") == mine[::-1]
    assert ids(w, customer="c-18") == [others[0]]  # of all types that are found by it
    assert ids(w, type="tour", customer="x" * 400) == [long]
    assert ids(w, type="tour", customer="x" * 399) == []
    assert ids(w, type="tour", part="7", customer="c-1") == [others[1]]
    assert ids(w, type="tour", part="8", customer="c-1") == []
    assert ids(w, type="tour", failing="false", customer="c-1") == [others[1]]
    assert ids(w, type="tour") == [long, *others[1::-1], *mine[::-1]]
    w.run()
    assert ids(w, type="tour", customer="c-18", status="COMPLETED") == [others[0]]
    assert ids(w, type="tour", customer="c-18", status="RUNNING") == []


def test_what_no_list_is_asked_by_is_refused(site: Make) -> None:
    w = site(Tour, Plain)
    for query, path in (
        ({"colour": "red"}, "query.colour"),
        ({"type": "plain", "customer": "c-17"}, "query.customer"),
        ({"since": "yesterday"}, "query.since"),
        ({"since": "2026-11-22T10:00:00Z", "until": "2026-11-22T10:00:00Z"}, "query.until"),
        ({"idempotency_key": "k", "status": "FAILED"}, "query.idempotency_key"),
    ):
        answer = w.call("GET", "/sagas", **query)
        assert (answer.status, answer.paths) == (422, [path])


def test_by_when_they_were_started_and_how_they_ended(site: Make) -> None:
    w = site(Tour)
    first = begin(w)
    w.run()
    w.clock.advance(10)
    middle = iso(w.clock.now())
    failing = begin(w, fails=True)
    second = begin(w)
    w.run()
    running = begin(w)
    assert ids(w, since=middle) == [running, second, failing]
    assert ids(w, until=middle) == [first]
    assert ids(w, since=middle, until=iso(w.clock.now() + 1), customer="c-17") == [running, second, failing]
    assert ids(w, status="COMPLETED") == [second, first]
    assert ids(w, status="COMPLETED", since=middle) == [second]
    assert ids(w, status="COMPLETED", limit="1") == [second, first]
    assert ids(w, status="COMPENSATED", type="tour") == [failing]
    assert ids(w, status="PENDING") == [running]
    assert ids(w, status="PENDING", until=middle) == []
    assert ids(w, status="FAILED") == []
    plus = middle.replace("Z", "+00:00") if middle.endswith("Z") else middle
    assert ids(w, status="PENDING", since=plus.replace("+", " ")) == [running]


def test_a_settlement_leaves_the_end_where_it_was(site: Make) -> None:
    w = site(Frail)
    first, second = begin(w, name="frail"), begin(w, name="frail")
    w.run()
    ended = w.call("GET", f"/sagas/frail/{first}").body["ended_at"]
    w.clock.advance(3600)
    later = iso(w.clock.now())
    assert w.call("POST", f"/sagas/frail/{first}/resolve", {"reason": "seen", "action": "none"}).status == 200
    view = w.call("GET", f"/sagas/frail/{first}").body
    assert view["ended_at"] == ended < later <= view["updated_at"]
    assert ids(w, status="FAILED") == [second, first]
    assert ids(w, status="FAILED", since=later) == []
    assert w.call("GET", f"/sagas/frail/{begin(w, name='frail')}").body["ended_at"] is None


def test_where_no_earlier_version_was_the_index_has_all(site: Make) -> None:
    w = site(Tour)
    one = begin(w)
    w.run()
    w.engine.finder.run("recover", 60)
    answer = w.call("GET", "/sagas", status="COMPLETED")
    assert [saga["saga_id"] for saga in answer.body["sagas"]] == [one]
    assert answer.body["cursor"] is None


def test_by_idempotency_key_also_when_it_was_purged(site: Make) -> None:
    w = site(Tour, Plain)
    saga_id = w.call("POST", "/sagas/tour", {"customer_id": "c"}, key="order 1").body["saga_id"]
    begin(w)
    assert ids(w, idempotency_key="order 1") == [saga_id]
    assert ids(w, idempotency_key="order 1", type="plain") == []
    assert ids(w, idempotency_key="order 1", limit="1") == [saga_id]
    w.run()
    w.clock.advance(100)
    assert w.call("POST", f"/sagas/tour/{saga_id}/purge").status == 200
    assert ids(w, idempotency_key="order 1") == [saga_id]
    assert w.call("GET", f"/sagas/{saga_id}").body["purged_at"]


def test_nobody_is_at_work_on_one_that_was_purged_right_after_its_end(site: Make) -> None:
    w = site(Tour)
    saga_id = w.call("POST", "/sagas/tour", {"customer_id": "c"}, key="order 1").body["saga_id"]
    w.run()
    assert w.call("POST", f"/sagas/tour/{saga_id}/purge").status == 200
    assert w.stack.control(saga_id)  # for the first minute
    (saga,) = w.call("GET", "/sagas", idempotency_key="order 1").body["sagas"]
    assert (saga["status"], "lease" in saga) == ("COMPLETED", False)


def test_by_id_alone_and_by_how_it_begins(site: Make) -> None:
    w = site(Tour, Plain)
    one, other = begin(w), begin(w, name="plain")
    keyed = w.call("POST", "/sagas/tour", {"customer_id": "c"}, key="k").body["saga_id"]
    for saga_id in (one, other, keyed):
        assert w.call("GET", f"/sagas/{saga_id}").body["saga_id"] == saga_id
    assert w.call("GET", f"/sagas/{other.upper()}").body["type"] == "plain"
    assert w.call("GET", f"/sagas/{keyed[:8]}").body["saga_id"] == keyed
    shared = next(n for n in range(36) if one[n] != other[n])
    assert w.call("GET", f"/sagas/{one[: shared + 1]}").body["saga_id"] == one
    ambiguous = w.call("GET", f"/sagas/{one[:shared]}")
    assert ambiguous.code == "conflict"
    some = ", ".join(sorted((one, other)))
    assert ambiguous.body["error"]["message"] == f"2 saga ids start with {one[:shared]}: {some}; type more of it"
    assert w.call("GET", f"/sagas/{one[:3]}").paths == ["path.saga_id"]
    for nobody in ("0a9d0000", "trip", "ffff", f"{one}0", f"{one[:-1]}g"):
        assert w.call("GET", f"/sagas/{nobody}").status == 404


def test_a_purge_takes_what_a_saga_was_found_by(site: Make) -> None:
    w = site(Tour)
    saga_id, kept = begin(w), begin(w)
    w.run()
    w.clock.advance(100)
    assert len([item for item in w.tables()[0] if item["saga_id"]["S"].startswith("find#")]) == 6
    assert w.call("POST", f"/sagas/tour/{saga_id}/purge").status == 200
    left = [item["saga_id"]["S"] for item in w.tables()[0] if item["saga_id"]["S"].startswith("find#")]
    assert len(left) == 3
    assert all(kept in key for key in left)
    assert ids(w, customer="c-17") == [kept]


@pytest.mark.parametrize("target", ["control.create", "search_keys.put"])
def test_a_start_that_was_left_half_done_is_found_once_it_is_finished(
    site: Make, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    w = site(Tour)
    part, method = target.split(".")
    once(monkeypatch, type(getattr(w.engine, part)), method)
    with pytest.raises(Death):
        w.start("tour", {"customer_id": "c-17"}, key="k")
    assert ids(w, customer="c-17") == []
    saga_id = w.start("tour", {"customer_id": "c-17"}, key="k")
    assert ids(w, customer="c-17") == [saga_id]
    w.run()
    assert ids(w, status="COMPLETED") == [saga_id]
