"""The blueprints of sagas, and sagas in flight grouped by them."""

from __future__ import annotations

from typing import Any

import pytest

from sagas import Saga, children
from sagas.authoring.definition.definition import definition_of
from sagas.core.text import iso
from sagas.engine.read import in_flight
from sagas.handlers import api as api_handler
from sagas.lock.content import blueprint_in, blueprint_of, hash_of
from tests.handlers.conftest import Make, Site
from tests.support.sagas import FAIL, Fatal, Order, Trip

TRIP = hash_of(blueprint_of(definition_of(Trip)))


def special(s: Site) -> dict[str, Any]:
    """The items of blueprints and of their names, by key."""
    items = s.stack.dynamodb.scan(TableName=s.stack.sagas_table)["Items"]
    return {item["saga_id"]["S"]: item for item in items if item["saga_id"]["S"].startswith(("blue", "defin"))}


def groups_of(s: Site, name: str, **query: str) -> list[dict[str, Any]]:
    return s.call("GET", f"/types/{name}/in-flight", **query).body["groups"]


class Parent(Saga[Order], name="family"):
    @children(Trip)
    def trips(self, request: Order) -> list[Order]: ...


def test_the_first_start_stores_the_blueprint_that_the_saga_names(site: Make) -> None:
    s = site(Trip)
    saga_id = s.begin("trip")
    stored = special(s)
    assert set(stored) == {f"blueprint#trip#{TRIP}", "definition#trip"}
    assert blueprint_in(stored[f"blueprint#trip#{TRIP}"]["body"]["B"]) == blueprint_of(definition_of(Trip))
    assert stored[f"blueprint#trip#{TRIP}"]["version"] == {"S": "1"}
    assert stored["definition#trip"]["blueprints"] == {"SS": [TRIP]}
    details = s.call("GET", f"/sagas/trip/{saga_id}/audit").body["entries"][0]["details"]
    assert details["blueprint"] == TRIP
    s.begin("trip")
    s.engine.blueprints.name(definition_of(Trip))
    assert special(s) == stored


def test_two_releases_are_in_the_set_and_a_pause_leaves_it(site: Make) -> None:
    s = site(Trip)
    s.begin("trip")

    class Next(Trip, name="trip", version="2"):
        """The next release."""

    s.deploy(Next).starter.start("trip", {"item": "train"})
    s.call("PUT", "/types/trip", {"paused": True, "reason": "stocktaking"})
    s.call("PUT", "/types/trip", {"active": True})
    assert len(special(s)["definition#trip"]["blueprints"]["SS"]) == 2
    assert {group["blueprint"] for group in groups_of(s, "trip")} == {TRIP, hash_of(blueprint_of(definition_of(Next)))}


def test_sagas_are_grouped_by_position(site: Make) -> None:
    s = site(Trip, Fatal)
    ids = list[str]()
    for _ in range(4):
        ids.append(s.begin("trip"))
        s.clock.advance(1)
    other = s.begin("fatal")
    answer = s.call("GET", "/types/trip/in-flight").body
    assert (answer["deployed"], answer["cursor"]) == (TRIP, None)
    assert answer["blueprints"] == {TRIP: blueprint_of(definition_of(Trip))}
    [group] = answer["groups"]
    assert group == {
        "blueprint": TRIP,
        "status": "PENDING",
        "cursor": 0,
        "steps": "PPP",
        "count": 4,
        "oldest": s.show(ids[0])["created_at"],
        "examples": ids[:3],
    }
    FAIL["pay"] = RuntimeError()
    s.run()
    assert s.status(ids[0]) == "COMPENSATED"
    assert groups_of(s, "trip") == []
    assert other not in str(groups_of(s, "trip"))


def test_pages_have_each_saga_once_and_those_that_need_an_operator(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    s = site(Trip, Fatal)
    stopped = [s.begin("fatal") for _ in range(3)]
    FAIL["second"] = RuntimeError()
    s.run()
    dead = [saga_id for saga_id in stopped if s.show(saga_id)["attention"]]
    waiting = [s.begin("fatal") for _ in range(4)]
    monkeypatch.setattr(in_flight, "_PAGE", 2)
    found, cursor, pages = list[str](), None, 0
    while pages == 0 or cursor is not None:
        answer = s.call("GET", "/types/fatal/in-flight", **({} if cursor is None else {"cursor": cursor})).body
        found += [example for group in answer["groups"] for example in group["examples"]]
        cursor, pages = answer["cursor"], pages + 1
    assert sorted(found) == sorted([*dead, *waiting])
    assert pages > 2
    assert s.call("GET", "/types/fatal/in-flight", cursor="x").status == 422


@pytest.mark.parametrize("body", [None, b"altered"])
def test_a_missing_or_altered_blueprint_is_made_of_steps(site: Make, body: bytes | None) -> None:
    s = site(Trip)
    s.begin("trip")
    key, table = {"saga_id": {"S": f"blueprint#trip#{TRIP}"}}, s.stack.sagas_table
    if body is None:
        s.stack.dynamodb.delete_item(TableName=table, Key=key)
    else:
        s.stack.dynamodb.put_item(TableName=table, Item=key | {"body": {"B": body}})
    answer = s.call("GET", "/types/trip/in-flight").body
    [group] = answer["groups"]
    steps = answer["blueprints"][group["blueprint"]]
    assert "request" not in steps
    assert [each["name"] for each in steps["steps"]] == ["book", "pay", "tell"]
    assert group["count"] == 1


def test_a_type_that_is_not_deployed_any_more(site: Make) -> None:
    s = site(Trip)
    s.begin("trip")
    assert s.call("GET", "/types/gone/in-flight").status == 404
    view = s.deploy(Fatal).in_flight.page("trip", None)
    assert (view["deployed"], view["groups"][0]["count"]) == (None, 1)


def test_types_that_are_not_deployed_are_listed(site: Make) -> None:
    s = site(Trip, Fatal)
    s.begin("trip")
    s.begin("fatal")
    assert s.call("GET", "/types/fatal/in-flight").body["undeployed"] == []
    assert s.deploy(Fatal).in_flight.page("fatal", None)["undeployed"] == ["trip"]


def test_the_deployed_blueprint_is_shown_before_its_first_start(site: Make) -> None:
    answer = site(Trip).call("GET", "/types/trip/in-flight").body
    assert (answer["blueprints"], answer["groups"]) == ({TRIP: blueprint_of(definition_of(Trip))}, [])


def test_a_parents_start_stores_the_blueprints_of_its_children(site: Make) -> None:
    s = site(Parent, Trip)
    s.begin("family")
    assert {key.split("#")[1] for key in special(s)} == {"family", "trip"}


def test_two_environments_that_start_the_first_saga_write_the_same(site: Make) -> None:
    s = site(Trip)
    one, two = s.deploy(Trip), s.deploy(Trip)
    definition = definition_of(Trip)
    body = blueprint_of(definition)
    one.blueprints.name(definition)
    stored = special(s)
    two.blueprints._items.put("trip", TRIP, b"other", "1", s.clock.time)  # pyright: ignore[reportPrivateUsage]
    assert special(s) == stored
    assert two.blueprints.read("trip", [TRIP]) == {TRIP: body}
    assert iso(s.clock.time) == stored[f"blueprint#trip#{TRIP}"]["at"]["S"]
    api_handler.reset()
