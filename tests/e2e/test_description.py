"""``.sagas/local.json``: what the local stack says of itself."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from sagas.messaging.routes import Routes
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.emulated("it is about `.sagas/local.json`")]


def test_names_everything(local_stack: Stack) -> None:
    description = local_stack.description
    assert set(description) == {
        "endpoint_url", "region", "api_url", "tables", "queues", "dead_letter_queues", "functions", "supervisor",
        "outputs", "pid", "work_queues", "work_dead_letter_queues", "log_groups", "command_queue",
        "command_dead_letter_queue", "events_function", "detached", "enforce_iam",
    }  # fmt: skip
    assert set(description["tables"]) == {"sagas", "audit"}
    assert (
        set(description["queues"])
        == {"create-zip", "checkout", "approval", "basket", "parcel"}
        == set(description["dead_letter_queues"])
    )
    assert description["functions"].keys() == description["queues"].keys()
    assert {"ZipsBucket", "StockTable", "LedgerTable", "ShipmentsTable", "AnnounceTopicArn"} <= set(
        description["outputs"]
    )


def test_items_expire_in_the_audit_table_alone(local_stack: Stack) -> None:
    """A tombstone expires. A control item never does: its purge takes the entries along."""
    dynamodb = local_stack.client("dynamodb")
    found = {
        name: dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"].get("AttributeName")
        for name, table in local_stack.description["tables"].items()
    }
    assert found == {"sagas": None, "audit": "expires_at"}


def test_functions_find_queues_and_tables(local_stack: Stack) -> None:
    description = local_stack.description
    functions = local_stack.client("lambda")
    for saga, steps in description["functions"].items():
        for step, name in steps.items():
            variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
            assert variables["SAGAS_TABLE"] == description["tables"]["sagas"]
            assert queue_url(variables, saga, step) == description["queues"][saga][step]


@pytest.mark.embedded("it is about the emulator's address")
def test_answers_only_on_loopback(local_stack: Stack) -> None:
    port = int(local_stack.description["endpoint_url"].rsplit(":", 1)[1])
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.2", port)) != 0


def queue_url(variables: dict[str, Any], saga: str, step: str) -> str:
    """A queue's URL as a function puts it together."""
    return Routes.parse(variables["SAGAS_QUEUES"], {saga: [step]}).queue(saga, step)
