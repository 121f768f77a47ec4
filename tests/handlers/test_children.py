"""Children over the API: what is shown of them, and what their parent's callers may do."""

from __future__ import annotations

from typing import Any

from tests.engine.test_children import Asking, Basketful, Shipment, Waiting
from tests.handlers.conftest import Make
from tests.support.sagas import FAIL

NO = "00000000-0000-7000-8000-000000000009"


def test_parent_and_children_name_each_other(site: Make) -> None:
    s = site(Basketful, Shipment)
    saga = s.begin("basketful", {"parcels": 3})
    s.run()
    shown = s.call("GET", f"/sagas/basketful/{saga}").body
    assert shown["status"] == "COMPLETED"
    found = shown["steps"][1]["children"]
    assert (found["total"], found["started"], found["completed"], found["failed"]) == (3, 3, 3, 0)
    assert found["href"].endswith(f"/sagas?parent={saga}")
    page = s.call("GET", "/sagas", parent=saga, limit="2").body
    assert [one["parent"]["position"] for one in page["sagas"]] == [0, 1]
    rest = s.call("GET", "/sagas", parent=saga, cursor=page["cursor"]).body
    assert ([one["parent"]["position"] for one in rest["sagas"]], rest["cursor"]) == ([2], None)
    child = s.call("GET", f"/sagas/shipment/{page['sagas'][0]['saga_id']}").body
    assert child["parent"] == {"type": "basketful", "saga_id": saga, "step": "shipments", "position": 0}
    assert "children" not in child["steps"][0]


def test_an_unknown_parent_has_no_children(site: Make) -> None:
    s = site(Basketful, Shipment)
    assert s.call("GET", "/sagas", parent=NO).body == {"sagas": [], "cursor": None}
    assert s.call("GET", "/sagas", parent="nobody").paths == ["query.parent"]
    for other in ({"type": "shipment"}, {"status": "FAILED"}, {"since": "2026-01-01"}, {"idempotency_key": "k"}):
        assert s.call("GET", "/sagas", parent=NO, **other).paths == ["query.parent"]
    assert s.call("GET", "/sagas", parent=NO, nothing="x").paths == ["query.nothing"]
    assert s.call("GET", "/sagas", parent=NO, cursor="x").paths == ["query.cursor"]


def test_a_child_is_cancelled_with_force_only(site: Make) -> None:
    s = site(Asking, Waiting)
    saga = s.begin("asking", {"parcels": 2})
    s.run()
    child = s.call("GET", "/sagas", parent=saga).body["sagas"][0]["saga_id"]
    path = f"/sagas/waiting-child/{child}"
    assert s.call("DELETE", path).code == "conflict"
    assert s.call("DELETE", path, force="yes").paths == ["query.force"]
    assert s.call("DELETE", path, force="true").body["status"] == "CANCELLED"


def test_a_completed_saga_is_compensated_with_force(site: Make) -> None:
    s = site(Basketful, Shipment)
    saga = s.begin("basketful", {"parcels": 1})
    s.run()
    path = f"/sagas/basketful/{saga}/compensate"
    assert s.call("POST", path, {"reason": "wrong"}).code == "conflict"
    assert s.call("POST", path, {"reason": "wrong", "force": True}).status == 202
    s.run()
    assert s.call("GET", f"/sagas/basketful/{saga}").body["status"] == "COMPENSATED"


def test_attention_has_one_line_for_the_parent(site: Make) -> None:
    s = site(Basketful, Shipment)
    FAIL.update({"send 0": RuntimeError("no")})
    saga = s.begin("basketful", {"parcels": 3})
    s.run()
    listed: list[dict[str, Any]] = s.call("GET", "/attention").body["sagas"]
    assert listed == []
    shown = s.call("GET", f"/sagas/basketful/{saga}").body
    assert shown["steps"][1]["children"]["failures"][0]["error"] == {"type": "RuntimeError", "message": "no"}


def test_a_definition_names_what_a_step_starts(site: Make) -> None:
    s = site(Basketful, Shipment)
    steps = s.call("GET", "/types/basketful").body["steps"]
    assert [step.get("children") for step in steps] == [None, ["shipment"], None]
