"""Dead letters: seen without being taken, and moved back by SQS."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any, cast

import pytest
from botocore.stub import Stubber

from sagas.client.operate.dead_letters import DeadLetterQueue
from sagas.errors import SagaError, Unavailable
from sagas.messaging.message import CarriedInput, Message, PendingCommit

ARN = "arn:aws:sqs:eu-central-1:123456789012"
THREE = "01a206b8-c3e1-7000-8000-000000000003"


class Queues:
    """A dead-letter queue with two messages of ours and a stranger."""

    def __init__(self, sqs: Any) -> None:
        self.sqs = sqs
        self.dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
        self.queue = DeadLetterQueue(sqs, self.dead)

    def send(self, saga_id: str, step: str) -> None:
        named = {"saga": "create-zip", "saga_id": saga_id, "step": step}
        attributes = {name: {"DataType": "String", "StringValue": value} for name, value in named.items()}
        body = f'{{"saga_id":"{saga_id}","index":1}}'
        self.sqs.send_message(QueueUrl=self.dead, MessageBody=body, MessageAttributes=attributes)

    def received(self, url: str) -> list[dict[str, Any]]:
        answer = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"])
        return answer.get("Messages", [])


@pytest.fixture
def queues(sqs: Any) -> Queues:
    made = Queues(sqs)
    made.send("one", "upload")
    made.send("two", "announce")
    sqs.send_message(QueueUrl=made.dead, MessageBody="hello")
    return made


def test_a_rejected_command_has_the_reason_and_no_data(queues: Queues) -> None:
    body = json.dumps({"action": "start", "type": "checkout", "request": {"card": "4111"}, "costumer": "4111"})
    reason = {"reason": {"DataType": "String", "StringValue": "$.costumer: unknown field"}}
    queues.sqs.send_message(QueueUrl=queues.dead, MessageBody=body, MessageAttributes=reason)
    (letter,) = [each for each in queues.queue.peek(100) if "costumer" in each.reason]
    assert letter.reason == "$.costumer: unknown field"
    assert json.loads(letter.body) == {"action": "start", "type": "checkout", "request": "***", "costumer": "***"}


def test_a_rejected_message_is_named_by_its_attributes(queues: Queues) -> None:
    """A message of a user's queue has fields of the same names, and a rejected event has paths instead of values."""
    queues.received(queues.dead)
    mine: dict[str, Any] = {"type": "mine", "saga_id": "mine", "step": "mine", "n": 1}
    event: dict[str, Any] = {
        "command": "signal_on",
        "type": "loan",
        "step": "approval",
        "saga_id": "$.detail.saga_id",
        "event": {},
    }
    for body, attributes in (
        (mine, {"source": "arn:aws:sqs:eu-central-1:123456789012:own", "type": "trip", "command": "start_on"}),
        (event, {"type": "loan", "step": "approval", "command": "signal_on"}),
        (event, {"type": "loan", "step": "approval", "command": "signal_on", "saga_id": THREE}),
    ):
        named = {name: {"DataType": "String", "StringValue": text} for name, text in attributes.items()}
        named["reason"] = {"DataType": "String", "StringValue": "no"}
        queues.sqs.send_message(QueueUrl=queues.dead, MessageBody=json.dumps(body), MessageAttributes=named)
    letters = queues.queue.peek(100)
    assert {(letter.saga, letter.step, letter.saga_id) for letter in letters} == {
        ("trip", "", ""), ("loan", "approval", ""), ("loan", "approval", THREE),
    }  # fmt: skip
    assert [json.loads(letter.body) for letter in letters if letter.saga == "trip"] == [dict.fromkeys(mine, "***")]


def test_rejected_commands_return_to_their_queue(queues: Queues) -> None:
    """The function has sent them, so SQS does not know where they came from, and would move none."""
    commands = queues.sqs.create_queue(QueueName="commands")["QueueUrl"]
    letters = DeadLetterQueue(queues.sqs, queues.dead, commands)
    asked = {"SourceArn": f"{ARN}:dead", "DestinationArn": f"{ARN}:commands"}
    with Stubber(queues.sqs) as stubber:
        stub = cast("Any", stubber)
        for name in ("commands", "dead"):
            stub.add_response("get_queue_attributes", {"Attributes": {"QueueArn": f"{ARN}:{name}"}})
        stub.add_response("start_message_move_task", {"TaskHandle": "handle"}, asked)
        assert letters.redrive() == "handle"


def test_peeking_tells_whose_they_are_and_leaves_them(queues: Queues) -> None:
    first, second = queues.queue.peek(100), queues.queue.peek(100)
    assert {(letter.saga, letter.saga_id, letter.step) for letter in first} == {
        ("create-zip", "one", "upload"), ("create-zip", "two", "announce"), ("", "", ""),
    }  # fmt: skip
    assert {letter.message_id for letter in second} == {letter.message_id for letter in first}
    assert [letter.receives for letter in second] == [2, 2, 2]
    assert len(queues.received(queues.dead)) == 3


def test_no_request_and_no_result_is_shown_in_a_body(queues: Queues) -> None:
    queues.received(queues.dead)
    carried = (CarriedInput(1, "aa", "bb", '{"card":"4111111111111111"}'), CarriedInput(2, "cc"))
    pending = PendingCommit("StepCompleted", 1, 1, 1, "x", {}, payload='{"pin":"0042"}')
    message = Message(THREE, "create-zip", "upload", 1, False, 4, inputs=carried, pending_commit=pending)
    queues.sqs.send_message(QueueUrl=queues.dead, MessageBody=message.body)
    (letter,) = queues.queue.peek(100)
    body = json.loads(letter.body)
    assert body["inputs"] == [[1, "aa", "bb", "***"], [2, "cc", "", None, []]]
    assert body["commit"]["payload"] == "***"
    assert (letter.number, letter.reason) == ((4, 0), "")


def test_no_text_that_may_quote_a_value_is_shown_in_a_body(queues: Queues) -> None:
    queues.received(queues.dead)
    details = {"error": {"type": "Refused", "message": "pin 0042"}, "stack_trace": "pin 0042", "permanent": True}
    for action, told in (("StepFailed", details), ("StepPostponed", {"message": "pin 0042", "after": 1.0})):
        pending = PendingCommit(action, 1, 1, 1, "x", told)
        message = Message(THREE, "create-zip", "upload", 1, False, 4, pending_commit=pending)
        queues.sqs.send_message(QueueUrl=queues.dead, MessageBody=message.body)
    bodies = {json.loads(letter.body)["commit"]["action"]: letter.body for letter in queues.queue.peek(100)}
    assert "0042" not in "".join(bodies.values())
    assert json.loads(bodies["StepFailed"])["commit"]["details"] == {
        "error": {"type": "Refused", "message": "***"},
        "stack_trace": "***",
        "permanent": True,
    }


def test_one_that_is_nested_too_deeply_is_like_any_other_that_no_function_could_read(queues: Queues) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    sent = queues.sqs.send_message(QueueUrl=queues.dead, MessageBody=deep)["MessageId"]
    (letter,) = [one for one in queues.queue.peek(100) if one.message_id == sent]
    assert (letter.saga_id, letter.body) == ("", deep)
    assert letter.reason
    taken = queues.queue.take(sent)
    assert taken is not None
    assert taken.body == deep


def test_peeking_stops_at_the_limit(queues: Queues) -> None:
    for number in range(12):
        queues.send(f"more {number}", "upload")
    assert len(queues.queue.peek(11)) == 11
    assert len(queues.queue.peek(100)) == 15


class TestTask:
    """SQS's own task, which moto does not have."""

    @pytest.fixture
    def stubbed(self, sqs: Any) -> Generator[Any]:
        with cast("Any", Stubber(sqs)) as stubber:
            stubber.add_response("get_queue_attributes", {"Attributes": {"QueueArn": "arn:dead"}})
            yield stubber

    def test_is_started_for_all_messages(self, stubbed: Any) -> None:
        stubbed.add_response("start_message_move_task", {"TaskHandle": "handle"}, {"SourceArn": "arn:dead"})
        assert DeadLetterQueue(stubbed.client, "https://dead").redrive() == "handle"

    def test_that_is_refused_is_an_error(self, stubbed: Any) -> None:
        stubbed.add_client_error("start_message_move_task", "AccessDenied", "not you")
        with pytest.raises(SagaError, match="SQS StartMessageMoveTask: AccessDenied: not you"):
            DeadLetterQueue(stubbed.client, "https://dead").redrive()

    def test_that_is_throttled_may_be_tried_later(self, stubbed: Any) -> None:
        stubbed.add_client_error("start_message_move_task", "RequestThrottled")
        with pytest.raises(Unavailable):
            DeadLetterQueue(stubbed.client, "https://dead").redrive()
