"""Dead letters go back as SQS moves them: by a task."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest

from sagas.local.emulator.move_tasks import add_move_tasks

sqs: Any = import_module("ministack.services.sqs")
iam_actions: Any = import_module("ministack.core.iam_actions")


@pytest.fixture(autouse=True)
def _emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqs, "_HANDLERS", dict(sqs._HANDLERS))
    monkeypatch.setattr(iam_actions, "extract_resource_arn", iam_actions.extract_resource_arn)
    sqs.reset()
    add_move_tasks(sqs, iam_actions)


def ask(action: str, **data: Any) -> dict[str, Any]:
    return sqs._HANDLERS[action](data, "")


def queue(name: str, dead_letters: str = "", **attributes: str) -> tuple[str, str]:
    """URL and ARN of a new queue, which gives up what was received twice."""
    if dead_letters:
        attributes["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": dead_letters, "maxReceiveCount": 2})
    url = ask("CreateQueue", QueueName=name, Attributes=attributes)["QueueUrl"]
    return url, ask("GetQueueAttributes", QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def held(url: str, hidden_for: int = 0) -> list[dict[str, Any]]:
    """The messages that can be received."""
    found = sqs._queues[url]
    sqs._dlq_sweep(found)
    return [dict(one) for one in sqs._collect_msgs(found, 10, hidden_for)]


def given_up(url: str, *bodies: str) -> None:
    """Send messages and receive them until their queue gives them up."""
    for body in bodies:
        attributes = {"saga_id": {"DataType": "String", "StringValue": body}}
        ask("SendMessage", QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
    for _ in range(3):
        held(url)


def task_of(arn: str) -> dict[str, Any]:
    (found,) = ask("ListMessageMoveTasks", SourceArn=arn)["Results"]
    return found


def test_each_goes_back_to_where_it_came_from_as_a_new_message() -> None:
    dead, dead_arn = queue("dead")
    (one, _), (other, _) = queue("one", dead_arn), queue("other", dead_arn)
    given_up(one, "a", "b")
    given_up(other, "c")
    before = {message["body"]: message["id"] for message in held(dead)}
    assert sorted(before) == ["a", "b", "c"]
    assert ask("StartMessageMoveTask", SourceArn=dead_arn)["TaskHandle"]
    assert held(dead) == []
    back = held(one) + held(other)
    assert [message["body"] for message in back] == ["a", "b", "c"]
    assert [message["message_attributes"]["saga_id"]["StringValue"] for message in back] == ["a", "b", "c"]
    assert [message["receive_count"] for message in back] == [1, 1, 1]
    assert all(message["id"] != before[message["body"]] for message in back)
    done = task_of(dead_arn)
    assert (done["Status"], done["ApproximateNumberOfMessagesMoved"], "TaskHandle" in done) == ("COMPLETED", 3, False)


def test_to_a_destination_that_is_named() -> None:
    dead, dead_arn = queue("dead")
    one, _ = queue("one", dead_arn)
    other, other_arn = queue("other")
    given_up(one, "a")
    ask("SendMessage", QueueUrl=dead, MessageBody="by hand")
    ask("StartMessageMoveTask", SourceArn=dead_arn, DestinationArn=other_arn)
    assert [message["body"] for message in held(other)] == ["a", "by hand"]
    assert held(one) == []
    assert task_of(dead_arn)["DestinationArn"] == other_arn


def test_one_that_was_sent_there_by_hand_came_from_nowhere() -> None:
    dead, dead_arn = queue("dead")
    one, _ = queue("one", dead_arn)
    given_up(one, "a")
    ask("SendMessage", QueueUrl=dead, MessageBody="by hand")
    ask("StartMessageMoveTask", SourceArn=dead_arn)
    assert [message["body"] for message in held(dead)] == ["by hand"]
    assert [message["body"] for message in held(one)] == ["a"]
    assert (task_of(dead_arn)["Status"], task_of(dead_arn)["FailureReason"]) == (
        "FAILED",
        "CouldNotDetermineMessageSource",
    )


def test_what_somebody_has_received_stays() -> None:
    dead, dead_arn = queue("dead")
    one, _ = queue("one", dead_arn)
    given_up(one, "a")
    assert [message["body"] for message in held(dead, hidden_for=60)] == ["a"]
    ask("StartMessageMoveTask", SourceArn=dead_arn)
    assert held(one) == []
    assert task_of(dead_arn)["ApproximateNumberOfMessagesMoved"] == 0


def test_what_sqs_would_refuse() -> None:
    _, arn = queue("one")
    _, dead_arn = queue("dead")
    queue("other", dead_arn)
    for data, code in (
        ({"SourceArn": arn}, "InvalidParameterValue"),
        ({"SourceArn": f"{arn}-not-there"}, "ResourceNotFoundException"),
        ({"SourceArn": dead_arn, "DestinationArn": f"{arn}-not-there"}, "ResourceNotFoundException"),
    ):
        with pytest.raises(sqs._Err) as refused:
            ask("StartMessageMoveTask", **data)
        assert refused.value.code == code
    with pytest.raises(sqs._Err) as refused:
        ask("CancelMessageMoveTask", TaskHandle="any")
    assert refused.value.code == "ResourceNotFoundException"


def test_iam_decides_by_the_queue_that_is_named() -> None:
    body = json.dumps({"SourceArn": "arn:aws:sqs:us-east-1:000000000000:dead"}).encode()
    for service, asked, resource in (("sqs", body, "arn:aws:sqs:us-east-1:000000000000:dead"), ("sqs", b"{}", "*")):
        found = iam_actions.extract_resource_arn(service, "POST", "/", {}, asked, {}, "us-east-1", "000000000000")
        assert found == resource
