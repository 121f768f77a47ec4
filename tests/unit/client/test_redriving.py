"""A redrive says who it was: where messages are moved one by one, and no other way."""

from __future__ import annotations

from typing import Any, cast

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import EndpointConnectionError

from sagas import SagaClient
from sagas.client.endpoints import ServiceEndpoints
from sagas.errors import InvalidRequest

BY, REASON = "redriven_by", "redrive_reason"


class Desk:
    """A client of two queues in process, and what it asked AWS for."""

    def __init__(self, sqs: Any, session: boto3.Session) -> None:
        self.sqs = sqs
        self.dead, self.upload = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("dead", "upload"))
        where = ServiceEndpoints(queues={"zip": {"upload": self.upload}}, dead_letter_queues={"zip": self.dead})
        self.client = SagaClient("https://127.0.0.1/v1", region="eu-central-1", session=session, endpoints=where)
        for saga_id in ("one", "two"):
            named = {"saga": "zip", "saga_id": saga_id, "step": "upload"}
            attributes = {name: {"DataType": "String", "StringValue": value} for name, value in named.items()}
            sqs.send_message(QueueUrl=self.dead, MessageBody="{}", MessageAttributes=attributes)

    def moved(self) -> list[dict[str, str]]:
        """The attributes of what is in the step's queue, in order of the sagas."""
        options = {"MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]}
        found = self.sqs.receive_message(QueueUrl=self.upload, **options).get("Messages", [])
        told = [{name: value["StringValue"] for name, value in one["MessageAttributes"].items()} for one in found]
        return sorted(told, key=lambda one: one["saga_id"])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that AWS is asked for; SQS moves messages itself, which moto does not know."""
    seen: list[str] = []
    send = cast("Any", BaseClient)._make_api_call

    def listening(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        seen.append(operation)
        if operation == "StartMessageMoveTask":
            return {"TaskHandle": "handle"}
        return send(self, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", listening)
    return seen


@pytest.fixture
def desk(asked: list[str], sqs: Any, session: boto3.Session) -> Desk:
    return Desk(sqs, session)


def test_one_by_one_the_copies_name_the_caller(desk: Desk, session: boto3.Session, asked: list[str]) -> None:
    mine = str(cast("Any", session).client("sts").get_caller_identity()["Arn"])
    asked.clear()
    desk.client.redrive("zip", "one")
    desk.client.redrive("zip", "two", reason="it is up")
    first, second = desk.moved()
    assert (first[BY], REASON in first) == (mine, False)
    assert (second[BY], second[REASON]) == (mine, "it is up")
    assert asked.count("GetCallerIdentity") == 1


def test_all_are_moved_by_sqs_which_names_none(desk: Desk, asked: list[str]) -> None:
    assert desk.client.redrive("zip").task == "handle"
    assert "GetCallerIdentity" not in asked


def test_a_note_has_all_moved_one_by_one(desk: Desk, asked: list[str]) -> None:
    done = desk.client.redrive("zip", reason="it is up")
    assert (done.task, len(done.moved), "StartMessageMoveTask" in asked) == (None, 2, False)
    assert [one[REASON] for one in desk.moved()] == ["it is up"] * 2


def test_where_sts_is_away_they_are_moved_without_a_name(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    send = cast("Any", BaseClient)._make_api_call

    def away(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        if operation == "GetCallerIdentity":
            raise EndpointConnectionError(endpoint_url="https://sts")
        return send(self, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", away)
    desk.client.redrive("zip", "one", reason="it is up")
    (moved,) = desk.moved()
    assert (BY in moved, moved[REASON]) == (False, "it is up")


def test_a_note_that_is_too_long_moves_nothing(desk: Desk) -> None:
    with pytest.raises(InvalidRequest, match="the reason is too long"):
        desk.client.redrive("zip", reason="x" * 4_001)
    assert desk.moved() == []
