"""The supervisor called by hand: what is asked of Lambda, and what its answers mean."""

from __future__ import annotations

import io
import json
from collections.abc import Generator
from typing import Any, cast

import boto3
import pytest
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from botocore.stub import Stubber

from sagas import SagaClient
from sagas.client.endpoints import ServiceEndpoints
from sagas.engine.sweep.orphans import COUNTS
from sagas.errors import InvalidRequest, NotFound, SagaError, Unavailable

NAME = "shop-Supervisor"
RECOVERED: dict[str, Any] = {
    "recovered": 1,
    "given_up": 0,
    "untouched": 2,
    "failed": 0,
    "remaining": 0,
    "saga_ids": ["a"],
}


@pytest.fixture
def stubber(session: boto3.Session) -> Generator[Any]:
    """Lambda that answers as it is told."""
    with cast("Any", Stubber)(cast("Any", session).client("lambda", "eu-central-1")) as stub:
        yield stub
        stub.assert_no_pending_responses()


def _caller(lambda_: Any) -> SagaClient:
    """A client whose session has this client of Lambda, and keeps what it was asked for."""

    class Session:
        region_name = "eu-central-1"
        asked: dict[str, Any]

        def client(self, service: str, **asked: Any) -> Any:
            self.asked = {"service": service, **asked}
            return lambda_

    url = "https://127.0.0.1/v1"
    return SagaClient(url, session=cast("Any", Session()), endpoints=ServiceEndpoints(url, supervisor=NAME))


@pytest.fixture
def supervisor(stubber: Any) -> SagaClient:
    return _caller(stubber.client)


def _will(stubber: Any, event: Any, answer: Any, **further: Any) -> None:
    asked = {"FunctionName": NAME, "Payload": json.dumps(event).encode()}
    payload = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    stubber.add_response("invoke", {"Payload": io.BytesIO(payload), "StatusCode": 200, **further}, asked)


def _report(**fields: Any) -> dict[str, Any]:
    counts = dict.fromkeys(COUNTS, 0)
    named: dict[str, Any] = {
        "type": "zip",
        "prefix": "zips/",
        "dry_run": False,
        "action": "delete",
        "bucket": "zips",
        "sample": {},
    }
    return {**counts, **named, "finished": True, "start_after": "", "stopped": "", "error": "", **fields}


def _sweep_event(start_after: str = "") -> dict[str, Any]:
    fixed = {"task": "sweep", "now": True, "seconds": 15.0, "type": "zip"}
    return {**fixed, "start_after": start_after, "dry_run": False, "force": False}


def test_recovers_each_type_by_its_own_patience(stubber: Any, supervisor: SagaClient) -> None:
    _will(stubber, {"task": "recover"}, RECOVERED)
    assert supervisor.recover() == RECOVERED


def test_recovers_with_the_patience_given(stubber: Any, supervisor: SagaClient) -> None:
    _will(stubber, {"task": "recover", "stale_after": 0.0}, RECOVERED)
    assert supervisor.recover(stale_after=0.0) == RECOVERED


def test_recovers_what_is_asked_for(stubber: Any, supervisor: SagaClient) -> None:
    _will(stubber, {"task": "recover", "saga_id": "a", "limit": 5, "max_attempts": 0}, RECOVERED)
    assert supervisor.recover(saga_id="a", limit=5, max_attempts=0) == RECOVERED


def test_sweeps_to_the_end_and_adds_up(stubber: Any, supervisor: SagaClient) -> None:
    first = _report(listed=3, orphans=1, deleted=1, sample={"orphans": ["k1"]}, finished=False, start_after="k3")
    _will(stubber, _sweep_event(), {"swept": [first]})
    _will(stubber, _sweep_event("k3"), {"swept": [_report(listed=2, orphans=1, sample={"orphans": ["k4"]})]})
    assert supervisor.sweep("zip", dry_run=False, force=False) == _report(
        listed=5, orphans=2, deleted=1, sample={"orphans": ["k1", "k4"]}
    )


def test_a_sweep_that_gets_nowhere_ends(stubber: Any, supervisor: SagaClient) -> None:
    _will(stubber, _sweep_event(), {"swept": [_report(finished=False)]})
    with pytest.raises(SagaError, match="no time to sweep"):
        supervisor.sweep("zip", dry_run=False, force=False)


def test_a_caller_without_access_learns_which_permission_is_missing(stubber: Any, supervisor: SagaClient) -> None:
    message = "User: arn:aws:iam::1:user/ann is not authorized to perform: lambda:InvokeFunction"
    stubber.add_client_error("invoke", "AccessDeniedException", message, 403)
    with pytest.raises(SagaError, match=rf"needs lambda:InvokeFunction on {NAME} \({message}\)") as caught:
        supervisor.recover()
    assert type(caught.value) is SagaError


@pytest.mark.parametrize(("raised", "error"), [("NotFound", NotFound), ("InvalidRequest", InvalidRequest)])
def test_an_error_that_the_caller_can_fix_is_raised_as_it_was(
    stubber: Any, supervisor: SagaClient, raised: str, error: type[SagaError]
) -> None:
    answer = {"errorType": raised, "errorMessage": "this service has no saga type 'zip'"}
    _will(stubber, _sweep_event(), answer, FunctionError="Unhandled")
    with pytest.raises(error, match=r"^this service has no saga type 'zip'$"):
        supervisor.sweep("zip", dry_run=False, force=False)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            {"errorType": "Sandbox.Timedout", "errorMessage": "Task timed out after 300.00 seconds"},
            "failed: Task timed",
        ),
        ({}, "failed: no reason in its response"),
        (b"not json", f"{NAME} is not a supervisor: its response is not a JSON object"),
        ([1], f"{NAME} is not a supervisor: its response is not a JSON object"),
    ],
)
def test_a_function_that_fails(stubber: Any, supervisor: SagaClient, answer: Any, message: str) -> None:
    _will(stubber, {"task": "recover"}, answer, FunctionError="Unhandled")
    with pytest.raises(SagaError, match=message):
        supervisor.recover()


@pytest.mark.parametrize("code", ["TooManyRequestsException", "ServiceException"])
def test_throttled_or_out_of_order_it_is_worth_another_try(stubber: Any, supervisor: SagaClient, code: str) -> None:
    stubber.add_client_error("invoke", code, "later")
    with pytest.raises(Unavailable, match=code):
        supervisor.recover()


@pytest.mark.parametrize("error", [ConnectTimeoutError, ReadTimeoutError])
def test_out_of_reach(error: type[Exception]) -> None:
    class Away:
        def invoke(self, **_: Any) -> Any:
            raise cast("Any", error)(endpoint_url="https://lambda")

    with pytest.raises(Unavailable, match=r"Lambda is out of reach: .* timeout on endpoint URL: \"https://lambda\""):
        _caller(Away()).recover()


def test_it_is_called_once_and_waited_for(stubber: Any, supervisor: SagaClient) -> None:
    _will(stubber, {"task": "recover"}, RECOVERED)
    supervisor.recover()
    asked = cast("Any", supervisor)._session.asked
    assert (asked["service"], asked["region_name"]) == ("lambda", "eu-central-1")
    assert asked["config"].retries["total_max_attempts"] == 1
    assert asked["config"].read_timeout > 300


def test_a_client_that_knows_the_api_only(session: boto3.Session) -> None:
    client = SagaClient("https://127.0.0.1/v1", session=session, endpoints=ServiceEndpoints("https://127.0.0.1/v1"))
    for call in (client.recover, lambda: client.sweep("zip")):
        with pytest.raises(SagaError, match="no name of a supervisor"):
            call()


def test_it_tells_how_sweeps_stand(supervisor: SagaClient, stubber: Any) -> None:
    told = {"type": "zip", "round": 3, "stopped": ""}
    _will(stubber, {"task": "sweeps"}, {"sweeps": [told]})
    assert supervisor.sweeps() == [told]
