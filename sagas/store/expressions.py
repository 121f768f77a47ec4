"""DynamoDB expressions, whose placeholders have the names of their attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=512)
def placeholders(expressions: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the attributes and the values that expressions use, by placeholder. DynamoDB refuses unused ones."""
    names = {f"#{name}": name for name in re.findall(r"#(\w+)", expressions)}
    return names, tuple(dict.fromkeys(re.findall(r":\w+", expressions)))


def update_of(
    table: str, key: Mapping[str, Any], condition: str, update: str, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the request of an update, with only the values that it uses."""
    names, used = placeholders(f"{condition} {update}")
    return {
        "TableName": table,
        "Key": key,
        "ConditionExpression": condition,
        "UpdateExpression": update,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {name: values[name] for name in used},
    }
