"""Expressions of DynamoDB: a placeholder has the name of what it stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=512)
def placeholders(expressions: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """What expressions name: attributes by placeholder, and values. DynamoDB refuses a request that has others."""
    names = {f"#{name}": name for name in re.findall(r"#(\w+)", expressions)}
    return names, tuple(dict.fromkeys(re.findall(r":\w+", expressions)))


def update_of(
    table: str, key: Mapping[str, Any], condition: str, update: str, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the request of an update, with those of the values that it names."""
    names, used = placeholders(f"{condition} {update}")
    return {
        "TableName": table,
        "Key": key,
        "ConditionExpression": condition,
        "UpdateExpression": update,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {name: values[name] for name in used},
    }
