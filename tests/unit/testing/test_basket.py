"""The saga *basket* as a whole: one payment, several parcels, and books that balance over parent and children."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from functions.basket import MAX_PARCELS, Basket, BasketRequest, Delivery, Packing, Parcel, ParcelRequest
from functions.shop import Item
from sagas import PermanentError
from sagas.authoring.codec import decode
from sagas.core.ids import child_id
from sagas.testing import FakeContext, Outcome, run
from tests.unit.functions.books import ENVIRONMENT, TABLES, Shop

EVENTS = Path(__file__).parents[3] / "events"
STOCK = {"mug-blue": 10, "tea-assam": 10}
UNTOUCHED = (STOCK, dict[str, dict[str, int]](), set[str]())


def request_of(event: str) -> BasketRequest:
    return decode(json.loads((EVENTS / event).read_text()), BasketRequest)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        yield Shop(STOCK)


def run_basket(shop: Shop, request: BasketRequest, **options: Any) -> Outcome:
    return run(Basket, request, clients={"dynamodb": shop.client}, **options)


def books(shop: Shop) -> tuple[dict[str, int], dict[str, dict[str, int]], set[str]]:
    return shop.available(), shop.reserved(), shop.booked()


def test_three_carriers_take_a_basket(shop: Shop) -> None:
    outcome = run_basket(shop, request_of("basket.json"), saga_id="saga-1")
    assert outcome.status == "COMPLETED"
    assert [parcel.status for parcel in outcome.children["parcels"]] == ["COMPLETED"] * 3
    items = shop.items("shipments")
    assert items.keys() == shop.booked()
    booked = [items[child_id("saga-1", "parcels", number) + ":book"] for number in range(3)]
    assert outcome.result == Delivery("saga-1:capture", [item["tracking"]["S"] for item in booked])
    assert [item["carrier"]["S"] for item in booked] == ["post", "rail", "road"]
    assert {item["payment_key"]["S"] for item in booked} == {"saga-1:capture"}
    assert shop.available() == {"mug-blue": 6, "tea-assam": 7}
    held = Counter[str]()
    for quantities in shop.reserved().values():
        held.update(quantities)
    assert held == {"mug-blue": 4, "tea-assam": 3}
    assert shop.balances() == {"saga-1": Decimal("129.70")}


def test_one_carrier_that_takes_nothing_undoes_the_others(shop: Shop) -> None:
    outcome = run_basket(shop, request_of("basket_unservable.json"))
    assert outcome.status == "COMPENSATED"
    assert outcome.error is not None
    assert outcome.error.type == "ChildrenFailed"
    assert [parcel.status for parcel in outcome.children["parcels"]] == ["COMPENSATED"] * 3
    assert books(shop) == UNTOUCHED
    assert list(shop.balances().values()) == [0]


@pytest.mark.parametrize("failing", ["parcels[1].pack", "parcels[2].book", "confirm"])
def test_whatever_fails_the_books_are_as_they_were(shop: Shop, failing: str) -> None:
    outcome = run_basket(shop, request_of("basket.json"), fail={failing: OSError("down")})
    assert outcome.status == "COMPENSATED"
    assert books(shop) == UNTOUCHED
    assert list(shop.balances().values()) == [0]


def test_a_declined_card_has_no_parcel_packed(shop: Shop) -> None:
    request = request_of("basket.json")
    outcome = run_basket(
        shop, BasketRequest(request.order_id, "tok_declined", request.amount, request.country, request.parcels)
    )
    assert outcome.status == "COMPENSATED"
    assert not outcome.children.get("parcels")
    assert books(shop) == UNTOUCHED


def test_a_parcel_that_is_sold_out_is_refused_by_name(shop: Shop) -> None:
    request = BasketRequest("order-1", "tok_visa", Decimal(1), "CH", [Packing("post", [Item("mug-blue", 11)])])
    outcome = run_basket(shop, request)
    [parcel] = outcome.children["parcels"]
    assert (parcel.status, parcel.error and parcel.error.message) == (
        "COMPENSATED",
        "not enough in stock: mug-blue",
    )
    assert books(shop) == UNTOUCHED


def test_each_step_of_a_parcel_may_be_repeated_and_what_is_undone_stays_undone(shop: Shop) -> None:
    saga = Parcel(TABLES, frozenset({"post"}))
    request = ParcelRequest("order-1", "saga-1:capture", "CH", "post", [Item("mug-blue", 2)])

    def context(step: str, *, undo: bool = False) -> FakeContext:
        return FakeContext(saga="parcel", step=step, undo=undo, client=lambda _: shop.client)

    for _ in range(2):
        saga.pack(request=request, ctx=context("pack"))
        saga.book(request=request, ctx=context("book"))
    assert shop.available()["mug-blue"] == 8
    assert len(shop.booked()) == 1
    for _ in range(2):
        saga.call_off(ctx=context("book", undo=True))
        saga.unpack(ctx=context("pack", undo=True))
    assert books(shop) == UNTOUCHED
    for step, attempt in (("pack", saga.pack), ("book", saga.book)):
        with pytest.raises(PermanentError, match="before it was"):
            attempt(request=request, ctx=context(step))


@pytest.mark.parametrize("parcels", [0, MAX_PARCELS + 1])
def test_a_basket_has_parcels(parcels: int) -> None:
    with pytest.raises(ValueError, match="1 to 100 parcels"):
        BasketRequest("order-1", "tok_visa", Decimal(1), "CH", [Packing("post", [Item("mug", 1)])] * parcels)
