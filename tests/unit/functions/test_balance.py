"""Stock and money balance whatever is repeated, reordered, interrupted or interleaved.

Three sagas share one shop. Steps and undos run in any order and number. Any of them may lose an answer (the write
happened, the attempt fails) or be overtaken between two of its requests by another operation. After every one of them,
the stock that is held and available adds up, and once the sagas are undone nothing of them is left.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from functions.checkout import Capture, CheckoutRequest
from sagas import PermanentError
from tests.unit.functions.books import Shop, checkout, context, order

pytestmark = pytest.mark.slow

STOCK = {"mug": 4, "tea": 2}
ORDERS = {
    "saga-1": order({"mug": 2, "tea": 1}, amount="49.90"),
    "saga-2": order({"mug": 2}, amount="0.01"),
    "saga-3": order({"mug": 1, "tea": 2}, amount="1000"),
}
UNDOS = ("release", "refund", "cancel_shipment")


class LostAnswer(Exception):
    """The request had its effect; nobody heard."""


@dataclass(frozen=True)
class Operation:
    """A step or an undo of one saga, and what befalls it.

    Args:
        saga_id: whose.
        name: the step's or the undo's.
        loses: the answer to which of its requests is lost, from 0; None for none.
        overtaken_by: operations that run just before its requests 0, 1, ...
    """

    saga_id: str
    name: str
    loses: int | None = None
    overtaken_by: list[Operation] = field(default_factory=list["Operation"])


class Run:
    """Performs operations on one shop, and remembers which undos came to their end."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.undone: set[tuple[str, str]] = set()

    def perform(self, operation: Operation) -> None:
        """Perform it; a business refusal and a lost answer are among what is expected."""
        meddled = Meddled(self, operation)
        with suppress(LostAnswer, PermanentError):
            call(operation.name, ORDERS[operation.saga_id], operation.saga_id, client={"dynamodb": meddled})
            if operation.name in UNDOS:
                self.undone.add((operation.saga_id, operation.name))


class Meddled:
    """A client that loses an answer, and lets others overtake."""

    def __init__(self, run: Run, operation: Operation) -> None:
        self.exceptions = run.shop.client.exceptions
        self._run = run
        self._operation = operation
        self._requests = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def send(**arguments: Any) -> Any:
            number = self._requests
            self._requests += 1
            for other in self._operation.overtaken_by[number : number + 1]:
                self._run.perform(other)
            answer = getattr(self._run.shop.client, name)(**arguments)
            if number == self._operation.loses:
                raise LostAnswer
            return answer

        return send


def call(name: str, request: CheckoutRequest, saga_id: str, **attributes: Any) -> None:
    saga = checkout()
    match name:
        case "reserve":
            saga.reserve(request=request, ctx=context("reserve", saga_id, **attributes))
        case "capture":
            saga.capture(request=request, ctx=context("capture", saga_id, **attributes))
        case "ship":
            payment = Capture(f"{saga_id}:capture", request.amount)
            saga.ship(request=request, payment=payment, ctx=context("ship", saga_id, **attributes))
        case "release":
            saga.release(ctx=context("reserve", saga_id, undo=True, **attributes))
        case "refund":
            saga.refund(ctx=context("capture", saga_id, undo=True, **attributes))
        case _:
            saga.cancel_shipment(ctx=context("ship", saga_id, undo=True, **attributes))


def assert_balanced(run: Run) -> None:
    """Stock is available or held; a payment is taken once or not at all; what was undone stays undone."""
    available, reserved = run.shop.stock()
    assert min(available.values()) >= 0
    for sku, initially in STOCK.items():
        assert available[sku] + sum(held.get(sku, 0) for held in reserved.values()) == initially
    balances, booked = run.shop.balances(), run.shop.booked()
    for saga_id, order_ in ORDERS.items():
        assert balances.get(saga_id, 0) in (0, order_.amount)
        assert not ((saga_id, "release") in run.undone and f"{saga_id}:reserve" in reserved)
        assert not ((saga_id, "refund") in run.undone and balances.get(saga_id))
        assert not ((saga_id, "cancel_shipment") in run.undone and f"{saga_id}:ship" in booked)


def simple(names: st.SearchStrategy[str]) -> st.SearchStrategy[Operation]:
    loses = st.none() | st.integers(0, 2)
    return st.builds(Operation, st.sampled_from(sorted(ORDERS)), names, loses)


names = st.sampled_from(["reserve", "capture", "ship", *UNDOS])
operations = st.builds(
    Operation,
    st.sampled_from(sorted(ORDERS)),
    names,
    st.none() | st.integers(0, 2),
    st.lists(simple(names), max_size=3),
)


# A counter-example is short already; making it shorter takes minutes.
@settings(phases=[Phase.explicit, Phase.generate])
@given(history=st.lists(operations, max_size=15))
def test_the_books_balance_whatever_happens(history: list[Operation]) -> None:
    with mock_aws(), pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "testing")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        shop = Shop(STOCK)
        run = Run(shop)
        for operation in history:
            run.perform(operation)
            assert_balanced(run)
        for saga_id in ORDERS:
            for undo in UNDOS:
                run.perform(Operation(saga_id, undo))
        assert shop.available() == STOCK
        assert not any(shop.balances().values())
        assert shop.booked() == set()
