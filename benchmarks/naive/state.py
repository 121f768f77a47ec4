"""The state table: how far each saga is, and what its steps returned."""

from __future__ import annotations

import json
import os
from typing import Any

from benchmarks.naive.aws import DYNAMODB

TABLE = os.environ["STATE_TABLE"]


def status_of(saga_id: str) -> str:
    """Return the status of a saga; one that is not there yet has not begun."""
    found = DYNAMODB.get_item(TableName=TABLE, Key={"saga_id": {"S": saga_id}}, ConsistentRead=True)
    return found["Item"]["status"]["S"] if "Item" in found else "STARTED"


def update(saga_id: str, status: str, step: str, results: dict[str, Any]) -> None:
    """Note where a saga is now."""
    DYNAMODB.update_item(
        TableName=TABLE,
        Key={"saga_id": {"S": saga_id}},
        UpdateExpression="SET #status = :status, #step = :step, #results = :results",
        ExpressionAttributeNames={"#status": "status", "#step": "step", "#results": "results"},
        ExpressionAttributeValues={
            ":status": {"S": status},
            ":step": {"S": step},
            ":results": {"S": json.dumps(results)},
        },
    )
