"""Writes that meet another at the same item at this moment: DynamoDB refuses one of them, and botocore repeats none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError
from pynamodb.connection import Connection
from pynamodb.exceptions import CancellationReason, VerboseClientError

from sagas import Context, Saga, step, wait_for
from sagas.store.outcomes import Contended, Unwritable
from tests.support.bench import Bench
from tests.support.sagas import LOG, Order, act

Make = Callable[..., Bench]


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


class Contention:
    """Has the first writes of each kind meet another."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reason = "TransactionConflict"
        self.left = Counter[str]()
        self.met = Counter[str]()
        real = cast("Callable[..., Any]", Connection.__dict__["dispatch"])

        def dispatch(connection: Any, operation_name: str, operation_kwargs: dict[str, Any]) -> Any:
            if self.left[operation_name]:
                self.left[operation_name] -= 1
                self.met[operation_name] += 1
                raise _conflict(operation_name, self.reason)
            return real(connection, operation_name, operation_kwargs)

        monkeypatch.setattr(Connection, "dispatch", dispatch)


def _conflict(operation: str, reason: str) -> ClientError:
    code = "TransactionCanceledException" if operation == "TransactWriteItems" else "TransactionConflictException"
    answer: Any = {"Error": {"Code": code, "Message": "conflict"}}
    reasons = [CancellationReason(reason), None]
    return VerboseClientError(answer, operation, {"table_name": "sagas"}, cancellation_reasons=reasons)


@pytest.fixture
def contention(monkeypatch: pytest.MonkeyPatch) -> Contention:
    return Contention(monkeypatch)


def test_a_conflict_is_told_as_one(bench: Make, contention: Contention) -> None:
    b = bench(Asking)
    saga_id = b.start("asking")
    state = b.state(saga_id)
    contention.left.update({"UpdateItem": 1})
    with pytest.raises(Contended):
        b.engine.control.set_recovery_attempts(state, 3)


@pytest.mark.parametrize("reason", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
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
