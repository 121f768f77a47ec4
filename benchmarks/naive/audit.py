"""The audit table: what happened to each saga, in order."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any

from benchmarks.naive.aws import DYNAMODB

TABLE = os.environ["AUDIT_TABLE"]


def write(saga_id: str, action: str, step: str, details: dict[str, Any]) -> None:
    """Add an entry."""
    DYNAMODB.put_item(
        TableName=TABLE,
        Item={
            "saga_id": {"S": saga_id},
            "at": {"S": datetime.now(UTC).isoformat()},
            "action": {"S": action},
            "step": {"S": step},
            "details": {"S": json.dumps(details)},
        },
    )
