"""Every undo of the reference sagas brings back the state of before."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, cast

import boto3
import pytest
from moto import mock_aws

from functions.approval import Approval, Decision, OrderRequest
from functions.basket import Basket, BasketRequest, Packing
from functions.checkout import Checkout
from functions.create_zip import CreateZip, CreateZipRequest
from functions.shop import Item
from sagas.testing import assert_undoes
from tests.unit.functions.books import ENVIRONMENT, Shop, order

REGION = "eu-central-1"


def client(service: str) -> Any:
    return cast(Any, boto3).client(service, region_name=REGION)


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {**ENVIRONMENT, "ZIPS_BUCKET": "zips", "ORDERS_TABLE": "orders"}.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        topic = client("sns").create_topic(Name="announcements")["TopicArn"]
        monkeypatch.setenv("ANNOUNCE_TOPIC_ARN", topic)
        yield


def books(shop: Shop) -> dict[str, Any]:
    """What the shop has and owes. Entries that were set off stay in the ledger, and cancelled shipments in their
    table."""
    balances = {saga: amount for saga, amount in shop.balances().items() if amount}
    return {"stock": shop.stock(), "ledger": balances, "shipments": shop.booked()}


def test_checkout() -> None:
    shop = Shop({"mug": 3})
    assert_undoes(Checkout, order({"mug": 2}), state=lambda: books(shop), clients={"dynamodb": shop.client})


def test_basket() -> None:
    shop = Shop({"mug": 3, "pot": 1})
    parcels = [Packing("post", [Item("mug", 2)]), Packing("rail", [Item("pot", 1)])]
    basket = BasketRequest("o-1", "tok_visa", Decimal("20.00"), "DE", parcels)
    assert_undoes(Basket, basket, state=lambda: books(shop), clients={"dynamodb": shop.client})


def test_create_zip() -> None:
    for bucket in ("sources", "zips"):
        client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    client("s3").put_object(Bucket="sources", Key="a.txt", Body=b"alpha")

    def archives() -> set[str]:
        return {found["Key"] for found in client("s3").list_objects_v2(Bucket="zips").get("Contents", [])}

    request = CreateZipRequest("sources", ["a.txt"])
    assert_undoes(CreateZip, request, state=archives, clients=client)


def test_approval() -> None:
    table = client("dynamodb")
    table.create_table(
        TableName="orders",
        KeySchema=[{"AttributeName": "order_key", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "order_key", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )

    def orders() -> dict[str, str]:
        """Those that are open or placed. An order that was withdrawn stays in the table, so that it is not placed."""
        items = table.scan(TableName="orders", ConsistentRead=True)["Items"]
        states = {item["order_key"]["S"]: item["order_status"]["S"] for item in items}
        return {key: state for key, state in states.items() if state != "WITHDRAWN"}

    request = OrderRequest("o-1", Decimal("900"), "a press")
    decision = Decision(approved=True, by="ada")
    assert_undoes(Approval, request, state=orders, clients=client, signals={"decision": decision})
