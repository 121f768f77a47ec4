"""A service in an API, and on tables, that were there already, on the emulator."""

from __future__ import annotations

from collections.abc import Generator
from urllib.parse import urlsplit

import pytest

from tests.e2e.api import Api
from tests.e2e.conftest import project_in
from tests.e2e.stack import Running, launch

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """A local stack of one saga."""
    running = launch(project_in(tmp_path_factory.mktemp("mounted")), "python -m tests.e2e.mounted.app")
    yield running
    running.stop()


def test_a_saga_runs_below_the_mount(mounted: Running) -> None:
    api = Api(mounted)
    assert api.url.endswith("/shop/orders")
    saga = api.run("relay", {})
    assert saga["status"] == "COMPLETED"
    assert saga["links"]["self"] == f"{urlsplit(api.url).path}/sagas/relay/{saga['saga_id']}"
    assert api.actions(saga)[0] == "SagaStarted"


def test_it_is_kept_in_the_tables_given(mounted: Running) -> None:
    tables = mounted.description["tables"]
    assert "mine" in tables["sagas"].lower()
    assert "history" in tables["audit"].lower()
    saga = Api(mounted).run("relay", {"drop": True})
    kept = mounted.client("dynamodb").get_item(TableName=tables["sagas"], Key={"saga_id": {"S": saga["saga_id"]}})
    assert "Item" in kept
