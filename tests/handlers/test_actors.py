"""Who did it: the actor of every audited operation, for each way in which API Gateway knows a caller."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sagas.handlers.http.inputs import actor_of
from tests.handlers.conftest import Make, request
from tests.support.sagas import FAIL, Fatal, Stubborn, Trip

SUB = "6f1c2f6e-8d0b-4b56-9d6e-5b0f2f0c9f11"
SESSION = "arn:aws:sts::123456789012:assumed-role/Operators/ann"
POOLED = "arn:aws:sts::123456789012:assumed-role/Shoppers/CognitoIdentityCredentials"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4iLCJlbWFpbCI6ImFubkBleGFtcGxlLm9yZyJ9.c2lnbmF0dXJl"
CLAIMS = {
    "sub": SUB,
    "cognito:username": "ann",
    "email": "ann@example.org",
    "name": "Ann Example",
    "iss": "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_AbCdEf",
}
NOBODY = {"userArn": None, "caller": None, "user": None, "cognitoIdentityId": None}


@pytest.mark.parametrize(
    ("context", "actor"),
    [
        pytest.param({"identity": {"userArn": SESSION, "caller": "AROAX:ann"}}, SESSION, id="session of a role"),
        pytest.param(
            {"identity": {"userArn": POOLED, "cognitoIdentityId": "eu-central-1:1b2c"}},
            f"{POOLED}#eu-central-1:1b2c",
            id="identity pool",
        ),
        pytest.param({"identity": {"userArn": None, "caller": "AIDAX"}}, "AIDAX", id="no ARN"),
        pytest.param({"identity": NOBODY, "authorizer": {"claims": CLAIMS}}, f"cognito:{SUB}", id="user pool"),
        pytest.param(
            {"identity": NOBODY, "authorizer": {"claims": {"username": "ann", "email": "ann@example.org"}}},
            "cognito:ann",
            id="user pool without sub",
        ),
        pytest.param(
            {"identity": NOBODY, "authorizer": {"principalId": "user|17", "email": "ann@example.org", "latency": 3}},
            "authorizer:user|17",
            id="Lambda authorizer",
        ),
        pytest.param({"authorizer": {"principalId": "supervisor"}}, "authorizer:supervisor", id="poses as supervisor"),
        pytest.param({"authorizer": {"principalId": SESSION}}, f"authorizer:{SESSION}", id="poses as a role"),
        pytest.param({"authorizer": {"principalId": 17}}, "authorizer:17", id="a number"),
        pytest.param({"authorizer": {"claims": "sub", "principalId": "ann"}}, "authorizer:ann", id="claims are a text"),
        pytest.param({"authorizer": {"principalId": JWT}}, "authorizer:withheld", id="token"),
        pytest.param({"authorizer": {"principalId": f"Bearer {JWT}"}}, "authorizer:withheld", id="header"),
        pytest.param({"authorizer": {"principalId": ""}, "identity": NOBODY}, "anonymous", id="nobody"),
        pytest.param({}, "anonymous", id="nothing"),
        pytest.param({"identity": "ann", "authorizer": ["ann"]}, "anonymous", id="no objects"),
        pytest.param({"identity": {"userArn": {}}, "authorizer": {"claims": {"sub": []}}}, "anonymous", id="no texts"),
    ],
)
def test_the_actor(context: dict[str, Any], actor: str) -> None:
    assert actor_of(context) == actor


@pytest.mark.parametrize("principal", ["p" * 201, "ann\nsupervisor", "ann\u202e", "half \ud83d"])
def test_what_is_no_plain_identifier_becomes_its_digest(principal: str) -> None:
    actor = actor_of({"authorizer": {"principalId": principal}})
    assert re.fullmatch(r"authorizer:sha256:[0-9a-f]{64}", actor)
    assert actor == actor_of({"authorizer": {"principalId": principal}})
    assert actor != actor_of({"authorizer": {"principalId": principal + "x"}})


def _as_shopper(method: str, path: str, body: Any = None) -> dict[str, Any]:
    event = request(method, path, body)
    event["requestContext"]["identity"] |= NOBODY
    event["requestContext"]["authorizer"] = {"claims": CLAIMS, "scopes": None}
    event["headers"]["Authorization"] = JWT
    return event


def test_every_audited_operation_names_the_caller_and_keeps_nothing_else_of_the_claims(
    site: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    s = site(Trip, Stubborn, Fatal)
    FAIL.update(second=99)

    def act(method: str, path: str, body: Any = None) -> str:
        answer = s.send(_as_shopper(method, path, body))
        assert answer.status < 300
        return f"{path}/{answer.body['saga_id']}" if "saga_id" in answer.body else path

    trip, stubborn, fatal = (act("POST", f"/sagas/{name}", {"item": "train"}) for name in ("trip", "stubborn", "fatal"))
    act("DELETE", trip)
    s.run()
    act("POST", f"{stubborn}/retry", {"reason": "again"})
    s.run()
    act("POST", f"{stubborn}/compensate", {"reason": "enough"})
    act("POST", f"{fatal}/resolve", {"reason": "by hand"})
    act("PUT", "/types/fatal", {"active": False, "reason": "rest"})
    s.clock.time += 60
    act("POST", f"{trip}/purge", {"reason": "asked for"})

    def actor(path: str, action: str) -> str:
        entries = s.call("GET", f"{path}/audit", limit="100").body["entries"]
        (found,) = {entry["actor"] for entry in entries if entry["action"] == action}
        return found

    asked = [(trip, "SagaStarted"), (trip, "CancelRequested"), (trip, "SagaPurged"), (stubborn, "SagaStarted")]
    asked += [(stubborn, "SagaRetried"), (stubborn, "CompensationStarted"), (fatal, "SagaResolved")]
    assert {actor(path, action) for path, action in asked} == {f"cognito:{SUB}"}
    assert actor(fatal, "SagaFailed") == "worker"
    assert s.call("GET", "/types/fatal").body["pauses"][0]["by"] == f"cognito:{SUB}"
    kept = str(s.tables()) + capsys.readouterr().out
    for secret in ("ann@example.org", "Ann Example", JWT):
        assert secret not in kept
