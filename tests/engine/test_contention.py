"""Writes that meet another at the same item at this moment: DynamoDB refuses one of them, and botocore repeats none."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagas import Context, Saga, children, step, wait_for
from sagas.errors import Unavailable
from sagas.store.connection import Contended, Unwritable
from sagas.testing.tables import refusal
from tests.support.bench import Bench, Make
from tests.support.dynamodb import aws
from tests.support.sagas import LOG, Order, Single, act


class Asking(Saga[Order], name="asking"):
    """Answers itself where it is told to, and goes on."""

    @wait_for(str, timeout=timedelta(hours=1))
    def answer(self, request: Order, ctx: Context) -> None:
        act("ask", ctx)
        if request.item == "itself":
            ctx.signal("yes")

    @step
    def book(self, answer: str, ctx: Context) -> str:
        act("book", ctx)
        return answer


OF_TRANSACTIONS = ("TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded")
"""Reasons at the place of a write that pass. Throttled is also who writes to a table whose index has no capacity."""
OF_WRITES = {
    "TransactionConflict": "TransactionConflictException",
    "ThrottlingError": "ThrottlingException",
    "ProvisionedThroughputExceeded": "ProvisionedThroughputExceededException",
    "RequestLimitExceeded": "RequestLimitExceeded",
}
"""How DynamoDB says the same of a write that is in no transaction."""


WRITES = (("UpdateItem", 0), ("PutItem", 0), ("TransactWriteItems", 0), ("TransactWriteItems", 1))
"""Operations, and the place of the write that is refused."""


OPERATIONS = ("UpdateItem", "PutItem", "TransactWriteItems")


_TRIES_OF_BOTOCORE = 4
"""Of a write that was throttled by itself. It knows nothing of conflicts, nor of the reasons of transactions."""


class Contention:
    """Has DynamoDB refuse the first writes of each kind."""

    def __init__(self) -> None:
        self.reason = "TransactionConflict"
        self.place = 0
        self.left = Counter[str]()
        self.half: random.Random | None = None
        """Decides about each write, if half of them are refused."""
        self.met = Counter[str]()

    def refuse(self, operation: str, request: dict[str, Any]) -> ClientError | None:
        transacted = operation == "TransactWriteItems"
        tries = 1 if transacted or self.reason == "TransactionConflict" else _TRIES_OF_BOTOCORE
        if self.half is None:
            hit = self.left[operation] > 0
        else:
            hit = operation in OPERATIONS and self.half.random() < 0.5**tries
        if not hit:
            return None
        self.left[operation] -= 1
        self.met[operation] += 1
        if not transacted:
            return refusal(OF_WRITES[self.reason], operation)
        codes = ["None"] * len(request["TransactItems"])
        codes[self.place] = self.reason
        reasons = [{"Code": code} for code in codes]
        return refusal("TransactionCanceledException", operation, "cancelled", CancellationReasons=reasons)


@pytest.fixture
def contention(credentials: None) -> Iterator[Contention]:
    made = Contention()
    with aws() as tables:
        tables.refuse = made.refuse
        yield made


def test_a_conflict_is_told_as_one(bench: Make, contention: Contention) -> None:
    b = bench(Asking)
    saga_id = b.start("asking")
    state = b.state(saga_id)
    contention.left.update({"UpdateItem": 1})
    with pytest.raises(Contended):
        b.engine.control.set_recovery_attempts(state, 3)


@pytest.mark.parametrize("reason", OF_TRANSACTIONS)
def test_a_signaller_tries_again(bench: Make, contention: Contention, reason: str) -> None:
    contention.reason = reason
    b = bench(Asking)
    saga_id = b.start("asking")
    b.deliver("asking", "answer")
    contention.left.update({"TransactWriteItems": 3})
    b.engine.signals.send("asking", saga_id, "answer", "yes", "ada")
    assert contention.met == {"TransactWriteItems": 3}
    b.run()
    assert b.status(saga_id) == "COMPLETED"


@pytest.mark.parametrize("reason", ["ValidationError", "ItemCollectionSizeLimitExceeded", "SomethingNew"])
def test_what_never_succeeds_is_not_tried_again(bench: Make, contention: Contention, reason: str) -> None:
    contention.reason = reason
    b = bench(Asking)
    saga_id = b.start("asking")
    b.deliver("asking", "answer")
    contention.left.update({"TransactWriteItems": 3})
    with pytest.raises(Unwritable, match=f"{reason} at write 0"):
        b.engine.signals.send("asking", saga_id, "answer", "yes", "ada")
    assert contention.met == {"TransactWriteItems": 1}


def test_code_that_answers_itself_tries_again(bench: Make, contention: Contention) -> None:
    b = bench(Asking)
    saga_id = b.start("asking", {"item": "itself"})
    contention.left.update({"TransactWriteItems": 3})
    b.deliver("asking", "answer")
    assert contention.met == {"TransactWriteItems": 3}
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert LOG == ["ask:1", "book:1"]


@pytest.mark.parametrize("meets", [1, 4])
def test_a_worker_claims_and_commits_all_the_same(bench: Make, contention: Contention, meets: int) -> None:
    b = bench(Asking)
    saga_id = b.start("asking")
    b.engine.signals.send("asking", saga_id, "answer", "yes", "ada")
    contention.left.update({"UpdateItem": meets, "TransactWriteItems": meets})
    b.deliver("asking", "answer")
    b.run()
    assert contention.met == {"UpdateItem": meets, "TransactWriteItems": meets}
    assert b.status(saga_id) == "COMPLETED"
    assert LOG == ["ask:1", "book:1"]


def test_a_cancel_is_accepted_all_the_same(bench: Make, contention: Contention) -> None:
    b = bench(Asking)
    saga_id = b.start("asking")
    contention.left.update({"UpdateItem": 3})
    assert b.engine.operations.cancel("asking", saga_id, "ada").status == "CANCELLED"


class Parcel(Single[Order], name="parcel"):
    """A child."""


class Basket(Saga[Order], name="basket"):
    """Has two children."""

    @children(Parcel)
    def parcels(self, request: Order) -> list[Order]:
        return [request, request]

    @step
    def close(self, parcels: list[str], ctx: Context) -> str:
        act("close", ctx)
        return "+".join(parcels)


@pytest.mark.parametrize("reason", OF_TRANSACTIONS)
@pytest.mark.parametrize("place", [0, 1])
def test_a_saga_of_which_half_of_all_writes_is_refused_loses_no_attempt(
    deployed: Make, clean: None, contention: Contention, reason: str, place: int
) -> None:
    b = deployed(Basket, Parcel)
    b.release()
    contention.reason, contention.place, contention.half = reason, place, random.Random(reason)  # noqa: S311 - it makes no secret
    for number in range(3):
        saga_id = start(b, str(number))
        b.run()
        for _ in range(10):  # the supervisor comes by: a message may have come back while a lease was held
            if b.status(saga_id) == "COMPLETED":
                break
            b.clock.advance(600)
            with suppress(Unavailable):
                b.recover()
            b.run()
        ended_as_if_nothing_had_happened(b, saga_id)
    assert contention.met.total() > 2


@pytest.mark.parametrize(("operation", "place"), WRITES)
def test_an_outcome_that_cannot_be_committed_is_committed_later(
    deployed: Make, clean: None, contention: Contention, operation: str, place: int
) -> None:
    """It goes to its queue when it was refused for as long as it is tried, and is committed from there."""
    b = deployed(Basket, Parcel)
    contention.place = place
    for reason in OF_TRANSACTIONS:
        contention.reason, saga_id = reason, start(b, reason)
        contention.left[operation] = 31
        b.run()
        assert contention.left[operation] == 0
        ended_as_if_nothing_had_happened(b, saga_id)


def start(b: Bench, key: str) -> str:
    """Start a saga as a caller does, who tries again under the same key."""
    LOG.clear()
    for _ in range(50):
        with suppress(Unavailable):
            return b.start("basket", key=key)
    raise AssertionError("it cannot be started")


def ended_as_if_nothing_had_happened(b: Bench, saga_id: str) -> None:
    assert b.status(saga_id) == "COMPLETED"
    assert sorted(LOG) == ["call:1", "call:1", "close:1"]
    assert not {"StepFailed", "StepLost"} & set(b.actions(saga_id))


def test_children_that_could_not_be_started_are_started_by_the_next_message(
    deployed: Make, clean: None, contention: Contention
) -> None:
    """Not by the supervisor, minutes later: they were handed out, and no other look starts those."""
    contention.reason = "ThrottlingError"
    b = deployed(Basket, Parcel)
    saga_id = start(b, "key")
    b.invoke("basket", "parcels")
    contention.left["PutItem"] = 3
    b.run()
    assert contention.left["PutItem"] == 0
    ended_as_if_nothing_had_happened(b, saga_id)


def test_an_entry_that_meets_another_write_is_put_all_the_same(
    deployed: Make, clean: None, contention: Contention
) -> None:
    """Who looks after a parent holds its lease by then, for as long as a function may run."""
    b = deployed(Basket, Parcel)
    saga_id = start(b, "key")
    b.invoke("basket", "parcels")
    b.end_waits()
    assert (b.invoke("parcel", "call"), b.invoke("parcel", "call")) == (1, 1)
    contention.left["PutItem"] = 1
    b.end_waits()
    assert contention.met == {"PutItem": 1}
    assert b.actions(saga_id)[-1] == "ChildrenEnded"


def test_a_transaction_that_can_never_succeed_is_an_attempt_lost(bench: Make, contention: Contention) -> None:
    contention.reason = "ValidationError"
    b = bench(Asking)
    saga_id = b.start("asking")
    b.engine.signals.send("asking", saga_id, "answer", "yes", "ada")
    b.deliver("asking", "answer")
    contention.left.update({"TransactWriteItems": 1})
    with pytest.raises(Unwritable):
        b.deliver("asking", "book")
    assert b.status(saga_id) == "RUNNING"
    b.run()
    assert (b.status(saga_id), b.actions(saga_id).count("StepLost")) == ("COMPLETED", 1)
