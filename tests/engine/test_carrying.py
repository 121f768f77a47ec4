"""What messages bring, and what of it is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sagas import Saga, step
from sagas.engine.attempt.course import Value, digest_of, next_inputs, proven_inputs
from sagas.messaging.message import CARRY_LIMIT, CarriedInput, parse_record
from sagas.store.journal.entries import Entry, payload_hash
from tests.engine.metering import Wire
from tests.support.aws import HandmadeStack
from tests.support.bench import Bench, Make
from tests.support.sagas import LOG, Order, Trip

REQUEST = {"item": "train"}
BOTH = {1, 2}


def result(seq: int, payload: str, salt: str = "salt") -> CarriedInput:
    return CarriedInput(seq, payload_hash(salt, payload), salt, payload)


def committed(seq: int, payload: str | None, action: str = "StepCompleted") -> Entry:
    return Entry("id", seq, 0.0, "trip", action, "RUNNING", 1, payload=payload, salt="salt")


def test_what_adds_up_is_believed() -> None:
    inputs = (result(1, '"a"'), result(2, '"b"'))
    assert proven_inputs(inputs, digest_of(inputs)) == {1: Value('"a"'), 2: Value('"b"')}


@pytest.mark.parametrize(
    "forged",
    [
        (result(1, '"a"'), result(2, '"forged"')),
        (result(1, '"a"'),),
        (result(1, '"a"'), result(3, '"b"')),
        (result(1, '"a"'), result(2, '"b"', "another salt")),
        (),
    ],
)
def test_what_does_not_add_up_is_not(forged: tuple[CarriedInput, ...]) -> None:
    assert proven_inputs(forged, digest_of((result(1, '"a"'), result(2, '"b"')))) == {}


def test_a_payload_under_anothers_hash_is_not_believed() -> None:
    right = (result(1, '"a"'), result(2, '"b"'))
    forged = (right[0], CarriedInput(2, right[1].hash, "salt", '"forged"'))
    assert proven_inputs(forged, digest_of(right)) == {1: Value('"a"')}


def test_without_a_digest_nothing_is_believed() -> None:
    assert proven_inputs((result(1, '"a"'),), "") == {}


def test_the_next_message_brings_what_came_and_what_was_committed() -> None:
    known = (result(1, '"a"'),)
    after = (*known, result(2, '"b"'))
    assert next_inputs(known, committed(2, '"b"'), digest_of(after), BOTH) == after
    assert next_inputs(after, committed(3, None, "StepCompensated"), digest_of(after), BOTH) == after
    assert next_inputs((), committed(2, '"b"'), digest_of(after), BOTH) == (), "a message of a recovery has no inputs"


def test_what_nobody_takes_any_more_goes_by_its_hash() -> None:
    known = (result(1, '"a"'), result(2, '"b"'))
    assert next_inputs(known, None, digest_of(known), {2}) == (CarriedInput(1, known[0].hash), known[1])


def test_what_is_large_goes_by_its_hash() -> None:
    large = result(2, json.dumps("x" * CARRY_LIMIT))
    known = (result(1, '"a"'), large)
    assert next_inputs(known, None, digest_of(known), BOTH) == (known[0], CarriedInput(2, large.hash))


# In a saga.


def letter(stack: HandmadeStack, step: str) -> Any:
    """The message of a step, which stays in its queue."""
    [record] = stack.receive("trip", step)
    receipt = {"QueueUrl": stack.queues["trip"][step], "ReceiptHandle": record["receiptHandle"]}
    stack.sqs.change_message_visibility(**receipt, VisibilityTimeout=0)
    return record


def test_a_saga_reads_nothing(deployed: Callable[..., Bench], wire: Wire) -> None:
    LOG.clear()
    w = deployed(Trip)
    w.release()
    wire.requests.clear()
    saga_id = w.start("trip", REQUEST)
    w.run()
    reads = [name for name in wire.names() if name in ("BatchGetItem", "Query")]
    assert reads == []
    assert w.show(saga_id)["status"] == "COMPLETED"


class Parcel(Saga[Order], name="parcel"):
    """Only the undo of the first step takes its result, and nothing behind the pivot takes the request."""

    @step
    def reserve(self, request: Order) -> str:
        return "reserved"

    @reserve.compensate
    def release(self, reserve: str) -> None:
        pass

    @step
    def weigh(self) -> int:
        return 7

    @step(pivot=True)
    def ship(self, weigh: int) -> str:
        return "shipped"

    @step
    def tell(self, ship: str) -> None:
        pass


def test_messages_bring_only_what_is_still_taken(bench: Make, wire: Wire) -> None:
    b = bench(Parcel)
    saga_id = b.start("parcel", REQUEST)
    wire.requests.clear()
    brought = dict[str, list[int]]()
    for name in ("reserve", "weigh", "ship", "tell"):
        [record] = b.stack.receive("parcel", name)
        inputs = parse_record(record).inputs
        assert [each.seq for each in inputs] == sorted({each.seq for each in inputs})
        brought[name] = [each.seq for each in inputs if each.payload is not None]
        b.handle("parcel", name, record)
    assert brought == {"reserve": [1], "weigh": [2], "ship": [2, 3], "tell": [4]}
    assert [asked for name, asked in wire.requests if name in ("BatchGetItem", "Query")] == []
    assert b.status(saga_id) == "COMPLETED"


def test_a_forged_input_is_read_from_the_journal(bench: Make) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    b.deliver("trip", "book")
    [record] = b.stack.receive("trip", "pay")
    body = json.loads(record["body"])
    brought_seat = body["inputs"][1]
    brought_seat[3] = '{"number":666}'
    b.handle("trip", "pay", record | {"body": json.dumps(body)})
    assert b.show(saga_id)["steps"][1]["status"] == "COMPLETED"
    assert ("pay", 666) not in LOG
    assert b.show(saga_id)["steps"][0]["result"] == {"number": 1}
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"


def test_a_message_that_was_lost_is_sent_anew_without_inputs_and_the_step_reads(bench: Make) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    b.deliver("trip", "book")
    b.lose_messages()
    b.clock.advance(300)
    assert b.recover() == [saga_id]
    assert parse_record(letter(b.stack, "pay")).inputs == ()
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"


def test_switched_off_no_payload_is_in_a_queue(bench: Make) -> None:
    b = bench(Trip, carry=False)
    saga_id = b.start("trip", REQUEST)
    b.deliver("trip", "book")
    assert parse_record(letter(b.stack, "pay")).inputs == ()
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"


@pytest.mark.parametrize("character", ["\ufffe", "\uffff", "\x00", "\x7f", "\U0010ffff"])
def test_what_sqs_does_not_take_as_it_is_arrives(emulated: Callable[..., Bench], character: str) -> None:
    b = emulated(Trip)
    saga_id = b.start("trip", {"item": f"a{character}b"})
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert b.show(saga_id)["request"] == {"item": f"a{character}b"}
