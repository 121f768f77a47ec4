"""Each method: what it asks the API for, and what it returns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import boto3
import botocore.session
import pytest
from botocore.credentials import DeferredRefreshableCredentials
from botocore.exceptions import ClientError

from sagas import InvalidRequest, Saga, SagaClient, SagaError, step
from sagas.errors import Conflict, NotFound, StateChanged
from tests.unit.client.stub import SAGA_ID, StubApi, a_saga, an_error, attention

ONE = f"/v1/sagas/create-zip/{SAGA_ID}"


@dataclass(frozen=True)
class Order:
    amount: Decimal


class Pay(Saga[Order], name="pay"):
    @step
    def take(self, request: Order) -> None: ...


def asked(api: StubApi) -> tuple[str, str, object]:
    (one,) = api.asked
    return one.method, one.path, one.body


class TestAskedAgain:
    def test_what_has_not_changed_is_not_answered_again(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga("RUNNING"), {"ETag": '"1"'}).will(304, b"").will(200, a_saga(), {"etag": '"2"'})
        first = client.show("create-zip", SAGA_ID)
        first["status"] = "mine"
        again = client.show("create-zip", SAGA_ID)
        assert [again["status"], client.show("create-zip", SAGA_ID)["status"]] == ["RUNNING", "COMPLETED"]
        assert [one.headers.get("If-None-Match") for one in api.asked] == [None, '"1"', '"1"']
        api.will(200, a_saga())
        client.retry("create-zip", SAGA_ID)
        assert "If-None-Match" not in api.asked[-1].headers

    def test_only_the_latest_few_are_kept(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga(), {"ETag": '"1"'})
        for name in [*(f"type-{number}" for number in range(65)), "type-64", "type-0"]:
            client.show(name, SAGA_ID)
        assert [one.headers.get("If-None-Match") for one in api.asked[-2:]] == ['"1"', None]


class Nightly(Saga[None], name="nightly"):
    @step
    def report(self) -> None: ...


def test_a_request_that_does_not_fit_is_named_with_its_path(api: StubApi, client: SagaClient) -> None:
    order = Order("ten")  # pyright: ignore[reportArgumentType] - the mistake
    with pytest.raises(InvalidRequest, match=r": \$\.amount is str, expected ") as refused:
        client.start(Pay, order)
    assert [problem.path for problem in refused.value.problems] == ["$.amount"]
    assert api.asked == []


class TestARequestOfNone:
    """Of a saga that has no request. The body is JSON's null, not empty."""

    @pytest.mark.parametrize("saga", [Nightly, "nightly"])
    def test_is_started(self, api: StubApi, client: SagaClient, saga: Any) -> None:
        api.will(202, a_saga("PENDING"))
        client.start(saga, None)
        assert (api.asked[0].raw, api.asked[0].headers["Content-Type"]) == (b"null", "application/json")

    def test_runs_again(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga(request=None)).will(202, a_saga("PENDING"))
        client.rerun("nightly", SAGA_ID)
        assert [call.raw for call in api.asked] == [b"", b"null"]


class TestSignal:
    @pytest.mark.parametrize(
        ("value", "body"),
        [
            (Order(Decimal("1.50")), {"amount": "1.50"}),
            ([Order(Decimal(2))], [{"amount": "2"}]),
            (Decimal("1.50"), "1.50"),
            ({"amount": "1.50"}, {"amount": "1.50"}),
            (True, True),
            (None, None),
        ],
    )
    def test_a_value_is_sent_in_its_json_form(self, api: StubApi, client: SagaClient, value: Any, body: Any) -> None:
        api.will(202, a_saga("WAITING"))
        client.signal("create-zip", SAGA_ID, "reply", value)
        assert asked(api) == ("POST", f"{ONE}/signals/reply", body)
        assert json.loads(api.asked[0].raw) == body

    def test_what_has_no_json_form_is_refused(self, api: StubApi, client: SagaClient) -> None:
        with pytest.raises(InvalidRequest) as refused:
            client.signal("create-zip", SAGA_ID, "reply", object())
        assert [one.path for one in refused.value.problems] == ["$"]
        assert api.asked == []


class TestStart:
    def test_by_name_sends_json(self, api: StubApi, client: SagaClient) -> None:
        api.will(202, a_saga("PENDING"))
        assert client.start("create-zip", {"keys": ["ü"]})["status"] == "PENDING"
        assert asked(api) == ("POST", "/v1/sagas/create-zip", {"keys": ["ü"]})
        assert "Idempotency-Key" not in api.asked[0].headers

    def test_by_class_encodes_the_request(self, api: StubApi, client: SagaClient) -> None:
        api.will(202, a_saga())
        client.start(Pay, Order(Decimal("12.50")))
        assert asked(api) == ("POST", "/v1/sagas/pay", {"amount": "12.50"})

    def test_sends_the_key(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga())
        client.start("create-zip", {}, key="order 17")
        assert api.asked[0].headers["Idempotency-Key"] == "order 17"

    def test_sends_the_correlation_id(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga())
        client.start("create-zip", {}, correlation_id="order 17")
        assert api.asked[0].headers["X-Correlation-Id"] == "order 17"

    @pytest.mark.parametrize("given", ["", "x" * 129, "two\nlines", " padded"])
    def test_refuses_a_correlation_id_that_no_header_can_carry(
        self, api: StubApi, client: SagaClient, given: str
    ) -> None:
        with pytest.raises(InvalidRequest) as refused:
            client.start("create-zip", {}, correlation_id=given)
        assert [problem.path for problem in refused.value.problems] == ["header.X-Correlation-Id"]
        assert api.asked == []

    @pytest.mark.parametrize("key", ["", "x" * 257, "two\nlines", "schlüssel", " padded"])
    def test_refuses_a_key_that_no_header_can_carry(self, api: StubApi, client: SagaClient, key: str) -> None:
        with pytest.raises(InvalidRequest) as refused:
            client.start("create-zip", {}, key=key)
        assert [problem.path for problem in refused.value.problems] == ["header.Idempotency-Key"]
        assert api.asked == []

    def test_refuses_what_is_not_json(self, api: StubApi, client: SagaClient) -> None:
        with pytest.raises(InvalidRequest, match="not JSON"):
            client.start("pay", Order(Decimal(1)))
        with pytest.raises(InvalidRequest, match="not JSON"):
            client.start("pay", {"amount": float("nan")})
        assert api.asked == []

    def test_refuses_another_class_of_request(self, api: StubApi, client: SagaClient) -> None:
        with pytest.raises(InvalidRequest, match="not a valid Order"):
            client.start(Pay, cast("Order", {"amount": "1"}))
        assert api.asked == []


class TestRunningAgain:
    def test_starts_a_new_saga_with_the_request_of_the_old(self, api: StubApi, client: SagaClient) -> None:
        old = a_saga("COMPENSATED", request={"keys": ["ü"]}, correlation_id="order 17")
        api.will(200, old).will(202, a_saga("PENDING"))
        assert client.rerun("create-zip", SAGA_ID, key="k2") == a_saga("PENDING")
        shown, started = api.asked
        assert (shown.method, shown.path) == ("GET", ONE)
        assert (started.method, started.path, started.body) == ("POST", "/v1/sagas/create-zip", {"keys": ["ü"]})
        assert (started.headers["Idempotency-Key"], started.headers["X-Correlation-Id"]) == ("k2", "order 17")

    def test_not_of_a_request_that_is_not_shown_in_full(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga("COMPLETED", request={"card": "***"}, redacted=["$.request"]))
        with pytest.raises(Conflict, match="redacted"):
            client.rerun("create-zip", SAGA_ID)
        assert [one.method for one in api.asked] == ["GET"]

    def test_of_one_that_was_purged_says_so(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga("COMPLETED", request=None, purged_at="2026-11-21T09:48:52.000Z"))
        with pytest.raises(Conflict, match="request was purged at 2026-11-21"):
            client.rerun("create-zip", SAGA_ID)
        assert len(api.asked) == 1


class TestResult:
    def test_is_what_it_ended_with(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga("COMPLETED", result="paid"))
        assert client.result("create-zip", SAGA_ID) == "paid"

    def test_of_one_that_was_purged_is_gone(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga("COMPLETED", result=None, purged_at="2026-11-21T09:48:52.000Z"))
        with pytest.raises(Conflict, match=r"purged at 2026-11-21.*its result is deleted"):
            client.result("create-zip", SAGA_ID)


class TestReading:
    def test_show(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga())
        assert client.show("create-zip", SAGA_ID) == a_saga()
        assert asked(api) == ("GET", ONE, None)

    def test_names_are_quoted(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga())
        client.show("a/b c", "?x")
        assert api.asked[0].path == "/v1/sagas/a%2Fb%20c/%3Fx"

    @pytest.mark.parametrize("name", ["", ".", ".."])
    def test_names_that_lead_elsewhere_do_not_exist(self, api: StubApi, client: SagaClient, name: str) -> None:
        with pytest.raises(NotFound):
            client.show(name, SAGA_ID)
        assert api.asked == []

    def test_list_passes_on_what_is_given(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, {"sagas": [], "cursor": None})
        assert client.list() == {"sagas": [], "cursor": None}
        client.list("create-zip", "FAILED", limit=5, cursor="a+b=")
        assert [one.path for one in api.asked] == [
            "/v1/sagas?limit=20",
            "/v1/sagas?type=create-zip&status=FAILED&limit=5&cursor=a%2Bb%3D",
        ]

    def test_attention(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, {"sagas": [a_saga("FAILED", attention=attention("failed"))], "cursor": "next"})
        page = client.attention("create-zip", limit=1)
        assert (page["sagas"][0]["attention"], page["cursor"]) == (attention("failed"), "next")
        assert api.asked[0].path == "/v1/attention?type=create-zip&limit=1"

    def test_audit_reads_all_pages(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, {"entries": [{"seq": 1}, {"seq": 2}], "cursor": "two"})
        api.will(200, {"entries": [{"seq": 3}], "cursor": None})
        assert [entry["seq"] for entry in client.audit("create-zip", SAGA_ID)] == [1, 2, 3]
        assert [one.path for one in api.asked] == [f"{ONE}/audit?limit=100", f"{ONE}/audit?limit=100&cursor=two"]

    def test_verify(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, {"saga_id": SAGA_ID, "verified": True, "entries": 3, "broken": None})
        assert client.verify("create-zip", SAGA_ID)["verified"]
        assert api.asked[0].path == f"{ONE}/verification"

    def test_definitions(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, {"types": [{"type": "pay"}]})
        assert client.types() == [{"type": "pay"}]

    def test_breakers(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, {"breakers": [{"type": "pay", "step": "call"}]})
        assert client.breakers() == [{"type": "pay", "step": "call"}]
        assert asked(api) == ("GET", "/v1/breakers", None)


class TestOperating:
    def test_close_breaker(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, {"type": "pay", "step": "call now", "state": "closed"})
        assert client.close_breaker("pay", "call now")["state"] == "closed"
        assert asked(api) == ("POST", "/v1/breakers/pay/call%20now/close", None)

    def test_cancel(self, api: StubApi, client: SagaClient) -> None:
        api.will(202, a_saga("COMPENSATING"))
        assert client.cancel("create-zip", SAGA_ID)["status"] == "COMPENSATING"
        assert asked(api) == ("DELETE", ONE, None)

    def test_retry(self, api: StubApi, client: SagaClient) -> None:
        api.will(202, a_saga("RUNNING"))
        client.retry("create-zip", SAGA_ID, "topic is back")
        assert asked(api) == ("POST", f"{ONE}/retry", {"reason": "topic is back"})

    @pytest.mark.parametrize(
        ("verb", "arguments", "body"),
        [
            ("retry", (), {"reason": ""}),
            ("compensate", ("n",), {"reason": "n"}),
            ("resolve", ("n",), {"reason": "n", "action": "", "steps": []}),
        ],
    )
    def test_a_call_can_name_a_state(
        self, api: StubApi, client: SagaClient, verb: str, arguments: tuple[str, ...], body: dict[str, Any]
    ) -> None:
        now = a_saga("DEAD_LETTERED", seq=12)
        api.will(409, {**an_error("state_changed", "the saga has changed"), "saga": now})
        with pytest.raises(StateChanged, match="the saga has changed") as raised:
            getattr(client, verb)("create-zip", SAGA_ID, *arguments, seq=9)
        assert raised.value.saga == now
        assert asked(api) == ("POST", f"{ONE}/{verb}", {**body, "seq": 9})

    def test_compensate(self, api: StubApi, client: SagaClient) -> None:
        api.will(202, a_saga("COMPENSATING"))
        client.compensate("create-zip", SAGA_ID)
        assert asked(api) == ("POST", f"{ONE}/compensate", {"reason": ""})

    def test_resolve(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga("FAILED"))
        client.resolve("create-zip", SAGA_ID, "done", "refunded", ["upload"])
        assert asked(api) == (
            "POST", f"{ONE}/resolve", {"reason": "done", "action": "refunded", "steps": ["upload"]},
        )  # fmt: skip

    def test_purge(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga("COMPLETED"))
        client.purge("create-zip", SAGA_ID, "asked for")
        assert asked(api) == ("POST", f"{ONE}/purge", {"reason": "asked for"})

    def test_pause_and_resume(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, {"type": "pay"}).will(200, {"type": "pay"}).will(200, {"type": "pay"})
        client.pause("pay", "why", step="charge", undos=True)
        client.pause("pay", "why", starts_only=True)
        client.resume("pay", saga_id=SAGA_ID)
        body = {"step": None, "saga_id": None, "starts": False, "undos": False, "reason": "why"}
        assert [(call.method, call.path, call.body) for call in api.asked] == [
            ("PUT", "/v1/types/pay", body | {"paused": True, "step": "charge", "undos": True}),
            ("PUT", "/v1/types/pay", body | {"active": False}),
            ("PUT", "/v1/types/pay", {"paused": False, "step": None, "saga_id": SAGA_ID, "reason": ""}),
        ]


class TestSigning:
    def test_the_callers_credentials_sign(self, api: StubApi, client: SagaClient) -> None:
        api.will(200, a_saga())
        client.show("create-zip", SAGA_ID)
        authorization = api.asked[0].headers["Authorization"]
        assert authorization.startswith("AWS4-HMAC-SHA256 Credential=AKIATEST/")
        assert "/eu-central-1/execute-api/aws4_request" in authorization

    def test_the_region_comes_from_the_url(self, session: boto3.Session) -> None:
        client = SagaClient("https://abc.execute-api.ap-south-1.amazonaws.com/v1", session=session)
        assert client.region == "ap-south-1"
        assert SagaClient("https://sagas.example.com", session=session).region == "eu-central-1"
        assert SagaClient("https://sagas.example.com", region="us-west-2", session=session).region == "us-west-2"

    def test_without_a_region(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        with pytest.raises(SagaError, match=r"region of https://sagas\.example\.com is unknown"):
            SagaClient("https://sagas.example.com")

    def test_without_credentials(self, api: StubApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        with pytest.raises(SagaError, match="no AWS credentials"):
            SagaClient(api.url, region="eu-central-1").show("create-zip", SAGA_ID)

    def test_with_a_role_that_may_not_be_taken_on_any_more(self, api: StubApi) -> None:
        def taken_on() -> Any:
            told = {"Code": "ExpiredToken", "Message": "The security token included in the request is expired"}
            raise ClientError({"Error": told}, "AssumeRole")

        source = botocore.session.Session()
        cast("Any", source)._credentials = DeferredRefreshableCredentials(taken_on, "assume-role")
        client = SagaClient(api.url, region="eu-central-1", session=boto3.Session(botocore_session=source))
        with pytest.raises(SagaError, match=r"the AWS credentials cannot be used: .*ExpiredToken.* AssumeRole"):
            client.show("create-zip", SAGA_ID)


class TestLocal:
    def test_reads_where_the_stack_is(self, api: StubApi, tmp_path: Path) -> None:
        api.will(200, a_saga())
        where: dict[str, Any] = {
            "api_url": api.url, "region": "us-east-1", "endpoint_url": "http://127.0.0.1:1", "queues": {},
            "dead_letter_queues": {}, "supervisor": "", "tables": {},
        }  # fmt: skip
        (tmp_path / ".sagas").mkdir()
        (tmp_path / ".sagas" / "local.json").write_text(json.dumps(where))
        assert SagaClient.local(tmp_path).show("create-zip", SAGA_ID)["status"] == "COMPLETED"

    def test_says_so_when_none_is_running(self, tmp_path: Path) -> None:
        with pytest.raises(SagaError, match="no local stack is running"):
            SagaClient.local(tmp_path)

    @pytest.mark.parametrize("text", ["{", "[]", "{}"])
    def test_says_so_when_the_file_is_none_of_ours(self, tmp_path: Path, text: str) -> None:
        (tmp_path / ".sagas").mkdir()
        (tmp_path / ".sagas" / "local.json").write_text(text)
        with pytest.raises(SagaError, match=r"local\.json cannot be read"):
            SagaClient.local(tmp_path)


def test_queues_must_be_known(client: SagaClient) -> None:
    with pytest.raises(SagaError, match="no URLs of queues"):
        client.dead_letters("create-zip")
