"""What the reference sagas declare, and that their values come back from JSON as they were."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from functions.approval import Approval, Decision, Placed
from functions.basket import Basket, Delivery, Parcel
from functions.checkout import Checkout
from functions.create_zip import CreateZip, Sources
from functions.shop import Capture, Reservation, Shipment
from functions.sources import Source
from sagas import Exhausted, S3Object, Saga
from sagas.authoring.definition.definition import definition_of

STEPS: dict[type[Saga[Any]], list[tuple[str, str | None, str]]] = {
    CreateZip: [("check", None, "completed"), ("upload", "delete_upload", "started"), ("announce", None, "completed")],
    Checkout: [
        ("reserve", "release", "started"),
        ("capture", "refund", "started"),
        ("ship", "cancel_shipment", "started"),
    ],
    Approval: [
        ("enter", "withdraw", "started"),
        ("decision", None, "completed"),
        ("late_decision", None, "completed"),
        ("place", None, "completed"),
    ],
    Basket: [("capture", "refund", "started"), ("parcels", None, "completed"), ("confirm", None, "completed")],
    Parcel: [("pack", "unpack", "started"), ("book", "call_off", "started")],
}


@pytest.mark.parametrize("saga", STEPS)
def test_steps_and_undos(saga: type[Saga[Any]]) -> None:
    steps = definition_of(saga).steps
    assert [(s.name, s.undo.name if s.undo else None, s.undo_when) for s in steps] == STEPS[saga]


def test_names_and_policies() -> None:
    zips = definition_of(CreateZip)
    assert (zips.name, definition_of(Checkout).name) == ("create-zip", "checkout")
    assert zips.prefix == "create-zip/"
    assert zips.orphans is not None
    assert zips.orphans.bucket_env == "ZIPS_BUCKET"
    assert zips.step("announce").retry.on_exhausted is Exhausted.DEAD_LETTER
    assert zips.step("announce").circuit_breaker is not None


@pytest.mark.parametrize(
    "result",
    [
        Sources([Source("dir/été.txt", "dir/été.txt", 2**40, '"etag-2"')], 2**40),
        S3Object("zips", "create-zip/id/archive.zip", 22, '"etag-1"'),
        Reservation("saga-1:reserve", {"mug": 2}),
        Capture("saga-1:capture", Decimal("49.90")),
        Shipment("saga-1:ship", "S0123456789AB"),
        Decision(approved=True, by="ada"),
        Placed("saga-1:enter", "ada"),
        Delivery("saga-1:capture", ["S0123456789AB"]),
    ],
)
def test_results_come_back_from_json_as_they_were(result: object) -> None:
    assert msgspec.json.decode(msgspec.json.encode(result), type=type(result)) == result
