"""The checkout saga, step by step, against DynamoDB in process."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from functions.checkout import Address, Checkout, CheckoutRequest
from functions.shop import Capture, Item
from sagas import PermanentError, Rejected
from tests.unit.functions.books import Shop, checkout, context, order

ADDRESS = Address("Ada Example", "Hauptstrasse 1", "8001", "Zürich", "CH")


@pytest.fixture
def shop(aws: None) -> Shop:
    return Shop({"mug": 5, "tea": 1})


def test_reserve_takes_out_of_stock_once(shop: Shop) -> None:
    request = order({"mug": 2, "tea": 1})
    first = checkout().reserve(request=request, ctx=context("reserve"))
    assert checkout().reserve(request=request, ctx=context("reserve", attempt=2)) == first
    assert first.quantities == {"mug": 2, "tea": 1}
    assert shop.available() == {"mug": 3, "tea": 0}
    assert shop.reserved() == {first.reservation_key: first.quantities}


def test_lines_of_the_same_sku_are_added_up(shop: Shop) -> None:
    request = CheckoutRequest("order-1", [Item("mug", 2), Item("mug", 1)], "tok_visa", Decimal(1), ADDRESS)
    assert checkout().reserve(request=request, ctx=context("reserve")).quantities == {"mug": 3}
    assert shop.available()["mug"] == 2


@pytest.mark.parametrize(
    ("wanted", "short"), [({"mug": 1, "tea": 2}, "tea"), ({"mug": 6, "tea": 2}, "mug, tea"), ({"pot": 1}, "pot")]
)
def test_too_little_stock_is_rejected_by_name_and_takes_nothing(shop: Shop, wanted: dict[str, int], short: str) -> None:
    with pytest.raises(Rejected, match=f"not enough in stock: {short}$"):
        checkout().reserve(request=order(wanted), ctx=context("reserve"))
    assert shop.available() == {"mug": 5, "tea": 1}
    assert shop.reserved() == {}


def test_a_retry_finds_its_reservation_when_the_rest_is_sold_out(shop: Shop) -> None:
    for _ in range(2):
        checkout().reserve(request=order({"tea": 1}), ctx=context("reserve"))
    with pytest.raises(Rejected):
        checkout().reserve(request=order({"tea": 1}), ctx=context("reserve", "saga-2"))


def test_release_gives_back_once_and_bars_a_late_reservation(shop: Shop) -> None:
    checkout().reserve(request=order({"mug": 2}), ctx=context("reserve"))
    for _ in range(3):
        checkout().release(ctx=context("reserve", undo=True))
        assert shop.available() == {"mug": 5, "tea": 1}
    with pytest.raises(PermanentError, match="released"):
        checkout().reserve(request=order({"mug": 2}), ctx=context("reserve"))
    assert shop.available() == {"mug": 5, "tea": 1}


def test_capture_writes_one_entry_and_returns_the_first(shop: Shop) -> None:
    first = checkout().capture(request=order({"mug": 1}), ctx=context("capture"))
    assert checkout().capture(request=order({"mug": 1}), ctx=context("capture", attempt=2)) == first
    assert first == Capture("saga-1:capture", Decimal("49.90"))
    assert str(first.amount) == "49.90"
    assert shop.balances() == {"saga-1": Decimal("49.90")}
    assert "tok_visa" not in str(shop.items("ledger"))


def test_a_declined_card_is_rejected_and_costs_nothing(shop: Shop) -> None:
    with pytest.raises(Rejected, match="declined"):
        checkout().capture(request=order({"mug": 1}, card="tok_declined"), ctx=context("capture"))
    assert shop.items("ledger") == {}


def test_refund_is_an_entry_of_its_own_that_names_the_capture(shop: Shop) -> None:
    checkout().capture(request=order({"mug": 1}), ctx=context("capture"))
    for _ in range(3):
        checkout().refund(ctx=context("capture", undo=True))
    refund = shop.items("ledger")["saga-1:capture:undo"]
    assert (refund["kind"]["S"], refund["refunds"]["S"]) == ("refund", "saga-1:capture")
    assert shop.balances() == {"saga-1": 0}
    assert len(shop.items("ledger")) == 2


def test_ship_books_once(shop: Shop) -> None:
    payment = Capture("saga-1:capture", Decimal("49.90"))
    first = checkout().ship(request=order({"mug": 1}), payment=payment, ctx=context("ship"))
    assert checkout().ship(request=order({"mug": 1}), payment=payment, ctx=context("ship", attempt=2)) == first
    assert shop.booked() == {"saga-1:ship"}
    assert shop.items("shipments")["saga-1:ship"]["payment_key"] == {"S": "saga-1:capture"}


def test_an_address_that_is_not_served_fails_for_good(shop: Shop) -> None:
    payment = Capture("saga-1:capture", Decimal("49.90"))
    with pytest.raises(PermanentError, match="no carrier serves 'AQ'"):
        checkout().ship(request=order({"mug": 1}, country="AQ"), payment=payment, ctx=context("ship"))
    assert shop.booked() == set()


def test_cancelled_shipments_stay_cancelled(shop: Shop) -> None:
    payment = Capture("saga-1:capture", Decimal("49.90"))
    checkout().ship(request=order({"mug": 1}), payment=payment, ctx=context("ship"))
    for _ in range(2):
        checkout().cancel_shipment(ctx=context("ship", undo=True))
    with pytest.raises(PermanentError, match="cancelled"):
        checkout().ship(request=order({"mug": 1}), payment=payment, ctx=context("ship"))
    assert shop.booked() == set()


def test_every_undo_tolerates_that_there_is_nothing(shop: Shop) -> None:
    for _ in range(2):
        checkout().release(ctx=context("reserve", undo=True))
        checkout().refund(ctx=context("capture", undo=True))
        checkout().cancel_shipment(ctx=context("ship", undo=True))
    assert shop.available() == {"mug": 5, "tea": 1}
    assert shop.balances() == {"saga-1": 0}
    assert shop.booked() == set()


def test_what_was_undone_before_it_happened_cannot_happen(shop: Shop) -> None:
    checkout().release(ctx=context("reserve", undo=True))
    checkout().refund(ctx=context("capture", undo=True))
    with pytest.raises(PermanentError):
        checkout().reserve(request=order({"mug": 1}), ctx=context("reserve"))
    with pytest.raises(PermanentError):
        checkout().capture(request=order({"mug": 1}), ctx=context("capture"))


@pytest.mark.parametrize("quantity", [0, -1])
def test_a_quantity_is_positive(quantity: int) -> None:
    with pytest.raises(ValueError, match="quantity"):
        Item("mug", quantity)


@pytest.mark.parametrize("sku", ["", "reservation#x"])
def test_a_sku_cannot_be_taken_for_a_reservation(sku: str) -> None:
    with pytest.raises(ValueError, match="SKU"):
        Item(sku, 1)


@pytest.mark.parametrize("amount", ["0", "-1", "0.001", "NaN", "Infinity", "1e12"])
def test_an_amount_is_positive_and_in_whole_cents(amount: str) -> None:
    with pytest.raises(ValueError, match="amount"):
        order({"mug": 1}, amount=amount)


@pytest.mark.parametrize("skus", [0, 100])
def test_an_order_has_some_skus_but_no_more_than_a_transaction_takes(skus: int) -> None:
    with pytest.raises(ValueError, match="SKUs"):
        order({f"sku-{n}": 1 for n in range(skus)})


def test_as_many_skus_as_a_transaction_takes(aws: None) -> None:
    shop = Shop({f"sku-{n}": 1 for n in range(99)})
    checkout().reserve(request=order({f"sku-{n}": 1 for n in range(99)}), ctx=context("reserve"))
    assert set(shop.available().values()) == {0}
    checkout().release(ctx=context("reserve", undo=True))
    assert set(shop.available().values()) == {1}


def test_configuration_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, shop: Shop) -> None:
    for name in ("stock", "ledger", "shipments"):
        monkeypatch.setenv(f"{name.upper()}_TABLE", name)
    monkeypatch.setenv("SERVED_COUNTRIES", "AQ CH")
    payment: Any = Capture("saga-1:capture", Decimal("49.90"))
    Checkout.create().ship(request=order({"mug": 1}, country="AQ"), payment=payment, ctx=context("ship"))
    assert shop.booked() == {"saga-1:ship"}
