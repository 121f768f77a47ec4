"""The API below a resource of somebody's own API."""

from __future__ import annotations

from tests.handlers.conftest import Make
from tests.support.sagas import Trip


def test_paths_and_links_lead_through_the_mount(site: Make) -> None:
    shop = site(Trip, SAGAS_MOUNT="/orders")
    answer = shop.call("POST", "/orders/sagas/trip", {"item": "train"})
    assert answer.status == 202
    location = f"/prod/orders/sagas/trip/{answer.body['saga_id']}"
    assert answer.headers["location"] == location == answer.body["links"]["self"]
    assert shop.call("GET", location.removeprefix("/prod")).body["saga_id"] == answer.body["saga_id"]
    listed = shop.call("GET", "/orders/sagas", type="trip").body["sagas"]
    assert [one["links"]["self"] for one in listed] == [location]


def test_a_fixed_base_path_holds(site: Make) -> None:
    shop = site(Trip, SAGAS_MOUNT="/orders", SAGAS_BASE_PATH="/shop/{stage}/orders")
    answer = shop.call("POST", "/orders/sagas/trip", {"item": "train"})
    assert answer.headers["location"].startswith("/shop/prod/orders/sagas/trip/")
