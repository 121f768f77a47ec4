"""What a process asks of AWS: every request with its parameters, and what it costs in DynamoDB's units.

It listens at botocore's events, so that it hears whatever is built on botocore.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypedDict, cast

import botocore.session
from botocore.client import BaseClient

from benchmarks.prices import Counts
from benchmarks.units import Index, Item, index_units, item_size, read_units, write_units


class Before(TypedDict):
    """An item before it was written, empty if there was none: with its table and key."""

    table: str
    key: Item
    item: Item


@dataclass(slots=True)
class Request:
    """One request.

    Args:
        service: as botocore calls it.
        operation: as AWS calls it.
        parameters: of the operation.
        before: the items it writes, as they were.
        write_units: of DynamoDB, indexes included.
        read_units: of DynamoDB.
    """

    service: str
    operation: str
    parameters: dict[str, Any]
    before: list[Before] = field(default_factory=list["Before"])
    write_units: float = 0
    read_units: float = 0


def counts_of(requests: Iterable[Request], invocations: int, works: int = 0) -> Counts:
    """Add requests up.

    Args:
        requests: of one saga.
        invocations: in which they were made, of functions that run steps and undos.
        works: steps and undos that they ran; as many as there were invocations unless said.
    """
    asked = list(requests)
    return Counts(
        dict(Counter(request.service for request in asked)),
        sum(request.write_units for request in asked),
        sum(request.read_units for request in asked),
        sum(request.operation == "SendMessage" for request in asked),
        invocations,
        works,
        sum(request.operation == "ChangeMessageVisibility" for request in asked),
    )


class Tables:
    """What lies in the tables, and what they are like.

    Args:
        client: of DynamoDB, to which nothing listens.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._known: dict[str, dict[str, Any]] = {}

    def item(self, table: str, key: Item) -> Item:
        """Return an item as it is now, empty if there is none."""
        return self._client.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item", {})

    def before(self, write: dict[str, Any]) -> Before:
        """Return what a write will change. It names a key or a whole item."""
        table: str = write["TableName"]
        names = (part["AttributeName"] for part in self._description(table)["KeySchema"])
        key: Item = write.get("Key") or {name: write["Item"][name] for name in names}
        return {"table": table, "key": key, "item": self.item(table, key)}

    def indexes(self, table: str) -> list[Index]:
        """Return the indexes of a table."""
        found: list[Index] = []
        for index in self._description(table).get("GlobalSecondaryIndexes", ()):
            assert index["Projection"]["ProjectionType"] != "ALL", "what writing to such an index costs is not known"
            keys = (part["AttributeName"] for part in index["KeySchema"])
            found.append((*keys, *index["Projection"].get("NonKeyAttributes", ())))
        return found

    def _description(self, table: str) -> dict[str, Any]:
        if table not in self._known:
            self._known[table] = self._client.describe_table(TableName=table)["Table"]
        return self._known[table]


class Recorder:
    """Notes the requests of every client in this process.

    To know what a write costs it looks at the item before and after; so it is for one request at a time, and not for
    measuring time.
    """

    def __init__(self) -> None:
        self._requests: list[Request] = []
        self._own: Any = cast("Any", botocore.session).get_session().create_client("dynamodb")
        self._tables = Tables(self._own)
        self._heard: list[Any] = []
        self._call: Any = None

    def install(self) -> None:
        """Listen from now on: to each client from its next call on, whenever it was made."""
        base, recorder = cast("Any", BaseClient), self
        call = self._call = base._make_api_call

        def listening(client: Any, operation: str, parameters: dict[str, Any]) -> Any:
            recorder._listen_to(client)
            return call(client, operation, parameters)

        base._make_api_call = listening

    def remove(self) -> None:
        """Listen no more."""
        cast("Any", BaseClient)._make_api_call = self._call
        for client in self._heard:
            client.meta.events.unregister("before-call", self._sent)
            client.meta.events.unregister("after-call", self._answered)
        self._heard.clear()

    def _listen_to(self, client: Any) -> None:
        if client is not self._own and client not in self._heard:
            self._heard.append(client)
            client.meta.events.register("before-call", self._sent)
            client.meta.events.register("after-call", self._answered)

    def taken(self) -> list[Request]:
        """Return the requests since the last call."""
        taken, self._requests = self._requests, []
        return taken

    def _sent(self, model: Any, params: dict[str, Any], **_: Any) -> None:
        service = model.service_model
        # DynamoDB and SQS: the body is the parameters.
        parameters = params["body"] if service.resolved_protocol == "json" else "{}"
        request = Request(service.service_name, model.name, json.loads(parameters))
        request.before = [self._tables.before(write) for write in _writes(request)]
        self._requests.append(request)

    def _answered(self, parsed: dict[str, Any], **_: Any) -> None:
        request = self._requests[-1]
        transaction = request.operation == "TransactWriteItems"
        for before in request.before:
            item, after = before["item"], self._tables.item(before["table"], before["key"])
            request.write_units += write_units(item, after, transaction=transaction)
            request.write_units += index_units(item, after, self._tables.indexes(before["table"]))
        request.read_units = sum(
            read_units(size, consistent=consistent) for size, consistent in _reads(request, parsed)
        )


def _writes(request: Request) -> list[dict[str, Any]]:
    match request.operation:
        case "PutItem" | "UpdateItem" | "DeleteItem":
            return [request.parameters]
        case "TransactWriteItems":
            return [write for item in request.parameters["TransactItems"] for write in item.values()]
        case _:
            return []


def _reads(request: Request, parsed: dict[str, Any]) -> Iterator[tuple[int, bool]]:
    """Bytes of each thing that is read, 0 for one that is not there, and whether consistently."""
    asked = request.parameters
    match request.operation:
        case "GetItem":
            yield item_size(parsed.get("Item", {})), asked.get("ConsistentRead", False)
        case "BatchGetItem":
            for table, keys in asked["RequestItems"].items():
                sizes = [item_size(item) for item in parsed["Responses"].get(table, [])]
                sizes += [0] * (len(keys["Keys"]) - len(sizes))
                yield from ((size, keys.get("ConsistentRead", False)) for size in sizes)
        case "Query":
            yield sum(map(item_size, parsed["Items"])), asked.get("ConsistentRead", False)
        case _:
            return
