"""The clients of the naive design, made once for each function."""

from __future__ import annotations

from typing import Any, cast

import boto3

DYNAMODB: Any = cast("Any", boto3).client("dynamodb")
SQS: Any = cast("Any", boto3).client("sqs")
