"""What is written to the tables and read from them, in DynamoDB's units, and how many messages are sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from botocore.client import BaseClient

from benchmarks.units import index_units, item_size, write_units
from tests.support.bench import Bench

_INDEXES = (
    ("open_shard", "due"),
    ("name_shard", "created_at"),
    ("incident_shard", "incident", "seq"),
    ("ended", "ended_at"),
)
_LAMBDAS = ("ReceiveMessage", "DeleteMessage")
"""What a bench asks of SQS in Lambda's stead."""


@dataclass
class Wire:
    """The requests that left, in order, each with its parameters. What an environment reads once in five seconds,
    whatever it does, is kept apart: which types are paused."""

    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    of_pauses: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def names(self) -> list[str]:
        return [name for name, _ in self.requests]


@dataclass
class Meter:
    """Sees the control item after every write, and adds up units by DynamoDB's rules. Whatever is read by its key has
    less than 4 KB here: a unit each."""

    sizes: list[int] = field(default_factory=list[int])
    dues: list[str] = field(default_factory=list[str])
    control_units: int = 0
    entry_units: int = 0
    join_units: int = 0
    index_units: int = 0
    read_units: float = 0
    messages: int = 0
    requests: list[str] = field(default_factory=list[str])
    items: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def clear(self) -> None:
        """Begin to count anew. What the items are stays known."""
        for name, value in vars(Meter(items=self.items)).items():
            setattr(self, name, value)

    @property
    def units(self) -> int:
        """Of the tables, without the indexes."""
        return self.control_units + self.entry_units + self.join_units

    def control_written(self, saga_id: str, after: dict[str, Any], *, transaction: bool) -> None:
        before, self.items[saga_id] = self.items.get(saga_id, {}), after
        self.control_units += write_units(before, after, transaction=transaction)
        self.index_units += index_units(before, after, _INDEXES)
        self.sizes.append(item_size(after))
        due = after.get("due", {}).get("S", "")
        if due not in self.dues[-1:]:
            self.dues.append(due)

    def asked(self, operation: str, parameters: dict[str, Any]) -> None:
        if operation not in _LAMBDAS:
            self.requests.append(operation)
        self.read_units += operation == "GetItem"
        self.read_units += 0.5 * _of_paused_sagas(parameters)
        self.messages += operation == "SendMessage"
        if operation == "BatchGetItem":
            self.read_units += sum(len(asked["Keys"]) for asked in parameters["RequestItems"].values())
        elif operation == "SendMessageBatch":
            self.messages += len(parameters["Entries"])
        elif operation == "BatchWriteItem":
            # Deleted: entries of less than a kilobyte here.
            self.entry_units += sum(map(len, parameters["RequestItems"].values()))

    def entry_written(self, item: dict[str, Any], *, transaction: bool) -> None:
        self.entry_units += write_units({}, item, transaction=transaction)


def metered(w: Bench, monkeypatch: pytest.MonkeyPatch) -> Meter:
    """Watch what a bench's tables hold after each write, from now on."""
    seen, send = Meter(), cast("Any", BaseClient)._make_api_call

    def written(request: dict[str, Any], *, transaction: bool) -> None:
        if request["TableName"] == w.stack.sagas_table:
            saga_id = (request.get("Key") or request["Item"])["saga_id"]["S"]
            found = send(w.stack.dynamodb, "GetItem", {"TableName": w.stack.sagas_table, "Key": _key(saga_id)})
            seen.control_written(saga_id, found.get("Item", {}), transaction=transaction)
        elif request["TableName"] == w.stack.joins_table:
            # An outcome or a counter of sixteen: less than a kilobyte.
            seen.join_units += 2 if transaction else 1
        elif "Item" in request:
            seen.entry_written(request["Item"], transaction=transaction)
        else:
            read = {"TableName": w.stack.audit_table, "Key": request["Key"]}
            seen.entry_written(send(w.stack.dynamodb, "GetItem", read)["Item"], transaction=transaction)

    def metering(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        answer = send(self, operation, parameters)
        if _of_many_sagas(parameters):
            return answer
        seen.asked(operation, parameters)
        for request in _writes(operation, parameters):
            written(request, transaction=operation == "TransactWriteItems")
        return answer

    monkeypatch.setattr(BaseClient, "_make_api_call", metering)
    return seen


def _writes(operation: str, parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The writes of a request, each with its table. What a batch deletes counts where it is asked for."""
    if operation in ("PutItem", "UpdateItem", "DeleteItem"):
        yield parameters
    elif operation == "TransactWriteItems":
        for item in parameters["TransactItems"]:
            yield from item.values()


def _of_many_sagas(parameters: dict[str, Any]) -> bool:
    """Whether a request looks for sagas in an index, or is about a saga type, which an environment reads or notes once
    in a while: whether it is paused, how its sagas fared, which steps it still sends to queues of their own."""
    if "TableName" not in parameters:
        return False
    key: dict[str, Any] = parameters.get("Key") or parameters.get("Item") or {}
    named: str = key.get("saga_id", {}).get("S", "")
    in_an_index = "IndexName" in parameters and not _of_paused_sagas(parameters)
    return in_an_index or named == "pauses" or named.startswith(("streak#", "lane#"))


def _of_paused_sagas(parameters: dict[str, Any]) -> bool:
    """Whether a request looks for what pauses have marked, of which there is nothing here: half a unit."""
    shard: dict[str, str] = parameters.get("ExpressionAttributeValues", {}).get(":shard", {})
    return shard.get("S", "").startswith("paused#")


def _key(saga_id: str) -> dict[str, Any]:
    return {"saga_id": {"S": saga_id}}
