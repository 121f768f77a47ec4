"""What is written to the tables, in DynamoDB's units."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from botocore.client import BaseClient

from tests.engine.conftest import World

KILOBYTE = 1024


def _number_size(text: str) -> int:
    digits = text.lstrip("-").replace(".", "").strip("0")
    return math.ceil(len(digits) / 2) + 1 + text.startswith("-")


def _value_size(value: dict[str, Any]) -> int:
    [(kind, content)] = value.items()
    if kind == "S":
        return len(content.encode())
    if kind == "N":
        return _number_size(content)
    if kind == "M":
        return 3 + sum(1 + len(name.encode()) + _value_size(inner) for name, inner in content.items())
    if kind == "L":
        return 3 + sum(1 + _value_size(inner) for inner in content)
    return 1


def item_size(item: dict[str, Any]) -> int:
    """Bytes of an item by DynamoDB's rules: names and values in UTF-8, a number by its digits, 3 for a container and 1
    for each of its members."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _units(size: int) -> int:
    return math.ceil(size / KILOBYTE)


def _index_units(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Writes that the indexes cost: none while their keys stay, two when a key changes, one to enter or leave."""
    total = 0
    for keys in (("open_shard", "due"), ("name_shard", "created_at")):
        old, new = (tuple(json.dumps(item.get(key)) for key in keys) for item in (before, after))
        if old != new:
            total += sum("null" not in side for side in (old, new))
    return total


@dataclass
class Meter:
    """Sees the control item after every write, and adds up write units by DynamoDB's rules."""

    sizes: list[int] = field(default_factory=list[int])
    dues: list[str] = field(default_factory=list[str])
    control_units: int = 0
    entry_units: int = 0
    index_units: int = 0
    item: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def units(self) -> int:
        """Of both tables, without the indexes."""
        return self.control_units + self.entry_units

    def control_written(self, after: dict[str, Any], factor: int) -> None:
        before, self.item = self.item, after
        self.control_units += factor * _units(max(item_size(before), item_size(after)))
        self.index_units += _index_units(before, after)
        self.sizes.append(item_size(after))
        due = after.get("due", {}).get("S", "")
        if due not in self.dues[-1:]:
            self.dues.append(due)

    def entry_written(self, item: dict[str, Any], factor: int) -> None:
        self.entry_units += factor * _units(item_size(item))


def metered(w: World, monkeypatch: pytest.MonkeyPatch) -> Meter:
    """Watch what a world's tables hold after each write, from now on."""
    seen, send = Meter(), cast("Any", BaseClient)._make_api_call

    def written(request: dict[str, Any], factor: int) -> None:
        if request["TableName"] == w.stack.sagas_table:
            saga_id = (request.get("Key") or request["Item"])["saga_id"]["S"]
            found = send(w.stack.dynamodb, "GetItem", {"TableName": w.stack.sagas_table, "Key": _key(saga_id)})
            seen.control_written(found["Item"], factor)
        else:
            seen.entry_written(request["Item"], factor)

    def metering(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        answer = send(self, operation, parameters)
        if operation in ("PutItem", "UpdateItem"):
            written(parameters, 1)
        elif operation == "TransactWriteItems":
            for item in parameters["TransactItems"]:
                [request] = item.values()
                written(request, 2)
        return answer

    monkeypatch.setattr(BaseClient, "_make_api_call", metering)
    return seen


def _key(saga_id: str) -> dict[str, Any]:
    return {"saga_id": {"S": saga_id}}
