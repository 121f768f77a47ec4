"""The floor of a cold start: what every function imports that uses Powertools' idempotency and two clients."""

from __future__ import annotations

from typing import Any, cast

import boto3
from aws_lambda_powertools.utilities import idempotency

CLIENTS = [cast("Any", boto3).client(service) for service in ("dynamodb", "sqs")]
STORE = cast("Any", idempotency).DynamoDBPersistenceLayer(table_name="floor")


def handler(event: dict[str, Any], context: Any) -> None:
    """Do nothing."""
