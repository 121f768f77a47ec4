"""What is behind POST of the durable function: begins an execution, and does not wait for it."""

from __future__ import annotations

import json
import os
import uuid
from typing import Any, cast

import boto3

LAMBDA: Any = cast("Any", boto3).client("lambda")
FUNCTION = os.environ["DURABLE_FUNCTION"]


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer POST: invoke the durable function."""
    saga_id = str(uuid.uuid4())
    payload = json.dumps({"saga_id": saga_id, "request": json.loads(event["body"])})
    LAMBDA.invoke(FunctionName=FUNCTION, InvocationType="Event", Payload=payload)
    return {"statusCode": 202, "body": json.dumps({"saga_id": saga_id})}
