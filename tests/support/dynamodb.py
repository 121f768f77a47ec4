"""The DynamoDB that the tests of the engine and the handlers ask: tables in memory, behind botocore.

A request is answered where botocore would send it, checked and put into JSON: clients of every kind raise what they
raise on AWS. With ``SAGAS_TESTS_TABLES=dynamodb_local`` AWS's own DynamoDB Local answers; memory answers along, and a
test fails where the two answers differ.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from threading import RLock
from typing import Any, cast
from unittest.mock import patch

from botocore import handlers
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from moto import backend_index, mock_aws
from moto.core import models as moto_core

from sagas.testing.expressions import Item, copied
from sagas.testing.tables import Key, refusal
from tests.support.aws import client
from tests.support.calls import Watch, watching
from tests.support.databases import dynamodb_local
from tests.support.tables import StrictTables

Answer = tuple[Any, Item]
"""What botocore has of an HTTP response, and what it read in its body."""
_NOT_TOLD = ("ResponseMetadata", "ConsumedCapacity", "ItemCollectionMetrics")
"""What nobody reads of an answer."""
_OF_TABLES = ("CreateTable", "DeleteTable", "DescribeTable", "ListTables")


class Declared(StrictTables):
    """Tables that were created: others are not found."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[str, Item] = {}
        self.restored_to: dict[str, datetime] = {}
        """The times that tables say they were restored to."""
        self.streams: dict[str, list[Item]] = {}
        """The records of each table that has a stream: new and old images."""

    def clear(self) -> None:
        super().clear()
        self.made.clear()
        self.restored_to.clear()
        self.streams.clear()

    def answer(self, operation: str, request: Item) -> Item:
        if operation == "CreateTable":
            self.made[request["TableName"]] = request | {"TableStatus": "ACTIVE"}
            return {"TableDescription": copied(self.made[request["TableName"]])}
        if not all(name in self.made for name in tables_of(request)):
            raise refusal("ResourceNotFoundException", operation, "Requested resource not found")
        if operation == "DescribeTable":
            restored = self.restored_to.get(request["TableName"])
            summary = {} if restored is None else {"RestoreSummary": {"RestoreDateTime": restored}}
            return {"Table": copied(self.made[request["TableName"]]) | summary}
        if operation == "DeleteTable":
            self.tables.pop(request["TableName"], None)
            return {"TableDescription": self.made.pop(request["TableName"])}
        return super().answer(operation, request)

    def _put(self, table: str, key: Key, item: Item | None) -> None:
        before = self._table(table).get(key)
        super()._put(table, key, item)
        if table in self.streams and item != before:
            event = "INSERT" if before is None else "REMOVE" if item is None else "MODIFY"
            images = ({} if before is None else {"OldImage": before}) | ({} if item is None else {"NewImage": item})
            self.streams[table].append({"eventName": event, "dynamodb": copied(images)})


def tables_of(request: Item) -> list[str]:
    """Return the names of the tables that a request is for."""
    if "RequestItems" in request:
        return list(request["RequestItems"])
    if "TransactItems" in request:
        return [asked["TableName"] for one in request["TransactItems"] for asked in one.values()]
    return [request["TableName"]]


def _bytes_in(found: Item) -> Item:
    return {"B": base64.b64decode(found["B"])} if len(found) == 1 and isinstance(found.get("B"), str) else found


def _decoded(body: bytes) -> Item:
    return json.loads(body, object_hook=_bytes_in if b'"B"' in body else None)


def _text(item: Item) -> str:
    return json.dumps(item, sort_keys=True, default=repr)


def _comparable(asked: Item, answer: Answer) -> Any:
    """What of an answer must be the same whoever gives it: no order where DynamoDB promises none."""
    _, told = answer
    if "Error" in told:
        reasons = [(one["Code"], one.get("Item")) for one in told.get("CancellationReasons", ())]
        return told["Error"]["Code"], _sets_sorted(reasons), _sets_sorted(told.get("Item"))
    kept: Item = _sets_sorted({name: value for name, value in told.items() if name not in _NOT_TOLD})
    if "Responses" in kept:
        kept["Responses"] = {name: sorted(items, key=_text) for name, items in kept["Responses"].items()}
    if "Count" not in kept or ("KeyConditionExpression" in asked and "IndexName" not in asked):
        return kept
    # A scan finds items in any order, and an index those with the same sort key. So what is on a page may differ, and
    # so may whether a full one is known to be the last.
    if asked.keys() & {"Limit", "ExclusiveStartKey", "Segment"} or "LastEvaluatedKey" in kept:
        return None
    return kept | {"Items": sorted(kept.get("Items", []), key=_text)}


def _sets_sorted(value: Any) -> Any:
    """A set of texts has no order."""
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {name: sorted(one) if name == "SS" else _sets_sorted(one) for name, one in named.items()}
    if isinstance(value, list | tuple):
        return [_sets_sorted(one) for one in cast("list[Any]", value)]
    return value


@dataclass
class Tables:
    """What answers, while it lasts.

    Args:
        local: a client of DynamoDB Local, whose answers are given and must be memory's; without it memory's are given.
    """

    local: Any = None
    memory: Declared = field(default_factory=Declared)
    refuse: Callable[[str, Item], ClientError | None] = lambda operation, request: None
    """Which requests fail, and with what: no engine here runs out of capacity, nor meets another write."""
    deviations: list[str] = field(default_factory=list[str])
    """Requests with two answers: memory's, and DynamoDB Local's."""
    _one_at_a_time: RLock = field(default_factory=RLock)

    def answer(self, model: Any, request: Item) -> Answer:
        """Answer a request that botocore is about to send."""
        with self._one_at_a_time:
            asked = _decoded(request["body"])
            if error := self.refuse(model.name, asked):
                return _answer_of(cast("Any", error).response)
            mine = self._told(model.name, asked)
            if self.local is None:
                return mine
            theirs = self._sent(model, request)
            same = model.name in _OF_TABLES or _comparable(asked, mine) == _comparable(asked, theirs)
            if not same and not self.memory.lag:  # what is behind on purpose is not compared
                # Not raised: the sagas' engine outlives errors.
                self.deviations.append(f"{model.name} {asked}\n  {mine[1]}\n  {theirs[1]}")
            return theirs

    def forget(self) -> None:
        """Delete the tables of DynamoDB Local. Others of this process stay: the store's tests share some."""
        if self.local is not None:
            for name in self.memory.made:
                self.local.delete_table(TableName=name)

    def _told(self, operation: str, asked: Item) -> Answer:
        try:
            answer = self.memory.answer(operation, asked)
        except ClientError as error:
            answer = cast("Item", error.response)
        return _answer_of(answer)

    def _sent(self, model: Any, request: Item) -> Answer:
        """Send what botocore has made ready, below all that listens to the client which made it."""
        own = {"headers": dict(request["headers"]), "context": dict(request["context"])}
        return self.local._endpoint.make_request(model, {**request, **own, "url": self.local.meta.endpoint_url})


def _answer_of(body: Item) -> Answer:
    status = 400 if "Error" in body else 200
    headers = dict[str, str]()
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": headers, "RequestId": "memory", "RetryAttempts": 0}
    return AWSResponse("", status, headers, None), {**body, "ResponseMetadata": metadata}


_open: list[Tables] = []


def _before_call(model: Any, params: Item, **_: Any) -> Answer | None:
    """Answer what goes to AWS; ``None`` has the rest sent."""
    ours = _open and model.service_model.service_name == "dynamodb" and ".amazonaws.com" in params["url"]
    return _open[-1].answer(model, params) if ours else None


_patterns: list[tuple[str, Any]] = cast("Any", backend_index).backend_url_patterns
_patterns.sort(key=lambda one: one[0] != "sqs")
"""Moto goes through the patterns of all services for each request, in this order."""
_handlers = cast("Any", handlers)
_handlers.BUILTIN_HANDLERS.append(("before-call", _before_call, _handlers.REGISTER_LAST))
"""After all who listen: nobody hears of what was answered before. It is what any client made from now on has."""


@contextmanager
def aws(chosen: str | None = None) -> Generator[Tables]:
    """AWS for as long as it lasts: DynamoDB as said above, everything else on moto.

    Args:
        chosen: what answers for DynamoDB; by default what the environment says.
    """
    answering = chosen or os.environ.get("SAGAS_TESTS_TABLES") or "memory"
    assert answering in ("memory", "dynamodb_local"), answering
    local = dynamodb_local().endpoint_url if answering == "dynamodb_local" else None
    # Moto has ``requests`` answered, too, which takes longer to make ready than most tests: nobody here asks it so.
    with patch.object(moto_core, "RESPONSES_METHODS", []), mock_aws():
        if _open:
            yield _open[-1]
            return
        made = Tables(local and client("dynamodb", local))
        _open.append(made)
        watch = Watch()
        watching.append(watch)
        try:
            yield made
        finally:
            _open.clear()
            watching.clear()
            made.forget()
        assert not made.deviations, "\n".join(made.deviations)
        watch.end()
