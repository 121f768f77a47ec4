"""The audit trail tells who redrove a saga and why, where the message that came back says so."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from sagas import SagaClient
from sagas.client.endpoints import ServiceEndpoints
from tests.support.aws import REGION, client
from tests.support.bench import Bench, Make
from tests.support.sagas import FAIL, LOG, Stubborn

ANN = "arn:aws:iam::123456789012:user/ann"

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture
def dead(deployed: Make, monkeypatch: pytest.MonkeyPatch) -> tuple[Bench, str]:
    """A saga that waits with a dead letter, and whose step would work by now."""
    monkeypatch.setattr("sagas.client.operate.queue_walk._WAIT", 0)
    FAIL["second"] = ValueError("no")
    bench = deployed(Stubborn)
    saga_id = bench.start("stubborn", {"item": "x"})
    bench.run()
    FAIL.clear()
    assert bench.show(saga_id)["status"] == "DEAD_LETTERED"
    return bench, saga_id


def operator(bench: Bench) -> SagaClient:
    where = ServiceEndpoints(queues=bench.stack.queues, dead_letter_queues=bench.stack.dead)
    return SagaClient("https://127.0.0.1/v1", region=REGION, session=boto3.Session(), endpoints=where)


def redriven(bench: Bench, saga_id: str) -> tuple[str, Any]:
    """Who revived it, and why, by its audit trail; all that follows is the worker's."""
    bench.run()
    assert bench.show(saga_id)["status"] == "COMPLETED"
    entries = bench.stack.entries(saga_id)
    (entry,) = (one for one in entries if one["action"] == "SagaRetried")
    assert {one["actor"] for one in entries if one["seq"] > entry["seq"]} == {"worker"}
    return entry["actor"], entry["details"]["reason"]


@pytest.mark.parametrize("reason", ["", "the mail server is back"])
def test_by_the_operator_with_the_note(dead: tuple[Bench, str], reason: str) -> None:
    bench, saga_id = dead
    assert operator(bench).redrive("stubborn", saga_id, reason=reason).moved
    assert redriven(bench, saga_id) == (client("sts").get_caller_identity()["Arn"], reason)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, ("worker", "")),
        ({"redriven_by": ANN, "redrive_reason": "why"}, (ANN, "why")),
        ({"redriven_by": "supervisor", "redrive_reason": "x" * 4_001}, ("worker", "")),
        ({"redriven_by": "x" * 5_000, "redrive_reason": "why"}, ("worker", "why")),
    ],
)
def test_as_far_as_what_the_message_says_fits(
    dead: tuple[Bench, str], said: dict[str, str], told: tuple[str, str]
) -> None:
    bench, saga_id = dead
    sqs = bench.stack.sqs
    (letter,) = sqs.receive_message(QueueUrl=bench.stack.dead["stubborn"])["Messages"]
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in said.items()}
    source = bench.stack.queues["stubborn"]["second"]
    sqs.send_message(QueueUrl=source, MessageBody=letter["Body"], MessageAttributes=attributes)
    assert redriven(bench, saga_id) == told


def test_a_letter_in_a_wrong_queue_goes_on_to_its_own(dead: tuple[Bench, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """SQS's own redrive moves letters to any queue; that queue's function has another step's role and time."""
    monkeypatch.setattr("sagas.messaging.queues.LONGEST_DELAY", 0)
    bench, saga_id = dead
    sqs, queues = bench.stack.sqs, bench.stack.queues["stubborn"]
    (letter,) = sqs.receive_message(QueueUrl=bench.stack.dead["stubborn"])["Messages"]
    said = {"redriven_by": {"DataType": "String", "StringValue": ANN}}
    sqs.send_message(QueueUrl=queues["first"], MessageBody=letter["Body"], MessageAttributes=said)
    before = bench.show(saga_id)
    LOG.clear()
    assert bench.invoke("stubborn", "first") == 1
    assert (bench.show(saga_id), LOG) == (before, [])
    assert redriven(bench, saga_id) == (ANN, "")
    assert bench.step(saga_id, 1)["attempts"] == before["steps"][1]["attempts"] + 1
