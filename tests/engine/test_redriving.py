"""A message that SQS moves back from the dead letters revives its saga."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.bench import Bench, Make
from tests.support.sagas import FAIL, LOG, Stubborn

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture
def dead(deployed: Make) -> tuple[Bench, str]:
    """A saga that waits with a dead letter, and whose step would work by now."""
    FAIL["second"] = ValueError("no")
    bench = deployed(Stubborn)
    saga_id = bench.start("stubborn", {"item": "x"})
    bench.run()
    FAIL.clear()
    assert bench.show(saga_id)["status"] == "DEAD_LETTERED"
    return bench, saga_id


def redriven(bench: Bench, saga_id: str) -> tuple[str, Any]:
    """Who revived it, and why, by its audit trail; all that follows is the worker's."""
    bench.run()
    assert bench.show(saga_id)["status"] == "COMPLETED"
    entries = bench.stack.entries(saga_id)
    (entry,) = (one for one in entries if one["action"] == "SagaRetried")
    assert {one["actor"] for one in entries if one["seq"] > entry["seq"]} == {"worker"}
    return entry["actor"], entry["details"]["reason"]


def test_what_sqs_moves_back_is_retried_by_the_worker_without_a_reason(dead: tuple[Bench, str]) -> None:
    bench, saga_id = dead
    sqs = bench.stack.sqs
    (letter,) = sqs.receive_message(QueueUrl=bench.stack.dead["stubborn"])["Messages"]
    sqs.send_message(QueueUrl=bench.stack.queues["stubborn"]["second"], MessageBody=letter["Body"])
    assert redriven(bench, saga_id) == ("worker", "")


@pytest.mark.parametrize("name", ["redriven_by", "actor"])
def test_no_attribute_of_a_message_names_an_actor(dead: tuple[Bench, str], name: str) -> None:
    """All senders of the queue could write such an attribute."""
    bench, saga_id = dead
    sqs = bench.stack.sqs
    (letter,) = sqs.receive_message(QueueUrl=bench.stack.dead["stubborn"])["Messages"]
    attributes = {name: {"DataType": "String", "StringValue": "arn:aws:iam::123456789012:user/ann"}}
    source = bench.stack.queues["stubborn"]["second"]
    sqs.send_message(QueueUrl=source, MessageBody=letter["Body"], MessageAttributes=attributes)
    assert redriven(bench, saga_id) == ("worker", "")


def test_a_letter_in_a_wrong_queue_goes_on_to_its_own(dead: tuple[Bench, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """SQS's own redrive moves letters to any queue; that queue's function has another step's role and time."""
    monkeypatch.setattr("sagas.messaging.queues.LONGEST_DELAY", 0)
    bench, saga_id = dead
    sqs, queues = bench.stack.sqs, bench.stack.queues["stubborn"]
    (letter,) = sqs.receive_message(QueueUrl=bench.stack.dead["stubborn"])["Messages"]
    sqs.send_message(QueueUrl=queues["first"], MessageBody=letter["Body"])
    before = bench.show(saga_id)
    LOG.clear()
    assert bench.invoke("stubborn", "first") == 1
    assert (bench.show(saga_id), LOG) == (before, [])
    assert redriven(bench, saga_id) == ("worker", "")
    assert bench.step(saga_id, 1)["attempts"] == before["steps"][1]["attempts"] + 1
