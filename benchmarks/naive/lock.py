"""The lock table: one saga is worked on by one function at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager

from benchmarks.naive.aws import DYNAMODB

TABLE = os.environ["LOCK_TABLE"]
SECONDS = 60


@contextmanager
def held(saga_id: str, owner: str) -> Generator[None]:
    """Hold the lock of a saga; fail if another holds it."""
    DYNAMODB.put_item(
        TableName=TABLE,
        Item={"saga_id": {"S": saga_id}, "owner": {"S": owner}, "expires_at": {"N": str(int(time.time()) + SECONDS)}},
        ConditionExpression="attribute_not_exists(saga_id) OR expires_at < :now",
        ExpressionAttributeValues={":now": {"N": str(int(time.time()))}},
    )
    try:
        yield
    finally:
        DYNAMODB.delete_item(
            TableName=TABLE,
            Key={"saga_id": {"S": saga_id}},
            ConditionExpression="#owner = :owner",
            ExpressionAttributeNames={"#owner": "owner"},
            ExpressionAttributeValues={":owner": {"S": owner}},
        )
