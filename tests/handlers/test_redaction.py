"""What a saga type does not show is shown by no answer, and is in no text of an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sagas import Context, Retry, Saga, Secret, children, step
from tests.handlers.conftest import Site

Make = Callable[..., Site]
CARD = "4111111111111111"
TOKEN = "tok-of-ann"


@dataclass(frozen=True)
class Payment:
    card: Secret[str]
    amount: int


class Pay(Saga[Payment], name="pay", redact=["$.charge.receipt"]):
    """Quotes what it should not."""

    @step
    def charge(self, request: Payment, ctx: Context) -> dict[str, str]:
        assert request.card == CARD
        return {"receipt": TOKEN, "bank": "one"}

    @charge.compensate
    def refund(self, charge: dict[str, str]) -> None:
        assert charge["receipt"] == TOKEN

    @step(retry=Retry.constant(max_retries=1, delay=0.0))
    def tell(self, request: Payment, charge: dict[str, str]) -> None:
        raise RuntimeError(f"the card {request.card} with {charge['receipt']} is refused" + "." * 2_000)


def test_no_answer_and_no_error_tells(site: Make) -> None:
    s = site(Pay)
    started = s.call("POST", "/sagas/pay", {"card": CARD, "amount": 5})
    assert started.body["request"] == {"card": "***", "amount": 5}
    assert started.body["redacted"] == ["$.request"]
    path = f"/sagas/pay/{started.body['saga_id']}"
    s.run()
    shown = s.call("GET", path).body
    assert shown["status"] == "COMPENSATED", "code is given the values themselves"
    assert shown["steps"][0]["result"] == {"receipt": "***", "bank": "one"}
    assert shown["redacted"] == ["$.request", "$.steps[0].result"]
    assert shown["error"]["message"].startswith("the card *** with *** is refused")
    audit = s.call("GET", f"{path}/audit").body
    answers = [started.body, shown, audit, s.call("GET", "/sagas").body]
    assert not any(secret in json.dumps(answer) for answer in answers for secret in (CARD, TOKEN))
    traces: list[Any] = [entry["details"].get("stack_trace", "") for entry in audit["entries"]]
    assert "the card *** with *** is refused" in "".join(traces)
    assert s.call("GET", f"{path}/verification").body["verified"]


@dataclass(frozen=True)
class Receipt:
    number: str
    pin: Secret[str]


class Charge(Saga[Payment], name="charge", redact=["$.charge.number"], result="charge"):
    """Its own result is what should not be shown."""

    @step
    def charge(self, request: Payment) -> Receipt:
        return Receipt(TOKEN, CARD)

    @step
    def file(self, charge: Receipt) -> None:
        assert charge.pin == CARD


def test_the_result_of_the_saga_tells_no_more_than_its_step(site: Make) -> None:
    s = site(Charge)
    saga_id = s.begin("charge", {"card": CARD, "amount": 5})
    s.run()
    shown = s.call("GET", f"/sagas/charge/{saga_id}").body
    assert shown["status"] == "COMPLETED"
    assert shown["result"] == shown["steps"][0]["result"] == {"number": "***", "pin": "***"}
    assert shown["redacted"] == ["$.request", "$.steps[0].result", "$.result"]
    assert not any(secret in json.dumps(shown) for secret in (CARD, TOKEN))


@dataclass(frozen=True)
class Box:
    number: int


class Label(Saga[Box], name="label", redact=["$.print_label.pin"]):
    """Its result is not shown in full."""

    @step
    def print_label(self, request: Box) -> dict[str, str]:
        return {"pin": TOKEN, "carrier": "one"}


class Weigh(Saga[Box], name="weigh"):
    """Its result is shown."""

    @step
    def weigh(self, request: Box) -> dict[str, str]:
        return {"pin": "none of a label's"}


class Parcels(Saga[Box], name="parcels"):
    """It says nothing of what is not to be shown: its children's types do."""

    @children(Label)
    def labels(self, request: Box) -> list[Box]:
        return [request]

    @children(Label, Weigh)
    def both(self, request: Box) -> tuple[Box, Box]:
        return request, request

    @step(retry=Retry.constant(max_retries=0, delay=0.0))
    def hand_over(self, labels: list[dict[str, str]]) -> None:
        raise RuntimeError(f"no courier takes {labels[0]['pin']}")


def test_what_a_child_does_not_show_its_parent_does_not_show_either(site: Make) -> None:
    s = site(Parcels, Label, Weigh)
    path = f"/sagas/parcels/{s.call('POST', '/sagas/parcels', {'number': 1}).body['saga_id']}"
    s.run()
    shown, audit = s.call("GET", path).body, s.call("GET", f"{path}/audit").body
    labels, both, _ = shown["steps"]
    assert labels["result"] == [{"pin": "***", "carrier": "one"}]
    assert both["result"] == [{"pin": "***", "carrier": "one"}, {"pin": "none of a label's"}]
    assert shown["redacted"] == ["$.steps[0].result", "$.steps[1].result"]
    assert shown["error"]["message"] == "no courier takes ***"
    assert TOKEN not in json.dumps([shown, audit])
