"""Signals over the API: the answers of each case, and their description."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sagas import Context, Saga, step, wait_for
from tests.engine.test_waits import Approval
from tests.handlers.conftest import ANN, Make, request
from tests.support.sagas import Order

NO = "00000000-0000-7000-8000-000000000009"


class Asked(Saga[Order], name="asked"):
    """Waits for a person, then for what may be nothing."""

    approval = wait_for(Approval, timeout=timedelta(days=3))
    remark = wait_for(str | None, timeout=timedelta(days=3))

    @step
    def end(self, approval: Approval, remark: str | None, ctx: Context) -> str:
        return f"{approval.by}: {remark}"


def test_a_type_tells_what_its_waits_take(site: Make) -> None:
    (asked,) = site(Asked).call("GET", "/types").body["types"]
    approval, remark, end = asked["steps"]
    assert (approval["signal"]["$defs"]["Approval"]["required"], "signal" in end) == (["by"], False)
    assert {"type": "null"} in remark["signal"]["anyOf"]


def test_how_long_an_attempt_ran_is_told_without_waits(site: Make) -> None:
    s = site(Asked)
    saga = s.begin("asked")
    for wait, value in (("approval", {"by": "ada"}), ("remark", '"well"')):
        s.call("POST", f"/sagas/asked/{saga}/signals/{wait}", value)
    s.run()
    steps = s.call("GET", f"/sagas/asked/{saga}").body["steps"]
    assert [steps[0]["took"], steps[1]["took"]] == [None, None]
    assert 0 <= steps[2]["took"] < 60


def test_a_signal_is_accepted_known_again_and_refused(site: Make) -> None:
    s = site(Asked)
    saga = s.begin("asked")
    path = f"/sagas/asked/{saga}/signals/approval"
    early = s.call("POST", path, {"by": "ada"})
    assert (early.status, early.body["status"]) == (202, "PENDING")
    assert s.call("POST", path, {"by": "ada"}).status == 200
    other = s.call("POST", path, {"by": "bob"})
    assert (other.status, other.code) == (409, "conflict")
    s.run()
    assert s.call("GET", f"/sagas/asked/{saga}").body["steps"][1]["waiting_for"] == "signal"
    taken = s.send(request("POST", f"/sagas/asked/{saga}/signals/remark") | {"body": "null"})
    assert (taken.status, taken.body["status"]) == (202, "RUNNING")
    s.run()
    done = s.call("GET", f"/sagas/asked/{saga}").body
    assert (done["status"], done["result"]) == ("COMPLETED", "ada: None")
    assert s.call("POST", path, {"by": "ada"}).status == 200, "for as long as it is kept"
    entries = s.call("GET", f"/sagas/asked/{saga}/audit").body["entries"]
    assert [entry["actor"] for entry in entries if entry["action"] == "SignalReceived"] == [ANN, ANN]


def test_the_same_value_with_a_default_written_out_is_the_same_signal(site: Make) -> None:
    s = site(Asked)
    saga = s.begin("asked")
    path = f"/sagas/asked/{saga}/signals/approval"
    assert s.call("POST", path, {"by": "ada"}).status == 202
    assert s.call("POST", path, {"note": "", "by": "ada"}).status == 200
    assert s.call("POST", path, {"by": "ada", "note": "well"}).status == 409


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("asked/{id}/signals/approval", '{"by": 5}', 422),
        ("asked/{id}/signals/approval", "", 400),
        ("asked/{id}/signals/approval", "{", 400),
        ("asked/{id}/signals/approval", '"' + "x" * 300_000 + '"', 413),
        ("asked/{id}/signals/end", '{"by": "ada"}', 404),
        ("asked/{id}/signals/nothing", '{"by": "ada"}', 404),
        ("asked/" + NO + "/signals/approval", '{"by": "ada"}', 404),
        ("nothing/{id}/signals/approval", '{"by": "ada"}', 404),
        ("asked/none/signals/approval", '{"by": "ada"}', 404),
    ],
)
def test_what_is_no_signal_is_told(site: Make, path: str, body: str, status: int) -> None:
    s = site(Asked)
    saga = s.begin("asked")
    answer = s.send(request("POST", "/sagas/" + path.replace("{id}", saga)) | {"body": body})
    assert answer.status == status
    assert s.call("GET", f"/sagas/asked/{saga}").body["status"] == "PENDING"


def test_a_cancelled_saga_takes_none(site: Make) -> None:
    s = site(Asked)
    saga = s.begin("asked")
    assert s.call("DELETE", f"/sagas/asked/{saga}").body["status"] == "CANCELLED"
    assert s.call("POST", f"/sagas/asked/{saga}/signals/approval", {"by": "ada"}).status == 409


def test_the_description_has_each_signal_with_its_schema(site: Make) -> None:
    described: dict[str, Any] = site(Asked).call("GET", "/openapi.json").body
    operation = described["paths"]["/sagas/asked/{saga_id}/signals/approval"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    name = schema["$ref"].removeprefix("#/components/schemas/")
    assert set(described["components"]["schemas"][name]["properties"]) == {"by", "note"}
    assert {"200", "202", "404", "409", "413", "422"} <= set(operation["responses"])
