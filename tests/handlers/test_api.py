"""The API: starting, reading, listing, and the saga types."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, fields
from typing import Any

import pytest

from sagas import Saga, step
from sagas.handlers import supervisor
from sagas.handlers.tasks.recovering import RecoverEvent
from sagas.operations import RecoveryOptions
from tests.handlers.conftest import ANN, Make, Site, begun, ended, request
from tests.support.aws import LambdaContext
from tests.support.sagas import FAIL, Fatal, Stubborn, Trip

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@dataclass(frozen=True)
class Weight:
    kilos: float


class Weigh(Saga[Weight], name="weigh"):
    """A number that has two spellings."""

    @step
    def weigh(self, request: Weight) -> float:
        return request.kilos


def without_payloads(saga: dict[str, Any]) -> dict[str, Any]:
    """A saga that has not run, as calls without the right to read show it."""
    size = len(json.dumps(saga["request"], separators=(",", ":"), ensure_ascii=False).encode())
    left_out = [{"path": "$.request", "entry": 1, "object": None, "bytes": size, "reason": "not_asked_for"}]
    return saga | {"request": None, "label": None, "key": None, "left_out": left_out}


def _audit(site: Site, saga_id: str, **query: str) -> Any:
    return site.call("GET", f"/sagas/trip/{saga_id}/audit", **query).body


# Start.


def test_start(site: Make) -> None:
    s = site(Trip)
    answer = s.call("POST", "/sagas/trip", {"item": "train", "count": 2})
    saga = answer.body
    assert answer.status == 202
    assert UUID7.fullmatch(saga["saga_id"])
    assert answer.headers["location"] == f"/prod/sagas/trip/{saga['saga_id']}"
    assert saga["links"]["self"] == answer.headers["location"]
    assert (saga["type"], saga["status"]) == ("trip", "PENDING")
    assert saga["request"] == {"item": "train", "count": 2}
    assert [step["name"] for step in saga["steps"]] == ["book", "pay", "tell"]
    assert TIME.fullmatch(saga["created_at"])
    assert s.waiting() == 1
    assert s.call("GET", f"/sagas/trip/{saga['saga_id']}").body == saga


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        ({"X-Correlation-Id": "order 17/e"}, "order 17/e"),
        ({"x-correlation-id": "c" * 128, "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}, "c" * 128),
        ({"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}, TRACE),
        ({"traceparent": "00-" + "0" * 32 + "-00f067aa0ba902b7-01"}, None),
        ({"traceparent": "nonsense"}, None),
        ({}, None),
    ],
)
def test_a_callers_correlation_id_is_kept(site: Make, headers: dict[str, str], kept: str | None) -> None:
    s = site(Trip)
    event = request("POST", "/sagas/trip", {"item": "train"}, key="k")
    event["headers"] |= headers
    started = s.send(event).body
    saga_id = started["saga_id"]
    assert started["correlation_id"] == (kept or saga_id)
    s.run()
    assert s.call("GET", f"/sagas/trip/{saga_id}").body["correlation_id"] == (kept or saga_id)
    assert {entry["correlation_id"] for entry in _audit(s, saga_id)["entries"]} == {kept or saga_id}
    event["headers"]["X-Correlation-Id"] = "another"
    again = s.send(event)
    assert (again.status, again.body["correlation_id"]) == (200, kept or saga_id)


def test_same_key_and_body_is_the_same_saga(site: Make) -> None:
    s = site(Trip)
    first = s.call("POST", "/sagas/trip", '{"item": "train", "count": 1}', key="order-1")
    before = s.tables()
    bodies = ['{"count":1,"item":"train"}', '{"item":"tr\\u0061in", "count":1}']
    again = [s.call("POST", "/sagas/trip", body, key="order-1") for body in bodies]
    assert first.status == 202
    assert [answer.status for answer in again] == [200] * 2
    assert all(answer.body == without_payloads(first.body) for answer in again)
    assert all(answer.headers["location"] == first.headers["location"] for answer in again)
    assert s.tables() == before
    assert s.waiting() == 1


def test_one_and_one_point_nought_are_the_same_body(site: Make) -> None:
    s = site(Weigh)
    first = s.call("POST", "/sagas/weigh", '{"kilos": 1}', key="k")
    again = s.call("POST", "/sagas/weigh", '{"kilos": 1.0}', key="k")
    assert (first.status, again.status) == (202, 200)
    assert again.body == without_payloads(first.body)


def test_one_point_nought_is_an_int_where_one_is_asked_for(site: Make) -> None:
    """As JSON Schema has it, and as the key takes the two for the same body."""
    s = site(Trip)
    first = s.call("POST", "/sagas/trip", '{"item": "train", "count": 2.0}', key="k")
    again = s.call("POST", "/sagas/trip", '{"item": "train", "count": 2}', key="k")
    assert (first.status, again.status) == (202, 200)
    s.run()
    saga = s.call("GET", f"/sagas/trip/{first.body['saga_id']}").body
    assert [step["result"] for step in saga["steps"]] == [{"number": 2}, "paid 2", None]


def test_same_key_and_body_is_the_same_saga_also_when_it_failed(site: Make) -> None:
    FAIL["book"] = ValueError("no")
    s = site(Trip)
    first = s.call("POST", "/sagas/trip", {"item": "train"}, key="order-1")
    s.run()
    again = s.call("POST", "/sagas/trip", {"item": "train"}, key="order-1")
    assert (again.status, again.body["saga_id"]) == (200, first.body["saga_id"])
    assert again.body["status"] == "COMPENSATED"
    assert s.waiting() == 0


def test_same_key_with_another_body_is_refused(site: Make) -> None:
    s = site(Trip)
    s.call("POST", "/sagas/trip", {"item": "train"}, key="order-1")
    before = s.tables()
    answer = s.call("POST", "/sagas/trip", {"item": "plane"}, key="order-1")
    assert (answer.status, answer.code) == (422, "idempotency_key_reused")
    assert answer.paths == ["header.Idempotency-Key"]
    assert s.tables() == before


def test_a_refused_start_leaves_a_large_request_as_it_was(site: Make) -> None:
    s = site(Trip)
    first = s.call("POST", "/sagas/trip", {"item": "a" * 20_000}, key="order-1")
    assert s.call("POST", "/sagas/trip", {"item": "b" * 20_000}, key="order-1").status == 422
    assert s.call("GET", f"/sagas/trip/{first.body['saga_id']}").body["request"] == {"item": "a" * 20_000}


def test_keys_belong_to_a_saga_type(site: Make) -> None:
    s = site(Trip, Fatal)
    one = s.call("POST", "/sagas/trip", {"item": "x"}, key="k").body["saga_id"]
    two = s.call("POST", "/sagas/fatal", {"item": "x"}, key="k").body["saga_id"]
    assert one != two
    assert uuid.UUID(one).version == 8


# Read.


def test_a_finished_saga_shows_its_steps(site: Make) -> None:
    FAIL["pay"] = 1
    s = site(Trip)
    saga_id = s.begin("trip", {"item": "train", "count": 4})
    s.run()
    saga = s.call("GET", f"/sagas/trip/{saga_id}").body
    assert saga["status"] == "COMPLETED"
    assert [step["result"] for step in saga["steps"]] == [{"number": 4}, "paid 4", None]
    assert [step["attempts"] for step in saga["steps"]] == [1, 2, 1]
    assert all(TIME.fullmatch(step["started_at"]) and TIME.fullmatch(step["ended_at"]) for step in saga["steps"])
    assert saga["error"] is None
    assert {"in_doubt", "cancel_requested_at", "recovery_attempts", "progress", "resolution", "updated_at"} < set(saga)


def test_a_failed_saga_shows_why(site: Make) -> None:
    FAIL["pay"] = ValueError("the bank is shut")
    s, saga_id = ended(site)
    saga = s.call("GET", f"/sagas/trip/{saga_id}").body
    assert saga["status"] == "COMPENSATED"
    assert saga["error"] == {"step": "pay", "type": "ValueError", "message": "the bank is shut"}
    assert [step["status"] for step in saga["steps"]] == ["COMPENSATED", "FAILED", "PENDING"]


def test_a_saga_is_found_under_its_own_type_only(site: Make) -> None:
    s = site(Trip, Fatal)
    saga_id = s.begin("trip")
    assert s.call("GET", f"/sagas/fatal/{saga_id}").code == "not_found"
    assert s.call("GET", f"/sagas/trip/{saga_id.upper()}").status == 200


# Audit.


def test_the_audit_trail_is_paged_oldest_first(site: Make) -> None:
    s, saga_id = ended(site)
    whole = _audit(s, saga_id)
    assert [entry["action"] for entry in whole["entries"]] == ["SagaStarted", *["StepCompleted"] * 3]
    assert [entry["seq"] for entry in whole["entries"]] == [1, 2, 3, 4]
    assert whole["cursor"] is None
    assert whole["entries"][0]["actor"] == ANN
    assert all("attribute_values" not in entry["details"] for entry in whole["entries"])
    paged, page = list[Any](), _audit(s, saga_id, limit="1")
    while page["cursor"]:
        assert len(page["entries"]) == 1
        paged += page["entries"]
        page = _audit(s, saga_id, limit="1", cursor=page["cursor"])
    assert paged + page["entries"] == whole["entries"]


def test_the_audit_trail_ends_with_what_is_committed(site: Make) -> None:
    s, saga_id = begun(site)
    key = {"saga_id": {"S": saga_id}, "seq": {"N": "1"}}
    first = s.stack.dynamodb.get_item(TableName=s.stack.audit_table, Key=key)["Item"]
    s.stack.dynamodb.put_item(TableName=s.stack.audit_table, Item=first | {"seq": {"N": "2"}})
    assert [entry["seq"] for entry in _audit(s, saga_id)["entries"]] == [1]
    assert _audit(s, saga_id)["cursor"] is None


# Lists.


def _ids(answer: Any) -> list[str]:
    return [saga["saga_id"] for saga in answer.body["sagas"]]


def test_lists_newest_first_in_pages(site: Make) -> None:
    s = site(Trip, Fatal)
    ids = [s.begin(name) for name in ("trip", "fatal", "trip", "trip", "fatal")]
    listed = s.call("GET", "/sagas")
    assert sorted(_ids(listed)) == sorted(ids)
    times = [saga["created_at"] for saga in listed.body["sagas"]]
    assert times == sorted(times, reverse=True)
    page = s.call("GET", "/sagas", limit="2")
    found = _ids(page)
    while page.body["cursor"]:
        page = s.call("GET", "/sagas", limit="2", cursor=page.body["cursor"])
        found += _ids(page)
    assert found == _ids(listed)
    assert set(_ids(s.call("GET", "/sagas", type="fatal"))) == {ids[1], ids[4]}


def test_a_filter_leaves_pages_full(site: Make) -> None:
    s = site(Trip)
    done = s.begin("trip")
    s.run()
    ids = [s.begin("trip") for _ in range(3)]
    assert _ids(s.call("GET", "/sagas", status="COMPLETED")) == [done]
    page = s.call("GET", "/sagas", status="PENDING", limit="2")
    assert _ids(page) == ids[:0:-1]
    rest = s.call("GET", "/sagas", status="PENDING", limit="2", cursor=page.body["cursor"])
    assert _ids(page) + _ids(rest) == ids[::-1]
    assert rest.body["cursor"] is None


def test_attention(site: Make) -> None:
    FAIL["second"] = ValueError("no")
    s = site(Fatal, Trip, Stubborn)
    failed = s.begin("fatal")
    s.run()
    stuck = s.begin("stubborn")
    s.run()
    s.begin("trip")
    page = s.call("GET", "/attention")
    assert _ids(page) == [failed, stuck]
    assert all(saga["attention"]["reason"] for saga in page.body["sagas"])
    assert page.body["sagas"][0]["links"]["self"] == f"/prod/sagas/fatal/{failed}"
    assert _ids(s.call("GET", "/attention", type="stubborn")) == [stuck]
    first = s.call("GET", "/attention", limit="1")
    assert _ids(first) == [failed]
    assert _ids(s.call("GET", "/attention", limit="1", cursor=first.body["cursor"])) == [stuck]


def test_attention_by_incident(site: Make) -> None:
    FAIL["second"] = ValueError("no")
    s = site(Fatal, Trip, Stubborn)
    for name in ("fatal", "fatal", "stubborn"):
        s.begin(name)
        s.run()
    page = s.call("GET", "/attention", group="incident").body
    assert not page["at_least"]
    fatal, stubborn = page["incidents"]
    assert (fatal["type"], fatal["step"], fatal["error_type"], fatal["count"]) == ("fatal", "second", "ValueError", 2)
    assert (stubborn["type"], stubborn["count"], stubborn["first_seen"]) == ("stubborn", 1, stubborn["last_seen"])
    assert s.call("GET", "/attention", group="incident", type="stubborn").body["incidents"] == [stubborn]
    assert s.call("GET", "/attention", group="incident", type="trip").body["incidents"] == []
    assert s.call("GET", "/attention", group="incident", limit="1").body["incidents"] == [fatal, stubborn]
    refused = s.call("GET", "/attention", group="step")
    assert (refused.status, refused.body["error"]["details"][0]["path"]) == (422, "query.group")


def test_attention_of_one_incident(site: Make) -> None:
    s = site(Fatal, Stubborn)
    ids = dict[str, str]()
    for error in (ValueError("no"), KeyError("no")):
        FAIL["second"] = error
        for name in ("fatal", "stubborn"):
            ids[f"{name} {type(error).__name__}"] = s.begin(name)
            s.run()
    page = s.call("GET", "/attention", type="fatal", group="incident").body["incidents"]
    assert {(one["error_type"], one["count"], one["at_least"]) for one in page} == {
        ("ValueError", 1, False),
        ("KeyError", 1, False),
    }
    for one in page:
        kind = {"type": "fatal", "step": "second", "code": one["code"], "error": one["error_type"]}
        assert _ids(s.call("GET", "/attention", **kind)) == [ids[f"fatal {one['error_type']}"]]
        assert s.call("GET", "/attention", **kind, group="incident").body["incidents"] == [one]
        assert _ids(s.call("GET", "/attention", **kind | {"error": "Key"})) == []
        assert _ids(s.call("GET", "/attention", **kind | {"error": ""})) == []
    assert sorted(_ids(s.call("GET", "/attention", type="fatal", step="second"))) == sorted(
        [ids["fatal ValueError"], ids["fatal KeyError"]]
    )


@pytest.mark.parametrize(
    ("query", "path", "message"),
    [
        ({"step": "second"}, "query.step", "allowed only with type"),
        ({"type": "fatal", "code": "failed"}, "query.code", "allowed only with step"),
        ({"type": "fatal", "step": "second", "error": ""}, "query.error", "allowed only with code"),
        ({"type": "fatal", "step": "second", "code": "broken"}, "query.code", "unknown; expected one of "),
    ],
)
def test_a_filter_of_incidents_begins_with_the_type(site: Make, query: dict[str, str], path: str, message: str) -> None:
    refused = site(Fatal).call("GET", "/attention", **query)
    (problem,) = refused.body["error"]["details"]
    assert (refused.status, problem["path"]) == (422, path)
    assert problem["message"].startswith(message)


def test_attention_of_one_type_behind_many_of_others(site: Make) -> None:
    FAIL["second"] = ValueError("no")
    s = site(Fatal, Stubborn)
    for _ in range(12):
        s.begin("fatal")
    s.run()
    stuck = [s.begin("stubborn") for _ in range(3)]
    s.run()
    s.begin("fatal")
    s.run()
    waiting = _ids(s.call("GET", "/attention", type="stubborn"))
    assert sorted(waiting) == sorted(stuck)
    first = s.call("GET", "/attention", type="stubborn", limit="2")
    assert _ids(first) == waiting[:2]
    rest = s.call("GET", "/attention", type="stubborn", limit="2", cursor=first.body["cursor"])
    assert (_ids(rest), rest.body["cursor"]) == (waiting[2:], None)


def test_recovery_attempts_are_set_by_hand(site: Make) -> None:
    s = site(Trip)
    path = f"/sagas/trip/{s.begin('trip')}"
    set_to = s.call("PUT", f"{path}/recovery-attempts", {"attempts": 4})
    assert (set_to.status, set_to.body["recovery_attempts"]) == (200, 4)
    assert s.call("PUT", f"{path}/recovery-attempts", {"attempts": 0}).body["recovery_attempts"] == 0
    assert s.call("GET", path).body["recovery_attempts"] == 0
    s.run()
    assert s.call("PUT", f"{path}/recovery-attempts", {"attempts": 0}).code == "conflict"


def test_stalled_sagas_of_a_type_are_recovered_by_hand(site: Make) -> None:
    s = site(Trip, Stubborn)
    lost, other, elsewhere = s.begin("trip"), s.begin("trip"), s.begin("stubborn")
    s.lose_messages()
    s.clock.advance(600)
    seen = s.call("POST", "/types/trip/recover", {"dry_run": True}).body
    assert lost in [saga["saga_id"] for saga in seen["due"]]
    assert {saga["type"] for saga in seen["due"]} == {"trip"}
    assert seen["due"][0].keys() == {"saga_id", "type", "status", "attempts", "due_since"}
    supervisor.reset()
    of_all_types = supervisor.handler({"task": "recover", "dry_run": True}, LambdaContext())
    assert {saga["saga_id"] for saga in of_all_types["due"]} == {lost, other, elsewhere}
    only = s.call("POST", "/types/trip/recover", {"dry_run": True, "saga_id": lost}).body
    assert ([saga["saga_id"] for saga in only["due"]], only["recovered"]) == ([lost], 0)
    behind = s.call("POST", "/types/trip/recover", {"dry_run": True, "saga_id": other, "limit": 1}).body
    assert [saga["saga_id"] for saga in behind["due"]] == [other]
    one = s.call("POST", "/types/trip/recover", {"saga_id": lost})
    assert (one.status, one.body["recovered"], one.body["saga_ids"]) == (200, 1, [lost])
    s.run()  # what stands in a line explains why others wait
    rest = s.call("POST", "/types/trip/recover")
    assert rest.body["saga_ids"] == [other]
    s.run()
    for saga_id in (lost, other):
        assert s.call("GET", f"/sagas/trip/{saga_id}").body["status"] == "COMPLETED"
    assert s.call("GET", f"/sagas/stubborn/{elsewhere}").body["status"] == "PENDING"
    assert s.call("POST", "/types/gone/recover").status == 404
    assert s.call("POST", "/types/trip/recover", {"saga_id": elsewhere}).status == 404
    for body, path in (({"limit": 0}, "$.limit"), ({"stale_after": -1}, "$.stale_after"), ({"all": 1}, "$.all")):
        refused = s.call("POST", "/types/trip/recover", body)
        assert (refused.status, refused.paths) == (422, [path])
    refused = s.call("POST", "/types/trip/recover", {"limit": 0, "stale_after": -1, "max_attempts": 1_001})
    assert (refused.status, refused.paths) == (422, ["$.stale_after", "$.limit", "$.max_attempts"])


def test_each_option_of_a_recovery_is_a_field_of_its_event() -> None:
    assert {field.name for field in fields(RecoveryOptions)} < {*RecoverEvent.__struct_fields__}


# Saga types.


def test_definitions(site: Make) -> None:
    s = site(Trip, Stubborn)
    found = s.call("GET", "/types").body["types"]
    assert [one["type"] for one in found] == ["trip", "stubborn"]
    trip = s.call("GET", "/types/trip").body
    assert trip == found[0]
    assert [(step["name"], step["undo"]) for step in trip["steps"]][:2] == [("book", "unbook"), ("pay", "refund")]
    assert trip["active"] is True
    assert trip["request"]["$defs"]["Order"]["properties"]["item"] == {"type": "string"}


def test_a_reason_is_changed_to_what_it_is_shown_as(site: Make) -> None:
    s = site(Trip)
    answer = s.call("PUT", "/types/trip", {"active": False, "reason": "stocktaking"})
    assert answer.body["reason"] == "stocktaking"
    answer = s.call("PUT", "/types/trip", {"active": True, "reason": None})
    assert (answer.status, answer.body["active"], answer.body["reason"]) == (200, True, None)


def test_a_type_whose_starts_are_paused_takes_no_new_sagas(site: Make) -> None:
    s = site(Trip, Fatal)
    running = s.begin("trip")
    off = s.call("PUT", "/types/trip", {"active": False, "reason": "broken"})
    assert (off.status, off.body["active"], off.body["paused"], off.body["reason"]) == (200, False, False, "broken")
    (pause,) = off.body["pauses"]
    assert (pause["by"], pause["starts_only"]) == (ANN, True)
    assert TIME.fullmatch(pause["at"])
    before = s.tables()
    refused = s.call("POST", "/sagas/trip", {"item": "x"})
    assert (refused.status, refused.code) == (503, "paused")
    assert refused.body["error"]["message"] == "starts of trip are paused: broken"
    assert int(refused.headers["retry-after"]) >= 1
    assert s.tables() == before
    assert s.call("POST", "/sagas/fatal", {"item": "x"}).status == 202
    s.run()
    assert s.call("GET", f"/sagas/trip/{running}").body["status"] == "COMPLETED"
    assert s.call("PUT", "/types/trip", {"active": True}).status == 200
    assert s.call("POST", "/sagas/trip", {"item": "x"}).status == 202
