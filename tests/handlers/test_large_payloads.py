"""Results beyond what a function may answer: each answer fits, and says what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from sagas.authoring.policies import Exhausted, Retry
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.client.read.advice import advice
from sagas.engine.attempt import call
from tests.engine.outages import Refusals
from tests.handlers.conftest import Make, Site
from tests.support.sagas import FAIL, LOG, perform

_ONCE = Retry.constant(max_retries=0, delay=0.0, on_exhausted=Exhausted.DEAD_LETTER)


@dataclass(frozen=True)
class Sizes:
    """How many characters each step returns."""

    first: int
    second: int = 0
    character: str = "x"


class Bulk(Saga[Sizes], name="bulk"):
    """Three steps with results of any size."""

    @step(retry=Retry.constant(max_retries=3, delay=0.0))
    def first(self, request: Sizes) -> str:
        LOG.append("first")
        return request.character * request.first

    @first.compensate
    def undo_first(self) -> None: ...

    @step
    def second(self, request: Sizes) -> str:
        return request.character * request.second

    @step(retry=_ONCE)
    def third(self) -> str:
        perform("third")
        return "small"


class Copies(Saga[Sizes], name="copies"):
    """The second step takes what the first returned."""

    @step
    def first(self, request: Sizes) -> str:
        return request.character * request.first

    @step
    def second(self, first: str) -> int:
        return len(first)


def run(s: Site, **sizes: Any) -> str:
    saga_id = s.begin("bulk", sizes)
    s.run()
    return saga_id


def seen(s: Site, saga_id: str) -> Any:
    return s.call("GET", f"/sagas/bulk/{saga_id}").body


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of any size: one within the limit does not fit either once its quotes are escaped."""
    monkeypatch.setattr(call, "LARGEST_RESULT", 10**9)


def test_a_result_over_the_limit_fails_its_step_for_good_and_leaves_it_in_doubt(site: Make) -> None:
    s = site(Bulk)
    saga = seen(s, run(s, first=7_000_000))
    text = (
        "the result of step 'first' is 7,000,002 bytes of JSON; the limit is 4,000,000: "
        "store it in S3 and return an S3Object"
    )
    assert saga["error"] == {"step": "first", "type": "WrongResult", "message": text}
    assert (saga["status"], saga["in_doubt"], saga["steps"][0]["attempts"]) == ("COMPENSATED", ["first"], 1)
    assert LOG == ["first"]


def test_a_result_at_the_limit_is_kept_and_answered(site: Make) -> None:
    s = site(Bulk)
    saga = seen(s, run(s, first=3_999_998))
    assert saga["status"] == "COMPLETED"
    assert len(saga["steps"][0]["result"]) == 3_999_998
    assert "left_out" not in saga


def test_what_does_not_fit_is_left_out_and_listed(site: Make) -> None:
    s = site(Bulk)
    saga = seen(s, run(s, first=3_000_000, second=3_000_000))
    assert [len(step["result"] or "") for step in saga["steps"]] == [3_000_000, 0, 5]
    [left] = saga["left_out"]
    assert (left["path"], left["entry"]) == ("$.steps[1].result", 3)
    assert (left["bytes"], left["reason"]) == (3_000_002, "too_large")
    stored = s.stack.s3.head_object(Bucket=s.stack.bucket, Key=left["object"])
    assert stored["ContentLength"] == 3_000_002


@pytest.mark.parametrize("character", ['"', "\\", "é", "\x01", "𝄞"])
def test_characters_that_grow_on_their_way_are_counted_as_they_leave(site: Make, character: str) -> None:
    """``LAMBDAS_LIMIT`` is checked of every answer."""
    s = site(Bulk)
    saga = seen(s, run(s, first=600_000, second=600_000, character=character))
    assert saga["status"] == "COMPLETED"
    given = sum(step["result"] is not None for step in saga["steps"])
    assert given + len(saga.get("left_out", [])) == 3


def test_results_kept_in_entries_are_counted_too(site: Make, monkeypatch: pytest.MonkeyPatch, unlimited: None) -> None:
    monkeypatch.setattr("sagas.engine.read.reader._ROOM", 1_000)
    s = site(Bulk)
    saga = seen(s, run(s, first=600, second=600))
    assert [(one["path"], one["object"], one["bytes"]) for one in saga["left_out"]] == [
        ("$.steps[1].result", None, 602)
    ]


def test_a_result_that_fits_no_answer_is_not_loaded(site: Make, unlimited: None) -> None:
    s = site(Bulk)
    saga = seen(s, run(s, first=7_000_000))
    assert saga["status"] == "COMPLETED"
    assert [(one["path"], one["bytes"]) for one in saga["left_out"]] == [("$.steps[0].result", 7_000_002)]


@pytest.mark.parametrize("body", [None, b"", b"\xff\x00", b'"another"'])
def test_a_saga_whose_payload_is_gone_or_changed_can_be_looked_at(site: Make, body: bytes | None) -> None:
    s = site(Bulk)
    saga_id = run(s, first=30_000)
    entry = s.stack.entries(saga_id)[1]
    where = {"Bucket": s.stack.bucket, "Key": entry["payload_ref"]}
    _ = s.stack.s3.delete_object(**where) if body is None else s.stack.s3.put_object(**where, Body=body)
    saga = seen(s, saga_id)
    assert (saga["status"], saga["steps"][0]["result"], saga["steps"][2]["result"]) == ("COMPLETED", None, "small")
    [left] = saga["left_out"]
    assert (left["path"], left["reason"], left["object"]) == ("$.steps[0].result", "unreadable", entry["payload_ref"])
    assert any("$.steps[0].result cannot be read" in line for line in advice(saga, 0.0))


@pytest.fixture
def as_in_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 says of an object that is not there that it may not be read, to who may not list the bucket."""
    send = cast("Any", BaseClient)._make_api_call

    def denying(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        try:
            return send(self, operation, parameters)
        except ClientError as error:
            if operation != "GetObject":
                raise
            denied: Any = {"Error": {"Code": "AccessDenied", "Message": "Access Denied"}}
            raise ClientError(denied, operation) from error

    monkeypatch.setattr(BaseClient, "_make_api_call", denying)


@pytest.mark.usefixtures("as_in_s3")
def test_what_s3_calls_denied_since_it_is_gone_can_be_looked_at(site: Make) -> None:
    test_a_saga_whose_payload_is_gone_or_changed_can_be_looked_at(site, None)


@pytest.mark.usefixtures("as_in_s3")
def test_a_step_waits_where_s3_calls_denied_what_is_gone(site: Make) -> None:
    """The supervisor, which may list the bucket, finds out that it is gone."""
    s = site(Copies)
    saga_id = s.begin("copies", {"first": 30_000})
    s.invoke("copies", "first")
    where = {"Bucket": s.stack.bucket, "Key": s.stack.entries(saga_id)[1]["payload_ref"]}
    s.stack.s3.delete_object(**where)
    s.invoke("copies", "second")
    saga = s.call("GET", f"/sagas/copies/{saga_id}").body
    right = f"the right s3:GetObject on s3://{where['Bucket']}/{where['Key']} is missing"
    assert saga["attention"]["reason"] == f"step second was not called: its inputs cannot be read ({right})"
    s.recover()
    assert s.call("GET", f"/sagas/copies/{saga_id}").body["attention"] is None
    s.run()
    saga = s.call("GET", f"/sagas/copies/{saga_id}").body
    assert (saga["status"], saga["error"]["type"], saga["steps"][1]["attempts"]) == ("DEAD_LETTERED", "TypeChanged", 0)


@pytest.mark.usefixtures("as_in_s3")
def test_an_object_that_s3_denies_and_that_exists_is_looked_for_once(
    site: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = site(Copies)
    saga_id = s.begin("copies", {"first": 30_000})
    s.invoke("copies", "first")
    refusals = Refusals(monkeypatch, "AccessDenied", "GetObject")
    listed = Refusals(monkeypatch, "AccessDenied", "ListObjectsV2")
    s.invoke("copies", "second")
    s.recover()  # nobody may list: the saga waits
    assert (listed.count, s.status(saga_id)) == (1, "RUNNING")
    listed.on = False
    s.recover()
    for _ in range(5):
        s.clock.advance(300)
        s.invoke("copies", "second")
        s.recover()
    unread = s.state(saga_id).unread
    assert unread is not None
    assert (unread.code, unread.key, unread.listed, refusals.count > 5) == ("no_right", "", True, True)
    refusals.on = False
    s.clock.advance(300)
    s.run()
    assert s.status(saga_id) == "COMPLETED"


def test_a_step_whose_input_is_gone_is_not_called_and_waits_until_it_is_restored(site: Make) -> None:
    s = site(Copies)
    saga_id = s.begin("copies", {"first": 30_000})
    s.invoke("copies", "first")
    where = {"Bucket": s.stack.bucket, "Key": s.stack.entries(saga_id)[1]["payload_ref"]}
    written = s.stack.s3.get_object(**where)["Body"].read()
    s.stack.s3.delete_object(**where)
    s.run()
    saga = s.call("GET", f"/sagas/copies/{saga_id}").body
    assert (saga["status"], saga["error"]["type"], saga["steps"][1]["attempts"]) == ("DEAD_LETTERED", "TypeChanged", 0)
    told = "the stored value of first is missing from S3, or was changed there"
    assert saga["attention"]["reason"] == f"{told}: step second was not called; restore it and retry, or compensate"
    s.stack.s3.put_object(**where, Body=written)
    assert s.call("POST", f"/sagas/copies/{saga_id}/retry").status == 202
    s.run()
    saga = s.call("GET", f"/sagas/copies/{saga_id}").body
    assert (saga["status"], saga["steps"][1]["result"]) == ("COMPLETED", 30_000)


def test_operations_answer_without_payloads(site: Make, unlimited: None) -> None:
    s = site(Bulk)
    FAIL["third"] = RuntimeError("no")
    saga_id = run(s, first=7_000_000, second=40)
    for method, path, body, status in (
        ("POST", "/resolve", {"reason": "seen"}, 200),
        ("POST", "/retry", None, 202),
        ("DELETE", "", None, 202),
    ):
        answer = s.call(method, f"/sagas/bulk/{saga_id}{path}", body)
        assert answer.status == status
        assert answer.body["request"] is None
        assert [step["result"] for step in answer.body["steps"]] == [None, None, None]
        left = [(one["path"], one["reason"]) for one in answer.body["left_out"]]
        assert left == [(f"$.{place}", "not_asked_for") for place in ("request", "steps[0].result", "steps[1].result")]
        assert {"status", "saga_id", "steps", "links", "error"} <= answer.body.keys()


def test_giving_up_too(site: Make, unlimited: None) -> None:
    s = site(Bulk)
    FAIL["third"] = RuntimeError("no")
    saga_id = run(s, first=7_000_000)
    answer = s.call("POST", f"/sagas/bulk/{saga_id}/compensate", {"reason": "no more"})
    assert (answer.status, answer.body["status"]) == (202, "COMPENSATING")


def test_a_repeated_start_answers_with_what_fits(site: Make, unlimited: None) -> None:
    s = site(Bulk)
    body = {"first": 7_000_000}
    first = s.call("POST", "/sagas/bulk", body, key="k")
    s.run()
    again = s.call("POST", "/sagas/bulk", body, key="k")
    assert (again.status, again.body["saga_id"]) == (200, first.body["saga_id"])
    assert again.body["steps"][0]["result"] is None
