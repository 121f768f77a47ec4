"""What is behind POST in the designs whose saga begins with its first message: bare hops and naive."""

from __future__ import annotations

import json
import os
import uuid
from typing import Any, cast

import boto3

SQS: Any = cast("Any", boto3).client("sqs")
FIRST = os.environ["FIRST_QUEUE_URL"]


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer POST: send the first message."""
    saga_id = str(uuid.uuid4())
    message: dict[str, Any] = {"saga_id": saga_id, "undo": False, "request": json.loads(event["body"]), "results": {}}
    SQS.send_message(QueueUrl=FIRST, MessageBody=json.dumps(message))
    return {"statusCode": 202, "body": json.dumps({"saga_id": saga_id})}
