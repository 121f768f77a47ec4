"""The saga *approval* as a whole: who is asked and when, and what becomes of the order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import boto3
import pytest
from moto import mock_aws

from functions.approval import Approval, ApprovalConfig, Decision, OrderRequest, Placed
from sagas import PermanentError
from sagas.authoring.codec import decode
from sagas.testing import FakeContext, run

EVENTS = Path(__file__).parents[3] / "events"
DAY = timedelta(days=1)
YES, NO = Decision(approved=True, by="ada"), Decision(approved=False, by="ada")


@dataclass
class Desk:
    """The orders' table, and the topic, which keeps what is published."""

    dynamodb: Any
    asked: list[str] = field(default_factory=list[str])

    def client(self, service: str) -> Any:
        return {"dynamodb": self.dynamodb, "sns": self}[service]

    def publish(self, *, TopicArn: str, Subject: str, Message: str) -> None:
        self.asked.append(f"{Subject}: {Message}")

    @property
    def orders(self) -> list[str]:
        return [item["order_status"]["S"] for item in self.dynamodb.scan(TableName="orders")["Items"]]


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    given = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    for name, value in {**given, "ORDERS_TABLE": "orders", "ANNOUNCE_TOPIC_ARN": "topic"}.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        dynamodb = cast(Any, boto3).client("dynamodb", region_name="eu-central-1")
        dynamodb.create_table(
            TableName="orders",
            KeySchema=[{"AttributeName": "order_key", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "order_key", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield Desk(dynamodb)


def request_of(event: str) -> OrderRequest:
    return decode(json.loads((EVENTS / event).read_text()), OrderRequest)


def test_within_the_limit_nobody_is_asked(desk: Desk) -> None:
    outcome = run(Approval, request_of("approval_small.json"), clients=desk.client)
    assert outcome.status == "COMPLETED"
    assert outcome.result.approved_by == "the limit"
    assert desk.asked == []
    assert desk.orders == ["PLACED"]


def test_over_the_limit_a_person_decides(desk: Desk) -> None:
    outcome = run(Approval, request_of("approval.json"), clients=desk.client, signals={"decision": YES})
    assert isinstance(outcome.result, Placed)
    assert outcome.result.approved_by == "ada"
    [asked] = desk.asked
    assert asked.startswith("Please decide: Order order-2001, 1250.00, for a workbench: /sagas/approval/")
    assert asked.endswith("/signals/decision")
    assert outcome.steps["late_decision"] == "SKIPPED"
    assert desk.orders == ["PLACED"]


def test_after_a_day_the_person_is_reminded(desk: Desk) -> None:
    late = {"signals": {"late_decision": YES}, "at": {"late_decision": timedelta(hours=5)}}
    outcome = run(Approval, request_of("approval.json"), clients=desk.client, **cast("dict[str, Any]", late))
    assert outcome.status == "COMPLETED"
    assert outcome.waited == {"decision": DAY, "late_decision": timedelta(hours=5)}
    assert [asked.partition(":")[0] for asked in desk.asked] == ["Please decide", "Reminder"]
    assert desk.asked[1].endswith("/signals/late_decision")


def test_after_three_days_the_order_is_withdrawn(desk: Desk) -> None:
    outcome = run(Approval, request_of("approval.json"), clients=desk.client)
    assert outcome.status == "COMPENSATED"
    assert outcome.waited == {"decision": DAY, "late_decision": 2 * DAY}
    assert desk.orders == ["WITHDRAWN"]


@pytest.mark.parametrize("step", ["decision", "late_decision"])
def test_what_is_not_approved_is_withdrawn(desk: Desk, step: str) -> None:
    outcome = run(Approval, request_of("approval.json"), clients=desk.client, signals={step: NO})
    assert outcome.status == "COMPENSATED"
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.message) == ("Rejected", "ada did not approve")
    assert desk.orders == ["WITHDRAWN"]


def test_what_was_withdrawn_is_never_entered_or_placed(desk: Desk) -> None:
    saga = Approval(ApprovalConfig("orders", "topic", Decimal(500)))
    ctx = FakeContext(saga="approval", step="enter", client=desk.client)
    saga.withdraw(ctx=FakeContext(saga="approval", step="enter", undo=True, client=desk.client))
    for attempt in (
        lambda: saga.enter(request=request_of("approval.json"), ctx=ctx),
        lambda: saga.place(order_key=ctx.forward_key, decision=YES, late_decision=None, ctx=ctx),
    ):
        with pytest.raises(PermanentError, match="the order was withdrawn before"):
            attempt()
    assert desk.orders == ["WITHDRAWN"]


def test_each_step_may_be_repeated(desk: Desk) -> None:
    saga = Approval(ApprovalConfig("orders", "topic", Decimal(500)))
    ctx = FakeContext(saga="approval", step="enter", client=desk.client)
    for _ in range(2):
        key = saga.enter(request=request_of("approval.json"), ctx=ctx)
        assert saga.place(order_key=key, decision=None, late_decision=YES, ctx=ctx) == Placed(key, "ada")
    assert desk.orders == ["PLACED"]


@pytest.mark.parametrize("amount", ["0", "-1", "NaN"])
def test_an_amount_is_positive(amount: str) -> None:
    with pytest.raises(ValueError, match="positive"):
        OrderRequest("order-1", Decimal(amount), "nothing")
