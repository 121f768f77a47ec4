"""A service in an API, and on tables, that were there already, on the emulator."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from tests.e2e.api import Api
from tests.e2e.stack import Running

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_a_saga_runs_below_the_mount(shop: Running) -> None:
    api = Api(shop)
    assert api.url.endswith("/shop/orders")
    saga = api.run("relay", {})
    assert saga["status"] == "COMPLETED"
    assert saga["links"]["self"] == f"{urlsplit(api.url).path}/sagas/relay/{saga['saga_id']}"
    assert api.actions(saga)[0] == "SagaStarted"


def test_it_is_kept_in_the_tables_given(shop: Running) -> None:
    tables = shop.description["tables"]
    assert "mine" in tables["sagas"].lower()
    assert "history" in tables["audit"].lower()
    saga = Api(shop).run("relay", {"drop": True})
    kept = shop.client("dynamodb").get_item(TableName=tables["sagas"], Key={"saga_id": {"S": saga["saga_id"]}})
    assert "Item" in kept
