"""Pausing saga types by the API: what stops, what goes on, and that nothing is lost or used up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sagas.authoring.policies import Retry
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.authoring.waits import wait_for
from sagas.engine.operate import pausing
from sagas.engine.operate.pausing import SPREAD
from sagas.engine.registry import Registry
from sagas.handlers import api as api_handler
from sagas.messaging.message import Message
from sagas.store.control.control import ControlItems
from tests.handlers.conftest import Make, Site
from tests.support.bench import Death, once
from tests.support.sagas import Order


class Walk(Saga[Order], name="walk", timeout=timedelta(hours=5)):
    @step(retry=Retry.constant(max_retries=1, delay=0))
    def first(self, request: Order) -> str:
        return request.item

    @first.compensate
    def undo_first(self, first: str) -> None: ...

    @step
    def second(self, first: str) -> str:
        return first


class ShorterWalk(Saga[Order], name="walk"):
    @step
    def first(self, request: Order) -> str:
        return request.item


class Asks(Saga[Order], name="asks"):
    answer = wait_for(str, timeout=timedelta(days=1))

    @step
    def after(self, answer: str) -> str:
        return answer


def pause(site: Site, name: str = "walk", **body: Any) -> Any:
    answer = site.call("PUT", f"/types/{name}", {"paused": True, "reason": "an incident", **body})
    assert answer.status == 200
    return answer.body


def resume(site: Site, name: str = "walk") -> Any:
    answer = site.call("PUT", f"/types/{name}", {"paused": False})
    assert answer.status == 200
    return answer.body


def shown(site: Site, saga_id: str, name: str = "walk") -> Any:
    return site.call("GET", f"/sagas/{name}/{saga_id}").body


def settle(site: Site) -> None:
    """Everybody knows by now."""
    site.clock.advance(6)


def test_a_saga_in_flight_stops_before_its_next_step_and_goes_on(site: Make) -> None:
    w = site(Walk)
    saga_id = w.begin("walk")
    w.invoke("walk", "first")
    told = pause(w)
    assert (told["paused"], told["active"], told["reason"]) == (True, False, "an incident")
    assert told["pauses"][0]["by"] == "arn:aws:iam::123456789012:user/ann"
    settle(w)
    assert w.invoke("walk", "second") == 1
    assert w.waiting() == 0  # the message is deleted
    saga = shown(w, saga_id)
    assert (saga["status"], saga["paused"], saga["steps"][1]["attempts"]) == ("RUNNING", True, 0)
    assert w.call("GET", "/sagas", type="walk").body["sagas"][0]["paused"] is True
    assert w.call("GET", "/types").body["types"][0]["paused"] is True
    w.clock.advance(3600)
    assert w.engine.recovery.run(60).recovered == []  # silent for a reason
    assert resume(w)["paused"] is False
    settle(w)
    w.run()
    saga = shown(w, saga_id)
    assert (saga["status"], saga["paused"], saga["recovery_attempts"]) == ("COMPLETED", False, 0)
    assert [one["attempts"] for one in saga["steps"]] == [1, 1]


def test_new_sagas_are_refused_or_wait(site: Make) -> None:
    w = site(Walk)
    pause(w)
    settle(w)
    answer = w.call("POST", "/sagas/walk", {"item": "x"})
    assert (answer.status, answer.code) == (503, "paused")
    assert int(answer.headers["retry-after"]) > 0
    assert answer.body["error"]["message"] == "walk is paused: an incident"
    pause(w, starts=True)
    settle(w)
    answer = w.call("POST", "/sagas/walk", {"item": "x"})
    assert (answer.status, answer.body["paused"]) == (202, True)
    w.run()
    assert shown(w, answer.body["saga_id"])["status"] == "PENDING"
    resume(w)
    settle(w)
    w.run()
    assert shown(w, answer.body["saga_id"])["status"] == "COMPLETED"


def test_undos_go_on_unless_they_are_to_wait_too(site: Make) -> None:
    w = site(Walk)
    one, two = w.begin("walk"), w.begin("walk")
    for _ in range(2):
        w.invoke("walk", "first")
    pause(w)
    settle(w)
    w.run()
    assert w.call("DELETE", f"/sagas/walk/{one}").status in (200, 202)
    w.run()
    assert shown(w, one)["status"] == "CANCELLED"
    pause(w, undos=True)
    settle(w)
    assert w.call("DELETE", f"/sagas/walk/{two}").status == 202
    w.run()
    saga = shown(w, two)
    assert (saga["status"], saga["paused"]) == ("COMPENSATING", True)
    pause(w)  # undos may go on again
    settle(w)
    w.run()
    assert shown(w, two)["status"] == "CANCELLED"


def test_undos_that_were_left_go_on_before_the_type_is_resumed(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who lets undos go on sends the first of them; the supervisor finds the others, and only those."""
    monkeypatch.setattr(pausing, "_MOST_AT_ONCE", 1)
    w = site(Walk)
    ids = [w.begin("walk") for _ in range(4)]
    for _ in ids:
        w.invoke("walk", "first")
    pause(w, undos=True)
    settle(w)
    for one in ids[:3]:
        assert w.call("DELETE", f"/sagas/walk/{one}").status == 202
    w.run()
    assert [shown(w, one)["paused"] for one in ids] == [True] * 4
    pause(w)
    settle(w)
    w.run()
    assert sorted(shown(w, one)["status"] for one in ids) == ["CANCELLED", "COMPENSATING", "COMPENSATING", "RUNNING"]
    assert w.engine.finder.run("recover", 60).found == 2
    w.engine.recovery.recover_due(w.engine.finder.listing.paused("walk", 10, only_undos=True), 60)
    w.clock.advance(SPREAD)
    w.run()
    assert [shown(w, one)["status"] for one in ids] == ["CANCELLED"] * 3 + ["RUNNING"]
    assert shown(w, ids[3])["paused"]


def test_a_wait_ends_and_is_taken_but_the_next_step_does_not_begin(site: Make) -> None:
    w = site(Asks)
    saga_id = w.begin("asks")
    w.run()
    pause(w, "asks")
    settle(w)
    assert w.call("POST", f"/sagas/asks/{saga_id}/signals/answer", '"yes"').status == 202
    w.run()
    steps = shown(w, saga_id, "asks")["steps"]
    assert [one["status"] for one in steps] == ["COMPLETED", "PENDING"]
    resume(w, "asks")
    settle(w)
    w.run()
    assert shown(w, saga_id, "asks")["status"] == "COMPLETED"


def test_a_deadline_ends_a_parked_saga(site: Make) -> None:
    w = site(Walk)
    saga_id = w.begin("walk")
    w.invoke("walk", "first")
    pause(w)
    settle(w)
    w.run()
    w.clock.advance(5 * 3600)
    assert w.engine.finder.run("recover", 60).found == 1
    w.engine.recovery.recover_due(w.engine.finder.listing.paused("walk", 10), 60)
    w.run()
    assert shown(w, saga_id)["status"] == "COMPENSATED"


def test_who_parks_a_saga_of_a_resumed_type_goes_on_at_once(site: Make) -> None:
    """The worker believes for five seconds in what it has read."""
    w = site(Walk)
    saga_id = w.begin("walk")
    w.invoke("walk", "first")
    pause(w)
    settle(w)
    parking, *_ = w.engine.services.gates
    assert not parking.is_open(Message(saga_id, "walk", "first", 0, False, 1))  # read just before it is resumed
    other = w.deploy()
    other.pausing.resume("walk", "ann")
    w.run()
    assert shown(w, saga_id)["status"] == "COMPLETED"


@pytest.mark.parametrize("before", [True, False])
def test_a_process_that_dies_while_it_resumes_strands_nobody(
    site: Make, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    w = site(Walk)
    ids = [w.begin("walk") for _ in range(2)]
    pause(w)
    settle(w)
    w.run()
    other = w.deploy()
    once(monkeypatch, type(other.control), "mark_resumed", before=before)
    with pytest.raises(Death):
        other.pausing.resume("walk", "ann")
    settle(w)
    found = w.engine.finder.listing.paused("walk", 10)
    assert len(found) == (2 if before else 1)
    assert w.engine.pausing.shards(w.clock.now())
    w.engine.recovery.recover_due(found, 60)
    for _ in range(3):  # one that is due, and of which no message was sent, is found to be lost
        w.clock.advance(SPREAD + 1_000)
        w.engine.recovery.run(60)
        w.run()
    assert {shown(w, one)["status"] for one in ids} == {"COMPLETED"}


def test_an_accepted_cancel_of_a_saga_that_is_being_paused_outlives_its_process(
    site: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancel was read before a worker parked the saga, and written after it. Nobody looked at it until a resume."""
    w = site(Walk)
    saga_id = w.begin("walk")
    w.invoke("walk", "first")
    pause(w)
    settle(w)
    request_cancel = ControlItems.request_cancel

    def after_parking(self: Any, before: Any, after: Any) -> bool:
        w.run()
        assert w.state(saga_id).paused
        assert request_cancel(self, before, after)
        raise Death

    monkeypatch.setattr(ControlItems, "request_cancel", after_parking)
    with pytest.raises(Death):
        w.engine.operations.cancel("walk", saga_id, "eve")
    w.clock.advance(60)
    w.engine.recovery.run(60)
    w.run()
    assert shown(w, saga_id)["status"] == "CANCELLED"


def test_a_step_is_paused_and_the_others_go_on(site: Make) -> None:
    w = site(Walk)
    told = pause(w, step="second")
    assert (told["paused"], told["active"], told["pauses"][0]["step"]) == (False, True, "second")
    settle(w)
    saga_id = w.begin("walk")
    w.run()
    saga = shown(w, saga_id)
    assert ([one["status"] for one in saga["steps"]], saga["paused"]) == (["COMPLETED", "PENDING"], True)
    assert (saga["pause"]["step"], saga["pause"]["reason"]) == ("second", "an incident")
    resume(w)  # the type, which is not paused
    settle(w)
    w.run()
    assert shown(w, saga_id)["paused"] is True
    assert w.call("PUT", "/types/walk", {"paused": False, "step": "second"}).body["pauses"] == []
    settle(w)
    w.run()
    assert shown(w, saga_id)["status"] == "COMPLETED"


def test_a_paused_step_that_a_release_removed_is_shown_and_resumed(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    w = site(Walk)
    saga_id = w.begin("walk")
    pause(w, step="second")
    w.invoke("walk", "first")
    settle(w)
    w.invoke("walk", "second")
    registry = api_handler._engine().registry  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setitem(registry._types, "walk", Registry([ShorterWalk]).get("walk"))  # pyright: ignore[reportPrivateUsage]
    (shown_pause,) = w.call("GET", "/types/walk").body["pauses"]
    assert (shown_pause["step"], shown_pause["reason"]) == ("second", "an incident")
    assert shown(w, saga_id)["pause"]["step"] == "second"
    for _ in range(2):  # the answer to the first call may be lost
        answer = w.call("PUT", "/types/walk", {"paused": False, "step": "second"})
        assert (answer.status, answer.body["pauses"]) == (200, [])
    assert not shown(w, saga_id)["paused"]
    answer = w.call("PUT", "/types/walk", {"paused": False, "step": "third"})
    assert (answer.status, answer.paths) == (422, ["$.step"])


def test_one_saga_is_paused_and_the_others_go_on(site: Make) -> None:
    w = site(Walk)
    one, other = w.begin("walk"), w.begin("walk")
    assert pause(w, saga_id=one, undos=True)["pauses"][0]["saga_id"] == one
    settle(w)
    w.run()
    assert [shown(w, saga_id)["status"] for saga_id in (one, other)] == ["PENDING", "COMPLETED"]
    pause(w)
    settle(w)
    assert w.call("PUT", "/types/walk", {"paused": False, "saga_id": one}).status == 200
    settle(w)
    w.run()
    assert (shown(w, one)["status"], shown(w, one)["paused"]) == ("PENDING", True)  # its type is paused, too
    resume(w)
    settle(w)
    w.run()
    assert shown(w, one)["status"] == "COMPLETED"
    answer = w.call("PUT", "/types/walk", {"paused": True, "saga_id": one})
    assert (answer.status, answer.code) == (409, "conflict")
    nowhere = "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17"
    assert w.call("PUT", "/types/walk", {"paused": True, "saga_id": nowhere}).status == 404


def test_the_supervisor_sends_what_a_step_that_is_resumed_left(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "_MOST_AT_ONCE", 1)
    w = site(Walk)
    pause(w, step="second")
    settle(w)
    ids = [w.begin("walk") for _ in range(3)]
    w.run()
    w.call("PUT", "/types/walk", {"paused": False, "step": "second"})
    settle(w)
    assert w.engine.finder.run("recover", 60).found == 2
    w.engine.recovery.recover_due(w.engine.finder.listing.paused("walk", 10), 60)
    w.clock.advance(SPREAD)
    w.run()
    assert {shown(w, saga_id)["status"] for saga_id in ids} == {"COMPLETED"}


def test_a_pause_of_starts_lets_go_what_a_pause_of_the_type_holds(site: Make) -> None:
    w = site(Walk)
    saga_id = w.begin("walk")
    pause(w)
    settle(w)
    w.run()
    told = w.call("PUT", "/types/walk", {"active": False, "reason": "closed"}).body
    assert (told["active"], told["paused"]) == (False, False)
    settle(w)
    w.run()
    assert shown(w, saga_id)["status"] == "COMPLETED"
    assert w.call("POST", "/sagas/walk", {"item": "x"}).code == "paused"


def test_so_many_sagas_are_paused_one_by_one_and_no_more(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "_MOST_SAGAS", 2)
    w = site(Walk)
    ids = [w.begin("walk") for _ in range(4)]
    for saga_id in ids[:2]:
        pause(w, saga_id=saga_id)
    pause(w, saga_id=ids[0])  # once more is no other one
    answer = w.call("PUT", "/types/walk", {"paused": True, "saga_id": ids[2]})
    assert (answer.status, answer.code) == (409, "conflict")
    assert "pause a step or the type instead" in answer.body["error"]["message"]
    settle(w)
    assert w.call("DELETE", f"/sagas/walk/{ids[0]}").status in (200, 202)
    w.run()
    assert shown(w, ids[0])["status"] == "CANCELLED"
    pauses = pause(w, saga_id=ids[3])["pauses"] if shown(w, ids[3])["status"] == "PENDING" else None
    assert pauses is None or {one["saga_id"] for one in pauses} == {ids[1], ids[3]}


def test_bodies_that_say_nothing_are_refused(site: Make) -> None:
    w = site(Walk)
    for body, path in (
        ({}, "$.active"),
        ({"active": False, "paused": True}, "$.active"),
        ({"active": True, "starts": True}, "$.starts"),
        ({"active": False, "step": "first"}, "$.step"),
        ({"paused": True, "step": "first", "saga_id": "x"}, "$.saga_id"),
        ({"paused": True, "step": "first", "starts": True}, "$.starts"),
        ({"paused": True, "step": "third"}, "$.step"),
        ({"paused": True, "step": ""}, "$.step"),
        ({"paused": 1}, "$.paused"),
    ):
        answer = w.call("PUT", "/types/walk", body)
        assert (answer.status, answer.paths) == (422, [path])
    assert w.call("PUT", "/types/none", {"paused": True}).status == 404
    for odd in ("", "0" * 1_900):
        assert w.call("PUT", "/types/walk", {"paused": True, "saga_id": odd}).status == 404
    assert resume(w)["paused"] is False  # it never was
