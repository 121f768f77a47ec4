"""A saga type that callers may not cancel."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from sagas import Context, step
from sagas.authoring.definition.definition import definition_of
from sagas.handlers import api as api_handler
from tests.handlers.conftest import Make, request
from tests.support.sagas import FAIL, LOG, PARK, Booked, Trip, act


class Payout(Booked, name="payout", cancellable=False):
    """Once begun it goes through, or an operator gives it up."""

    @step(retry=PARK)
    def pay(self, ctx: Context) -> None:
        act("pay", ctx)


def test_a_caller_is_refused_and_told_why(site: Make) -> None:
    s = site(Payout, Trip)
    saga_id = s.begin("payout")
    before = s.tables()
    refused = s.call("DELETE", f"/sagas/payout/{saga_id}")
    assert (refused.status, refused.code) == (409, "conflict")
    told = "sagas of type payout cannot be cancelled: it is declared with cancellable=False; this one is PENDING"
    assert refused.body["error"]["message"] == told
    assert s.tables() == before
    s.run()
    assert s.call("GET", f"/sagas/payout/{saga_id}").body["status"] == "COMPLETED"
    assert s.call("DELETE", f"/sagas/payout/{saga_id}").status == 409
    unknown = "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17"
    assert s.call("DELETE", f"/sagas/payout/{unknown}").status == 404
    assert s.call("DELETE", f"/sagas/trip/{s.begin('trip')}").status == 200


def test_an_operator_may_still_have_one_undone(site: Make) -> None:
    s = site(Payout)
    FAIL["pay"] = 99
    saga_id = s.begin("payout")
    s.run()
    assert s.call("GET", f"/sagas/payout/{saga_id}").body["status"] == "DEAD_LETTERED"
    assert s.call("DELETE", f"/sagas/payout/{saga_id}").status == 409
    assert s.call("POST", f"/sagas/payout/{saga_id}/compensate", {"reason": "given up"}).status == 202
    s.run()
    assert LOG[-1] == "unbook"
    assert s.call("GET", f"/sagas/payout/{saga_id}").body["status"] == "COMPENSATED"


def test_a_cancel_that_was_accepted_before_is_answered_as_ever(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    s = site(Trip)
    saga_id = s.begin("trip")
    assert s.call("DELETE", f"/sagas/trip/{saga_id}").status == 200
    changed = replace(definition_of(Trip), cancellable=False)
    monkeypatch.setattr(Trip, "__saga_definition__", changed)
    api_handler.reset()
    assert s.call("GET", "/types/trip").body["cancellable"] is False
    again = s.call("DELETE", f"/sagas/trip/{saga_id}")
    assert (again.status, again.body["status"]) == (200, "CANCELLED")


def _description(site: Any) -> dict[str, Any]:
    return site.send(request("GET", "/openapi.json")).body


def test_the_definition_and_the_description_say_so(site: Make) -> None:
    s = site(Payout, Trip)
    shown = {one["type"]: one["cancellable"] for one in s.call("GET", "/types").body["types"]}
    assert shown == {"payout": False, "trip": True}
    assert s.call("GET", "/types/payout").body["cancellable"] is False
    paths = _description(s)["paths"]
    assert "cannot be cancelled" in paths["/sagas/payout/{saga_id}"]["delete"]["description"]
    assert "cannot be cancelled" not in paths["/sagas/trip/{saga_id}"]["delete"]["description"]


def test_a_subclass_inherits_it() -> None:
    class Refund(Payout, name="refund"):
        pass

    class Gift(Payout, name="gift", cancellable=True):
        pass

    assert (definition_of(Refund).cancellable, definition_of(Gift).cancellable) == (False, True)
