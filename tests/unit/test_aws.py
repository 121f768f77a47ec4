"""Clients of one session, and errors of AWS as this library's."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest
from botocore import exceptions as botocore
from botocore.config import Config

from sagas.aws import BEST_EFFORT, HOT, STEPS, VALIDATE, connect, translated
from sagas.errors import Ambiguous, Denied, SagaError, Unavailable
from sagas.local.files import Files
from sagas.local.process import environment_of

REGION = "eu-central-1"


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "first")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)


def _key(client: Any) -> str:
    return client._request_signer._credentials.access_key


def test_a_client_is_made_once() -> None:
    assert connect("sqs", HOT) is connect("sqs", HOT)
    assert connect("sqs", HOT) is not connect("sqs", STEPS)
    assert connect("sqs", HOT, region="eu-west-1").meta.region_name == "eu-west-1"


def test_any_service_has_a_client() -> None:
    for service in ("dynamodb", "kms", "s3", "secretsmanager", "stepfunctions", "ses"):
        assert connect(service, STEPS).meta.service_model.operation_names
    with pytest.raises(SagaError, match=r"Unknown service: 'nothing'.*dynamodb, "):
        connect("nothing", STEPS)


@pytest.mark.parametrize("config", [HOT, BEST_EFFORT])
def test_a_request_of_a_wrong_shape_is_found_by_any_test(config: Config) -> None:
    with pytest.raises(SagaError, match="ParamValidationError"), translated("SQS"):
        connect("sqs", config).send_message(QueueUrl="https://sqs.example/q", MessageBody="{}", Delay="soon")


def test_requests_are_validated_only_where_it_is_asked_for() -> None:
    ask = f"import os; os.environ.pop('{VALIDATE}'); from sagas.aws import HOT; print(HOT.parameter_validation)"
    assert subprocess.check_output([sys.executable, "-c", ask], text=True) == "False\n"


def test_functions_on_the_emulator_validate_requests_as_the_tests_do(tmp_path: Path) -> None:
    assert environment_of(Files(tmp_path), 4566, None)[VALIDATE] == os.environ[VALIDATE]


def test_others_credentials_have_clients_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    first = connect("sqs", HOT)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "second")
    assert (_key(first), _key(connect("sqs", HOT))) == ("first", "second")


def test_several_threads_may_ask_for_clients() -> None:
    made: list[Any] = []
    threads = [Thread(target=lambda: made.append(connect("s3", HOT, region="eu-west-3"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len(set(map(id, made))) == 1


def test_a_hot_client_sends_its_user_agent_as_it_is() -> None:
    sent: list[Any] = []

    def stop(request: Any, **_: Any) -> None:
        sent.append(request.headers["User-Agent"])
        raise LookupError

    client = connect("sqs", HOT, region="eu-west-2")
    client.meta.events.register("before-send.sqs.ListQueues", stop)
    with pytest.raises(LookupError):
        client.list_queues()
    assert sent[0].startswith(b"lambda-sagas ")
    assert b"lang/python" not in sent[0]


@pytest.mark.parametrize("config", [HOT, STEPS], ids=["hot", "steps"])
def test_a_request_names_its_host_once_and_signs_it(config: Config) -> None:
    sent: list[Message] = []

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(self.headers)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        answering = Thread(target=server.handle_request)
        answering.start()
        connect("sqs", config, endpoint_url=f"http://127.0.0.1:{server.server_port}").list_queues()
        answering.join()
    assert sent[0].get_all("Host") == [f"127.0.0.1:{server.server_port}"]
    assert "host" in sent[0]["Authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")


@pytest.mark.parametrize(
    "endpoint", ["https://sqs.us-east-1.amazonaws.com", "http://me@127.0.0.1:4566", "http://[::1]:4566"]
)
def test_a_hot_client_signs_what_botocore_would_sign_by_itself(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    signed: list[str] = []
    now = datetime(2026, 11, 23, tzinfo=UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda remove_tzinfo=True: now)

    def stop(request: Any, **_: Any) -> None:
        signed.append(request.headers["Authorization"])
        raise LookupError

    for config in (HOT, STEPS):
        client = connect("sqs", config, endpoint_url=endpoint)
        client.meta.events.register("before-send.sqs.ListQueues", stop)
        with pytest.raises(LookupError):
            client.list_queues()
    assert signed[0] == signed[1]


def test_without_a_region_there_is_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(SagaError, match="sqs: You must specify a region"):
        connect("sqs", HOT)


def _refused(code: str, message: str = "") -> Exception:
    answer: Any = {"Error": {"Code": code, "Message": message}}
    return cast("Any", botocore.ClientError)(answer, "UpdateItem")


def _raised(error: Exception, **options: Any) -> SagaError:
    with pytest.raises(SagaError) as caught, translated("DynamoDB", **options):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


@pytest.mark.parametrize(
    "code",
    [
        *("ThrottlingException", "SlowDown", "RequestThrottled", "ServiceUnavailable"),
        *("KMS.ThrottlingException", "KeyUnavailableException", "DependencyTimeoutException"),
    ],
)
def test_what_is_refused_for_now_may_be_tried_later(code: str) -> None:
    found = _raised(_refused(code), lost=Ambiguous)
    assert type(found) is Unavailable
    assert str(found) == f"DynamoDB UpdateItem: {code}"


@pytest.mark.parametrize(
    "code",
    [
        *("InternalServerError", "InternalError", "500", "503", "RequestTimeout"),
        *("KMSInternalException", "InternalServiceError", "InternalException"),
    ],
)
def test_what_aws_cannot_tell_is_lost(code: str) -> None:
    assert type(_raised(_refused(code))) is Unavailable
    assert type(_raised(_refused(code), lost=Ambiguous)) is Ambiguous


@pytest.mark.parametrize("code", ["AccessDeniedException", "ValidationException", "ResourceNotFoundException"])
def test_what_will_be_refused_again_is_not_unavailable(code: str) -> None:
    found = _raised(_refused(code, "not you"))
    assert not isinstance(found, Unavailable)
    assert str(found) == f"DynamoDB UpdateItem: {code}"
    assert str(_raised(_refused(code, "not you"), quoted=True)) == f"DynamoDB UpdateItem: {code}: not you"


@pytest.mark.parametrize(
    ("code", "right"),
    [("AccessDeniedException", "dynamodb:UpdateItem on t"), ("ResourceNotFoundException", ""), ("SomethingNew", "")],
)
def test_a_refusal_that_may_end_is_denied_and_not_ambiguous(code: str, right: str) -> None:
    found = _raised(_refused(code), lost=Ambiguous, resource=lambda: "t")
    assert type(found) is Denied
    assert (str(found), found.right) == (f"DynamoDB UpdateItem: {code}", right)
    assert type(_raised(botocore.NoCredentialsError(), resource=lambda: "t")) is Denied


@pytest.mark.parametrize("code", ["ValidationException", "NoSuchKey"])
def test_what_the_request_itself_is_to_blame_for_is_not_denied(code: str) -> None:
    assert type(_raised(_refused(code), resource=lambda: "t")) is SagaError
    invalid = cast("Any", botocore.ParamValidationError)(report="no")
    assert type(_raised(invalid, resource=lambda: "t")) is SagaError


@pytest.mark.parametrize(
    "error",
    [
        cast("Any", botocore.ConnectTimeoutError)(endpoint_url="https://aws"),
        cast("Any", botocore.ReadTimeoutError)(endpoint_url="https://aws"),
        cast("Any", botocore.EndpointConnectionError)(endpoint_url="https://aws"),
        cast("Any", botocore.ConnectionClosedError)(endpoint_url="https://aws"),
    ],
)
def test_nobody_answers(error: Exception) -> None:
    assert type(_raised(error)) is Unavailable
    found = _raised(error, lost=Ambiguous)
    assert type(found) is Ambiguous
    assert str(found) == f"DynamoDB is out of reach: {type(error).__name__}"


@pytest.mark.parametrize("error", [botocore.NoCredentialsError(), botocore.NoRegionError()])
def test_what_was_never_asked_is_not_unavailable(error: Exception) -> None:
    found = _raised(error, lost=Ambiguous)
    assert not isinstance(found, Unavailable)
    assert str(found) == f"DynamoDB: {type(error).__name__}"
    assert str(_raised(error, quoted=True)) == f"DynamoDB: {error}"
