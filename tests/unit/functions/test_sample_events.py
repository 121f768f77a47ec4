"""The sample events are what AWS would send, and fit the reference sagas."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent, SQSEvent

from functions.approval import OrderRequest
from functions.basket import BasketRequest
from functions.checkout import CheckoutRequest
from functions.create_zip import CreateZipRequest

EVENTS = Path(__file__).parents[3] / "events"
BODIES = {
    "create_zip": CreateZipRequest,
    "checkout": CheckoutRequest,
    "checkout_unservable": CheckoutRequest,
    "approval": OrderRequest,
    "approval_small": OrderRequest,
    "basket": BasketRequest,
    "basket_unservable": BasketRequest,
}
FIELDS = {"saga_id", "saga", "step", "index", "undo", "dispatch", "hops", "correlation_id"}


def load(name: str) -> Any:
    return json.loads((EVENTS / f"{name}.json").read_text())


def test_every_file_is_known_here() -> None:
    kinds = ("api_", "sqs_", "schedule_")
    assert {p.stem for p in EVENTS.glob("*.json") if not p.name.startswith(kinds)} == set(BODIES)


@pytest.mark.parametrize("name", BODIES)
def test_bodies_fit_the_request_types(name: str) -> None:
    msgspec.json.decode((EVENTS / f"{name}.json").read_bytes(), type=BODIES[name])


@pytest.mark.parametrize("path", sorted(EVENTS.glob("api_*.json")), ids=lambda path: str(path.stem))
def test_api_events_are_consistent(path: Path) -> None:
    event = APIGatewayProxyEvent(load(path.stem))
    assert event.resource.format(**event.path_parameters) == event.path
    assert event.request_context.identity.user_arn == "arn:aws:iam::123456789012:user/alice"
    saga_id = event.path_parameters.get("id")
    assert saga_id is None or UUID(saga_id).version == 7


@pytest.mark.parametrize("name", ["create_zip", "checkout"])
def test_start_events_carry_the_bodies(name: str) -> None:
    assert json.loads(load(f"api_start_{name}")["body"]) == load(name)


def test_the_step_event_names_a_step_in_body_and_attributes() -> None:
    [record] = SQSEvent(load("sqs_step")).records
    assert set(record.json_body) == FIELDS
    attributes: Any = record.message_attributes
    assert {k: attributes[k].string_value for k in ("saga", "saga_id", "step")} == {
        k: record.json_body[k] for k in ("saga", "saga_id", "step")
    }


def test_the_malformed_event_is_malformed_in_three_ways() -> None:
    records = load("sqs_malformed")["Records"]
    with pytest.raises(json.JSONDecodeError):
        json.loads(records[0]["body"])
    assert set(json.loads(records[1]["body"])) < FIELDS
    assert set(json.loads(records[2]["body"])) == FIELDS
    assert len({record["messageId"] for record in records}) == 3


@pytest.mark.parametrize("name", ["sqs_step", "sqs_malformed"])
def test_records_have_the_digest_of_their_body(name: str) -> None:
    for record in load(name)["Records"]:
        assert record["md5OfBody"] == hashlib.md5(record["body"].encode(), usedforsecurity=False).hexdigest()


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("schedule_tick", {"time": "2026-11-27T00:00:00Z", "sample": 100}),
        ("schedule_recover", {"queue": True}),
        ("schedule_purge", {"queue": True}),
        ("schedule_sweep", {}),
        ("schedule_verify", {"sample": 100}),
    ],
)
def test_ticks_name_their_task(name: str, more: dict[str, Any]) -> None:
    assert load(name) == {"task": name.removeprefix("schedule_"), **more}
