"""A hop: sends the message to the next queue."""

from __future__ import annotations

import json
import os
from typing import Any, cast

import boto3

SQS: Any = cast("Any", boto3).client("sqs")
NEXT: str | None = json.loads(os.environ["NEXT_QUEUE_URLS"]).get("forward")


def handler(event: dict[str, Any], context: Any) -> None:
    """Handle an SQS event."""
    for record in event["Records"]:
        if NEXT:
            SQS.send_message(QueueUrl=NEXT, MessageBody=record["body"])
