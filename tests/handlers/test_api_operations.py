"""The API's operations on sagas: cancel, retry, compensate, resolve and purge."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sagas import S3Object, Saga, step, wait_for
from sagas.engine.operate.operations import Operations
from sagas.operations import OPERATIONS
from tests.handlers.conftest import ANN, Answer, Make, Site, begun, ended
from tests.support.sagas import FAIL, LOG, PARK, Fatal, Order, Stubborn, Trip, perform

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


class Scanned(Saga[Order], name="scanned"):
    """Its result names an object."""

    @step
    def scan(self) -> S3Object:
        return S3Object("scans", "scans/ann.pdf", 12)


DURING: list[Callable[[], Any]] = []
"""What happens while the next step is running."""


class Held(Saga[Order], name="held"):
    """A caller acts while it runs."""

    @step
    def hold(self, request: Order) -> str:
        while DURING:
            DURING.pop()()
        return request.item

    @step
    def go_on(self, hold: str) -> str:
        return hold


VOUCHER = "voucher 4711"


class Private(Saga[Order], name="private"):
    """Callers that may only act on a saga do not see its payloads."""

    answer = wait_for(str, timeout=timedelta(days=1))

    @step(retry=PARK)
    def book(self, request: Order, answer: str) -> str:
        perform("book")
        return VOUCHER

    @step(retry=PARK)
    def end(self, book: str) -> str:
        perform("end")
        return book


def _ask(s: Site, name: str, saga_id: str) -> Answer:
    """Make a call of an operation that a caller without the right to read may make."""
    path = f"/sagas/private/{saga_id}"
    match name:
        case "start":
            return s.call("POST", "/sagas/private", {"item": VOUCHER}, key=saga_id)
        case "signal":
            return s.call("POST", f"{path}/signals/answer", json.dumps(VOUCHER))
        case "cancel":
            return s.call("DELETE", path)
        case "set_recovery_attempts":
            return s.call("PUT", f"{path}/recovery-attempts", {"attempts": 1})
        case _:
            return s.call("POST", f"{path}/{name}", {"reason": "asked for"})


UNREAD = [row.name for row in OPERATIONS if row.right != "read" and row.answer == "Saga"]


@pytest.mark.parametrize("name", UNREAD)
def test_only_the_right_to_read_shows_payloads(site: Make, name: str) -> None:
    """A caller with the right to start only could learn another's results by repeating the key and the request."""
    FAIL["end"] = RuntimeError("no")
    s = site(Private)
    saga_id = s.call("POST", "/sagas/private", {"item": VOUCHER}, key="o-1").body["saga_id"]
    s.run()
    assert s.call("POST", f"/sagas/private/{saga_id}/signals/answer", json.dumps(VOUCHER)).status == 202
    s.run()
    if name == "purge":
        s.call("POST", f"/sagas/private/{saga_id}/compensate", {"reason": "undo"})
        s.run()
    assert VOUCHER in json.dumps(s.show(saga_id))
    answer = _ask(s, name, "o-1" if name == "start" else saga_id)
    assert answer.status in (200, 202), f"{answer.body}: add the body of {name} to _ask"
    assert answer.body["saga_id"] == saga_id
    assert VOUCHER not in json.dumps(answer.body)


def test_cancel_before_anything_ran(site: Make) -> None:
    s, saga_id = begun(site)
    answer = s.call("DELETE", f"/sagas/trip/{saga_id}")
    assert (answer.status, answer.body["status"]) == (200, "CANCELLED")
    assert s.call("DELETE", f"/sagas/trip/{saga_id}").status == 200
    s.run()
    assert LOG == []
    entries = s.call("GET", f"/sagas/trip/{saga_id}/audit").body["entries"]
    assert [entry["action"] for entry in entries] == ["SagaStarted", "CancelRequested", "CompensationStarted"]
    assert entries[1]["actor"] == ANN


def test_cancel_undoes_what_was_done(site: Make) -> None:
    s, saga_id = begun(site)
    s.invoke("trip", "book")
    answer = s.call("DELETE", f"/sagas/trip/{saga_id}")
    assert (answer.status, answer.body["status"]) == (202, "COMPENSATING")
    assert answer.body["cancel_requested_at"]
    assert s.call("DELETE", f"/sagas/trip/{saga_id}").status == 202
    s.run()
    assert LOG == ["book:1", "unbook:1"]
    assert s.call("DELETE", f"/sagas/trip/{saga_id}").body["status"] == "CANCELLED"


def test_a_cancel_that_is_undone_by_the_time_of_the_answer_says_so_twice(
    site: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, saga_id = begun(site)
    s.invoke("trip", "book")
    cancel = Operations.cancel

    def and_undo(*given: Any, **named: Any) -> Any:
        state = cancel(*given, **named)
        s.run()
        return state

    monkeypatch.setattr(Operations, "cancel", and_undo)
    answer = s.call("DELETE", f"/sagas/trip/{saga_id}")
    assert (answer.status, answer.body["status"]) == (200, "CANCELLED")


def test_a_cancel_keeps_its_note_whoever_acts_on_it(site: Make) -> None:
    s = site(Trip, Held)
    at_rest, held = s.begin("trip"), s.begin("held")
    assert s.call("DELETE", f"/sagas/trip/{at_rest}", reason="the customer gave up").status == 200
    record = s.entry(at_rest, "CancelRequested")
    assert (record["actor"], record["details"]["reason"]) == (ANN, "the customer gave up")
    DURING.append(lambda: s.call("DELETE", f"/sagas/held/{held}", reason="in the middle"))
    s.run()
    s.call("DELETE", f"/sagas/held/{held}", reason="again")
    assert [one["details"]["reason"] for one in s.stack.entries(held) if one["action"] == "CancelRequested"] == [
        "in the middle"
    ]
    assert "cancel_reason" not in s.stack.control(held)
    answer = s.call("DELETE", f"/sagas/trip/{at_rest}", reason="x" * 501)
    assert (answer.status, answer.paths) == (422, ["query.reason"])


def test_what_is_over_cannot_be_cancelled(site: Make) -> None:
    s, saga_id = ended(site)
    before = s.tables()
    answer = s.call("DELETE", f"/sagas/trip/{saga_id}")
    assert (answer.status, answer.code) == (409, "conflict")
    assert s.tables() == before


def test_retry_resumes_a_dead_lettered_saga(site: Make) -> None:
    FAIL["second"] = ValueError("no")
    s = site(Stubborn)
    saga_id = s.begin("stubborn")
    s.run()
    assert s.call("GET", f"/sagas/stubborn/{saga_id}").body["status"] == "DEAD_LETTERED"
    FAIL.clear()
    answer = s.call("POST", f"/sagas/stubborn/{saga_id}/retry", {"reason": "fixed"})
    assert (answer.status, answer.body["status"]) == (202, "RUNNING")
    s.run()
    assert s.call("GET", f"/sagas/stubborn/{saga_id}").body["status"] == "COMPLETED"
    assert LOG == ["first:1", "second:1", "second:2", "second:3"]
    assert s.call("POST", f"/sagas/stubborn/{saga_id}/retry").code == "conflict"


def test_retry_repeats_failed_undos_only(site: Make) -> None:
    FAIL["tell"], FAIL["unbook"] = ValueError("no"), ValueError("never")
    s, saga_id = ended(site)
    assert s.call("GET", f"/sagas/trip/{saga_id}").body["status"] == "COMPENSATION_FAILED"
    FAIL.clear()
    LOG.clear()
    assert s.call("POST", f"/sagas/trip/{saga_id}/retry", {"reason": "again"}).status == 202
    s.run()
    assert LOG == ["unbook:4"]
    assert s.call("GET", f"/sagas/trip/{saga_id}").body["status"] == "COMPENSATED"


@pytest.mark.parametrize("saga_class", [Stubborn, Fatal])
def test_compensate_gives_up(site: Make, saga_class: type[Any]) -> None:
    FAIL["second"] = ValueError("no")
    s = site(saga_class)
    name = saga_class.__name__.lower()
    saga_id = s.begin(name)
    s.run()
    answer = s.call("POST", f"/sagas/{name}/{saga_id}/compensate", {"reason": "enough"})
    assert (answer.status, answer.body["status"]) == (202, "COMPENSATING")
    s.run()
    assert LOG[-1] == "undo_first:1"
    assert s.call("GET", f"/sagas/{name}/{saga_id}").body["status"] == "COMPENSATED"
    assert s.call("POST", f"/sagas/{name}/{saga_id}/compensate", {}).code == "conflict"


def test_resolve_takes_a_saga_off_the_list(site: Make) -> None:
    FAIL["second"] = ValueError("no")
    s = site(Fatal)
    saga_id = s.begin("fatal")
    s.run()
    path = f"/sagas/fatal/{saga_id}/resolve"
    answer = s.call("POST", path, {"reason": "called them", "action": "refunded"})
    assert answer.status == 200
    resolution = answer.body["resolution"]
    assert (resolution["by"], resolution["reason"], resolution["action"]) == (ANN, "called them", "refunded")
    assert TIME.fullmatch(resolution["at"])
    assert s.call("GET", "/attention").body["sagas"] == []


def test_a_second_resolve_corrects_the_first(site: Make) -> None:
    FAIL["tell"] = FAIL["unbook"] = ValueError("never")
    s = site(Trip)
    path = f"/sagas/trip/{s.begin('trip')}"
    assert s.call("POST", f"{path}/resolve", {"reason": "too soon"}).code == "conflict"
    s.run()
    assert s.call("POST", f"{path}/resolve", {"reason": "called ann", "steps": ["book"]}).status == 200
    s.clock.advance(60)
    answer = s.call("POST", f"{path}/resolve", {"reason": "called bob", "action": "refunded"})
    # The steps that were undone by hand remain so.
    resolution = {"by": ANN, "reason": "called bob", "action": "refunded", "steps": ["book"]}
    assert answer.body["resolution"] | {"at": ""} == resolution | {"at": ""}
    entries = s.call("GET", f"{path}/audit").body["entries"]
    resolves = [entry for entry in entries if entry["action"] == "SagaResolved"]
    assert [entry["details"]["reason"] for entry in resolves] == ["called ann", "called bob"]
    assert answer.body["resolution"]["at"] == resolves[-1]["at"]
    assert s.call("GET", "/attention").body["sagas"] == []


def test_purge_leaves_what_happened_and_answers_the_key(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    s = site(Trip)
    started = s.call("POST", "/sagas/trip", {"item": "ann's train"}, key="one")
    path = f"/sagas/trip/{started.body['saga_id']}"
    s.run()
    LOG.clear()
    purged = s.call("POST", f"{path}/purge", {"reason": "asked for"})
    assert (purged.status, purged.body["status"], purged.body["request"]) == (200, "COMPLETED", None)
    assert (purged.body["purge_reason"], bool(TIME.fullmatch(purged.body["purged_at"]))) == ("asked for", True)
    assert [step["result"] for step in purged.body["steps"]] == [None, None, None]
    assert (purged.body["objects"], purged.body["more_objects"]) == ([], 0)
    assert s.call("GET", path).body == purged.body
    assert s.call("POST", f"{path}/purge").body == purged.body
    again = s.call("POST", "/sagas/trip", {"item": "ann's train"}, key="one")
    assert (again.status, again.body) == (200, purged.body)
    assert again.headers["location"] == started.headers["location"]
    s.run()
    assert LOG == []
    other = s.call("POST", "/sagas/trip", {"item": "a bus"}, key="one")
    assert (other.status, other.code) == (422, "idempotency_key_reused")
    *_, last = s.call("GET", f"{path}/audit").body["entries"]
    assert (last["action"], last["actor"], last["details"]) == ("SagaPurged", ANN, {"reason": "asked for"})
    verified = s.call("GET", f"{path}/verification").body
    assert (verified["verified"], verified["purged_at"]) == (True, purged.body["purged_at"])
    for method, verb in (("DELETE", ""), ("POST", "/retry"), ("POST", "/compensate"), ("POST", "/resolve")):
        answer = s.call(method, path + verb, {"reason": "x"} if verb else None)
        assert (answer.status, answer.code) == (409, "conflict")
        assert "was purged at" in answer.body["error"]["message"]
    assert "ann's train" not in str(s.tables())


def test_a_purge_names_the_objects_that_it_leaves(site: Make) -> None:
    s = site(Scanned)
    path = f"/sagas/scanned/{s.begin('scanned')}"
    s.run()
    assert "objects" not in s.call("GET", path).body
    purged = s.call("POST", f"{path}/purge").body
    assert (purged["objects"], purged["more_objects"]) == ([{"bucket": "scans", "key": "scans/ann.pdf"}], 0)
    assert s.call("GET", path).body == purged


def test_undos_done_by_hand_are_not_repeated(site: Make) -> None:
    FAIL["tell"] = FAIL["unbook"] = FAIL["refund"] = ValueError("never")
    s, saga_id = ended(site)
    body = {"reason": "by hand", "action": "cancelled it", "steps": ["book"]}
    assert s.call("POST", f"/sagas/trip/{saga_id}/resolve", body).status == 200
    FAIL.clear()
    LOG.clear()
    assert s.call("POST", f"/sagas/trip/{saga_id}/retry").status == 202
    s.run()
    assert LOG == ["refund:4"]
    assert s.call("GET", f"/sagas/trip/{saga_id}").body["status"] == "COMPENSATED"


def test_purge_keeps_its_reason(site: Make) -> None:
    s = site(Trip)
    path = f"/sagas/trip/{s.begin('trip')}"
    s.run()
    s.clock.advance(3600)
    purged = s.call("POST", f"{path}/purge", {"reason": "asked for"})
    assert (purged.status, purged.body["purge_reason"]) == (200, "asked for")


@pytest.mark.parametrize("verb", ["retry", "compensate", "resolve", "purge"])
def test_operations_on_a_saga_that_runs_are_refused(site: Make, verb: str) -> None:
    s, saga_id = begun(site)
    before = s.tables()
    answer = s.call("POST", f"/sagas/trip/{saga_id}/{verb}", {"reason": "please"})
    assert (answer.status, answer.code) == (409, "conflict")
    assert s.tables() == before
