"""The API's errors, and a network's, as the library's own."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from sagas import InvalidRequest, SagaClient, SagaError
from sagas.errors import Ambiguous, Conflict, NotFound, Problem, TooLarge, Unavailable
from tests.unit.client.stub import SAGA_ID, StubApi, a_saga, an_error


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequest),
        (403, SagaError),
        (404, NotFound),
        (409, Conflict),
        (413, TooLarge),
        (422, InvalidRequest),
        (429, Unavailable),
        (503, Unavailable),
        (500, Ambiguous),
        (504, Ambiguous),
    ],
)
def test_statuses(api: StubApi, client: SagaClient, status: int, kind: type[SagaError]) -> None:
    api.will(status, an_error("code", "the saga is COMPLETED"))
    with pytest.raises(SagaError, match="the saga is COMPLETED") as raised:
        client.cancel("create-zip", SAGA_ID)
    assert type(raised.value) is kind


def test_problems_are_listed(api: StubApi, client: SagaClient) -> None:
    details = [{"path": "$.keys", "message": "missing"}, {"path": "$.key", "message": "unknown field"}]
    api.will(422, an_error("invalid_request", "does not fit", details))
    with pytest.raises(InvalidRequest, match="does not fit") as raised:
        client.start("create-zip", {})
    assert raised.value.problems == (Problem("$.keys", "missing"), Problem("$.key", "unknown field"))


def test_retry_after_is_told(api: StubApi, client: SagaClient) -> None:
    api.will(503, an_error("disabled", "starting create-zip is disabled"), {"Retry-After": "60"})
    with pytest.raises(Unavailable, match="disabled") as raised:
        client.start("create-zip", {})
    assert raised.value.retry_after == 60


def test_a_failed_read_is_never_ambiguous(api: StubApi, client: SagaClient) -> None:
    api.will(502, b"<html>bad gateway</html>")
    with pytest.raises(Unavailable, match="answered 502") as raised:
        client.show("create-zip", SAGA_ID)
    assert type(raised.value) is Unavailable


@pytest.mark.parametrize("body", [b"", b"<html>", b'"text"', b"[]", b'{"error": "text"}', b'{"message": "Forbidden"}'])
def test_an_error_that_is_not_the_apis(api: StubApi, client: SagaClient, body: bytes) -> None:
    api.will(403, body)
    with pytest.raises(SagaError, match="403"):
        client.show("create-zip", SAGA_ID)


def test_an_answer_that_is_not_the_apis(api: StubApi, client: SagaClient) -> None:
    api.will(200, b"<html>welcome</html>")
    with pytest.raises(SagaError, match="check that the URL is that of a saga API"):
        client.show("create-zip", SAGA_ID)


def test_a_read_that_was_hung_up_on_is_tried_again(api: StubApi, client: SagaClient) -> None:
    api.will_hang_up().will(200, a_saga())
    assert client.show("create-zip", SAGA_ID)["status"] == "COMPLETED"


def test_a_write_that_was_hung_up_on_is_ambiguous_and_not_repeated(api: StubApi, client: SagaClient) -> None:
    api.will_hang_up().will(202, a_saga())
    with pytest.raises(Ambiguous, match=r"^no response from .*; the request may or may not have taken effect$"):
        client.start("create-zip", {})
    assert len(api.asked) == 1


@pytest.mark.parametrize("call", ["start", "show"])
def test_nobody_there(session: boto3.Session, call: str) -> None:
    client = SagaClient("http://127.0.0.1:1/v1", session=session)
    arguments: dict[str, tuple[Any, ...]] = {"start": ("create-zip", {}), "show": ("create-zip", SAGA_ID)}
    with pytest.raises(Unavailable, match="out of reach") as raised:
        getattr(client, call)(*arguments[call])
    assert type(raised.value) is Unavailable
