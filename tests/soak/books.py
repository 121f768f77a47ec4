"""The sums that must be right whatever happened: every item in stock or sold, every amount taken or given back once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sagas.core.states import SagaState, SagaStatus, StepStatus

_RESERVATION = "reservation#"
_UNDONE = (SagaStatus.COMPENSATED, SagaStatus.CANCELLED)
_NEITHER = (StepStatus.FAILED, StepStatus.RETRYING, StepStatus.COMPENSATION_FAILED)
"""Steps that may have taken effect, or may not, if their saga waits for a person or says that they are in doubt."""

Item = Mapping[str, Any]
Place = tuple[str, str]
"""A saga and a step of it."""


@dataclass(frozen=True, slots=True)
class Books:
    """The tables in which the sagas book, as they are stored.

    Args:
        stock: what is available, and the reservations.
        ledger: captures, refunds and voids.
        shipments: bookings of shipments.
    """

    stock: tuple[Item, ...]
    ledger: tuple[Item, ...]
    shipments: tuple[Item, ...] = ()

    def held(self) -> dict[str, dict[str, int]]:
        """Quantities by SKU, by the key under which they are reserved."""
        return {
            item["sku"]["S"].removeprefix(_RESERVATION): {
                sku: int(quantity["N"]) for sku, quantity in item["items"]["M"].items()
            }
            for item in self.stock
            if item.get("status") == {"S": "RESERVED"}
        }

    def paid(self) -> dict[str, Decimal]:
        """What is taken and not given back, by the key of the capture; nothing that adds up to 0."""
        sums: defaultdict[str, Decimal] = defaultdict(Decimal)
        for entry in self.ledger:
            sums[entry.get("refunds", entry["payment_key"])["S"]] += Decimal(entry["amount"]["N"])
        return {key: amount for key, amount in sums.items() if amount}

    def shipped(self) -> set[str]:
        """Keys of the shipments that go out."""
        return {item["shipment_key"]["S"] for item in self.shipments if item["status"] == {"S": "BOOKED"}}


@dataclass(frozen=True, slots=True)
class Ordered:
    """What a saga was asked to book: quantities by SKU, and an amount."""

    quantities: Mapping[str, int]
    amount: Decimal


def ordered(request: Mapping[str, Any]) -> Ordered:
    """Read a request, of checkout or of the soak's own sagas."""
    if "items" in request:
        quantities: Counter[str] = Counter()
        for item in request["items"]:
            quantities[item["sku"]] += item["quantity"]
        return Ordered(quantities, Decimal(request["amount"]))
    return Ordered({request["sku"]: request["quantity"]}, Decimal(request["cents"]).scaleb(-2))


def check_books(
    books: Books,
    states: Mapping[str, SagaState],
    requests: Mapping[str, Mapping[str, Any]],
    bookings: Mapping[str, Mapping[str, str]],
    initially: Mapping[str, int],
    unsure: frozenset[Place] = frozenset(),
) -> list[str]:
    """Return what is violated, each in a sentence.

    Args:
        books: as they lie in the tables.
        states: the sagas.
        requests: of those sagas.
        bookings: the steps that book, and in which table, by saga type.
        initially: what was put in stock, by SKU.
        unsure: steps whose code was told of an error although its effect may have happened.
    """
    found = [*_stock_is_conserved(books, initially), *_refunds_are_single(books)]
    stands: dict[str, Mapping[str, Any]] = {
        "stock": books.held(),
        "ledger": books.paid(),
        "shipments": dict.fromkeys(books.shipped()),
    }
    known = set[str]()
    for saga_id, state in states.items():
        wanted = ordered(requests[saga_id])
        for step, table in bookings[state.saga].items():
            key = f"{saga_id}:{step}"
            known.add(key)
            found += _booking(state, step, table, key in stands[table], (saga_id, step) in unsure)
            right = {"stock": dict(wanted.quantities), "ledger": wanted.amount, "shipments": None}[table]
            if key in stands[table] and stands[table][key] != right:
                found.append(f"{key}: {stands[table][key]} is booked in {table}, {right} was ordered")
    found += [
        f"{key}: booked in {table} by nobody" for table, keys in stands.items() for key in keys if key not in known
    ]
    return found


def _stock_is_conserved(books: Books, initially: Mapping[str, int]) -> Iterator[str]:
    there = {item["sku"]["S"]: int(item["available"]["N"]) for item in books.stock if "available" in item}
    held: Counter[str] = Counter()
    for quantities in books.held().values():
        held.update(quantities)
    for sku, quantity in initially.items():
        available = there.get(sku, 0)
        if available + held[sku] != quantity or available < 0:
            yield f"{sku}: {available} available and {held[sku]} reserved, of {quantity}"


def _refunds_are_single(books: Books) -> Iterator[str]:
    entries = {entry["payment_key"]["S"]: entry for entry in books.ledger}
    refunds = Counter(entry["refunds"]["S"] for entry in books.ledger if "refunds" in entry)
    for key, times in refunds.items():
        capture, refund = entries.get(key), entries.get(f"{key}:undo")
        if times != 1:
            yield f"{key}: refunded {times} times"
        if refund is None or refund.get("refunds") != {"S": key}:
            yield f"{key}: refunded under another key than its undo's"
        elif capture is None or Decimal(capture["amount"]["N"]) != -Decimal(refund["amount"]["N"]):
            yield f"{key}: another amount was refunded than captured"


def _booking(state: SagaState, step: str, table: str, stands: bool, unsure: bool) -> Iterator[str]:
    """Whether a booking may stand, or must, by what its saga says of its step."""
    one = next(one for one in state.steps if one.name == step)
    place = f"{state.saga_id}:{step} of a {state.status} {state.saga}"
    if one.status is StepStatus.COMPLETED and not stands:
        yield f"{place} is COMPLETED, but not booked in {table}"
    if state.status is SagaStatus.COMPLETED and one.status is not StepStatus.COMPLETED:
        yield f"{place} is {one.status}"
    if not stands or one.status is StepStatus.COMPLETED:
        if stands and state.status in _UNDONE:
            yield f"{place} is still booked in {table}"
        return
    doubtful = one.status in _NEITHER and (state.status not in _UNDONE or step in state.in_doubt or unsure)
    if not doubtful:
        yield f"{place} is {one.status}, but booked in {table}"
