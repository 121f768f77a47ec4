"""The DynamoDB that the tests of the engine and the handlers ask: tables in memory, behind botocore.

A request is answered where botocore would send it, checked and put into JSON: clients of every kind raise what they
raise on AWS. ``SAGAS_TESTS_TABLES`` says what answers: ``memory``, the default, ``moto`` or ``dynamodb_local``. Memory
always answers along, and must agree:

- where another one answers, with each of its answers;
- with ``SAGAS_TESTS_COMPARE``, as in ``make check``, with moto's answer to the first request of each kind in a
  process, on the same items.

DynamoDB's own documents decide where moto does not do as AWS does.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from threading import RLock
from typing import Any, cast
from unittest.mock import patch

import boto3
from botocore import handlers
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from moto import backend_index, mock_aws
from moto.core import models as moto_core

from sagas.testing.expressions import Item, copied
from sagas.testing.tables import refusal
from tests.support.aws import REGION
from tests.support.calls import Watch, watching
from tests.support.databases import dynamodb_local
from tests.support.tables import StrictTables

Answer = tuple[Any, Item]
"""What botocore has of an HTTP response, and what it read in its body."""
_TEXTS = ("Expression", "IndexName", "Select", "ReturnValues", "ReturnValuesOnConditionCheckFailure", "TableName")
"""What of a request tells its kind by its text; of most else it is enough that it is there."""
_NOT_TOLD = ("ResponseMetadata", "ConsumedCapacity", "ItemCollectionMetrics")
"""What nobody reads of an answer; moto tells the last unasked."""


class Declared(StrictTables):
    """Tables that were created: others are not found."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[str, Item] = {}
        self.restored_to: dict[str, datetime] = {}
        """The times that tables say they were restored to."""

    def clear(self) -> None:
        super().clear()
        self.made.clear()
        self.restored_to.clear()

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


def tables_of(request: Item) -> list[str]:
    """Return the names of the tables that a request is for."""
    if "RequestItems" in request:
        return list(request["RequestItems"])
    if "TransactItems" in request:
        return [asked["TableName"] for one in request["TransactItems"] for asked in one.values()]
    return [request["TableName"]]


def keys_in(request: Item) -> Iterable[tuple[str, Item]]:
    """Yield table and key, or what has it, of each item that a request names."""
    if "RequestItems" in request:
        for name, asked in request["RequestItems"].items():
            if "Keys" in asked:
                yield from ((name, key) for key in asked["Keys"])
            else:
                for write in asked:
                    yield from ((name, one.get("Key") or one["Item"]) for one in write.values())
    elif "TransactItems" in request:
        for one in request["TransactItems"]:
            yield from ((asked["TableName"], asked.get("Key") or asked["Item"]) for asked in one.values())
    elif "Key" in request or "Item" in request:
        yield request["TableName"], request.get("Key") or request["Item"]


def kind_of(operation: str, request: Item, answer: Answer) -> str:
    """Return what a request has in common with others whose answers are right if this one's is."""
    told = answer[1]
    codes = [one["Code"] for one in (told.get("Error", {}), *told.get("CancellationReasons", ())) if one]
    return json.dumps([operation, _shape("", request), sorted(name for name, value in told.items() if value), codes])


def _shape(name: str, value: Any) -> Any:
    if name == "ExpressionAttributeNames":
        return sorted(value.items())
    if name == "ExpressionAttributeValues":
        return sorted((one, *typed) for one, typed in value.items())
    if name in ("Item", "Key", "ExclusiveStartKey"):
        return None
    if name == "ScanIndexForward":
        return value
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {inner.rsplit("-", 1)[-1]: _shape(inner, one) for inner, one in sorted(named.items())}
    if isinstance(value, list):
        return [_shape("", one) for one in cast("list[Any]", value)]
    if name == "TableName":
        return value.rsplit("-", 1)[-1]
    return value if name.endswith(_TEXTS) else None


def _bytes_in(found: Item) -> Item:
    return {"B": base64.b64decode(found["B"])} if len(found) == 1 and isinstance(found.get("B"), str) else found


def _decoded(body: bytes) -> Item:
    return json.loads(body, object_hook=_bytes_in if b'"B"' in body else None)


def _text(item: Item) -> str:
    return json.dumps(item, sort_keys=True, default=repr)


def _as_told(answer: Answer) -> Any:
    """What of an answer must be the same whoever gives it: no order where DynamoDB promises none."""
    _, told = answer
    if "Error" in told:
        reasons = [(one["Code"], one.get("Item")) for one in told.get("CancellationReasons", ())]
        return told["Error"]["Code"], reasons, told.get("Item")
    kept = {name: value for name, value in told.items() if name not in _NOT_TOLD}
    if "Responses" in kept:
        kept["Responses"] = {name: sorted(items, key=_text) for name, items in kept["Responses"].items()}
    return kept


def _sets_sorted(value: Any) -> Any:
    """A set of texts has no order."""
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {name: sorted(one) if name == "SS" else _sets_sorted(one) for name, one in named.items()}
    if isinstance(value, list | tuple):
        return [_sets_sorted(one) for one in cast("list[Any]", value)]
    return value


def _without_order(asked: Item, told: Any) -> Any:
    """An answer without what DynamoDB promises nothing about: in which order a scan finds items, or an index those
    with the same sort key."""
    ordered = "KeyConditionExpression" in asked and "IndexName" not in asked
    if ordered or "Count" not in told:
        return told
    answer: Item = told
    if asked.keys() & {"Limit", "ExclusiveStartKey", "Segment"} or "LastEvaluatedKey" in answer:
        return {}  # so what is on a page may differ, and so may whether a full one is known to be the last
    return answer | {"Items": sorted(answer.get("Items", []), key=_text)}


@dataclass
class Engine:
    """A DynamoDB that is none of ours. ``url``: where; ``None`` is moto."""

    url: str | None = None

    @cached_property
    def _client(self) -> Any:
        session: Any = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)
        return session.client("dynamodb")

    def ask(self, model: Any, request: Item) -> Answer:
        """Send a request that botocore has made ready, below all that listens to the client which made it."""
        request = {**request, "headers": dict(request["headers"]), "context": dict(request["context"])}
        if self.url is not None:
            request["url"] = self.url
        return self._client._endpoint.make_request(model, request)

    def items(self, table: str) -> list[Item]:
        """Return what a table has that is not large."""
        model = self._client.meta.service_model.operation_model("Scan")
        url = self._client.meta.endpoint_url
        request = self._client._convert_to_request_dict({"TableName": table}, model, url, dict[str, Any]())
        return self.ask(model, request)[1]["Items"]

    def forget(self, tables: Iterable[str]) -> None:
        """Delete tables, those that are still there. Others of this process stay: the store's tests share some."""
        client = cast("Any", boto3).client("dynamodb", region_name=REGION, endpoint_url=self.url)
        for name in tables:
            with suppress(client.exceptions.ResourceNotFoundException):
                client.delete_table(TableName=name)


_MOTO = Engine()


@cache
def _engine(name: str) -> Engine:
    return Engine(dynamodb_local().endpoint_url) if name == "dynamodb_local" else _MOTO


@dataclass
class Tables:
    """What answers, while it lasts.

    Args:
        engine: what answers beside memory.
        always: whether it is asked each time, and its answer given; otherwise once for each kind of request.
        compared: whether it is asked at all.
    """

    engine: Engine
    always: bool
    compared: bool
    memory: Declared = field(default_factory=Declared)
    refuse: Callable[[str, Item], ClientError | None] = lambda operation, request: None
    """Which requests fail, and with what: no engine here runs out of capacity, nor meets another write."""
    handed_over: bool = False
    deviations: list[str] = field(default_factory=list[str])
    """Requests with two answers, or two outcomes: memory's, and the other engine's."""
    created: dict[str, tuple[Any, Item]] = field(default_factory=dict[str, tuple[Any, Item]])
    """What created the tables, by their names: a model of botocore, and the request."""
    _there: set[str] = field(default_factory=set[str])
    _one_at_a_time: RLock = field(default_factory=RLock)

    def answer(self, model: Any, request: Item) -> Answer | None:
        """Answer a request that botocore is about to send; ``None`` has it sent."""
        with self._one_at_a_time:
            if model.name == "UpdateTable":  # a stream is asked for, which memory has not
                self._hand_over()
            if self.handed_over:
                return None
            asked = _decoded(request["body"])
            if error := self.refuse(model.name, asked):
                return _answer_of(cast("Any", error).response)
            if model.name == "CreateTable":
                self.created[asked["TableName"]] = (model, request)
            if self.always:
                mine, theirs = self._told(model.name, asked), self.engine.ask(model, request)
                if model.name not in _OF_TABLES:
                    told = _as_told(mine), _as_told(theirs)
                    if self.engine is not _MOTO:
                        told = _without_order(asked, told[0]), _without_order(asked, told[1])
                    self._same(model.name, asked, *told)
                return theirs
            writing = model.name not in _READING
            before = self._items(asked) if writing else []
            mine = self._told(model.name, asked)
            kind = kind_of(model.name, asked, mine)
            if self.compared and kind not in COMPARED and model.name not in _OF_TABLES:
                self._compare(model, request, asked, before if writing else self._items(asked), mine)
                COMPARED.add(kind)
            return mine

    def _told(self, operation: str, asked: Item) -> Answer:
        try:
            answer = self.memory.answer(operation, asked)
        except ClientError as error:
            answer = cast("Item", error.response)
        return _answer_of(answer)

    # Moto, beside memory

    def _items(self, asked: Item) -> list[tuple[str, Item]]:
        """What there is of the items that a request may look at."""
        if "TableName" in asked and not asked.keys() & {"Key", "Item"}:
            return [(asked["TableName"], item) for item in self.memory.items(asked["TableName"])]
        found = ((name, self.memory.item(name, key)) for name, key in keys_in(asked) if name in self.memory.made)
        return [(name, item) for name, item in found if item is not None]

    def _compare(self, model: Any, request: Item, asked: Item, before: list[tuple[str, Item]], mine: Answer) -> None:
        names = [name for name in set(tables_of(asked)) if name in self.memory.made]
        for name in names:
            self._fill(name, [item for table, item in before if table == name])
        self._same(model.name, asked, _as_told(mine), _as_told(self.engine.ask(model, request)))
        if model.name not in _READING:
            left = self._items(asked)
            for name in names:
                ours = [item for table, item in left if table == name]
                self._same(model.name, asked, sorted(ours, key=_text), sorted(self.engine.items(name), key=_text))

    def _same(self, operation: str, asked: Item, mine: Any, theirs: Any) -> None:
        # Not raised: an engine outlives errors. What is behind on purpose is not compared.
        if _sets_sorted(mine) != _sets_sorted(theirs) and not self.memory.lag:
            self.deviations.append(f"{operation} {asked}\n  {mine}\n  {theirs}")

    def _fill(self, name: str, items: list[Item]) -> None:
        """Have moto's table hold these items and no others."""
        if name not in self._there:
            _MOTO.ask(*self.created[name])
            self._there.add(name)
        table = _of_moto(name)
        table.items.clear()
        for item in items:
            table.put_item(copied(item))

    def _hand_over(self) -> None:
        if not self.handed_over and (self.engine is not _MOTO or not self.always):
            for name in self.memory.made:
                self._fill(name, self.memory.items(name))
        self.handed_over = True


def _answer_of(body: Item) -> Answer:
    status = 400 if "Error" in body else 200
    headers = dict[str, str]()
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": headers, "RequestId": "memory", "RetryAttempts": 0}
    return AWSResponse("", status, headers, None), {**body, "ResponseMetadata": metadata}


_OF_TABLES = ("CreateTable", "DeleteTable", "DescribeTable", "ListTables")
_READING = ("GetItem", "BatchGetItem", "Query", "Scan")
COMPARED: set[str] = set()
"""Kinds of requests to which moto gave memory's answer, in this process."""
_open: list[Tables] = []


def _of_moto(name: str) -> Any:
    from moto.dynamodb.models import dynamodb_backends

    return cast("Any", dynamodb_backends)["123456789012"][REGION].tables[name]


def _before_call(model: Any, params: Item, **_: Any) -> Answer | None:
    ours = _open and model.service_model.service_name == "dynamodb" and ".amazonaws.com" in params["url"]
    return _open[-1].answer(model, params) if ours else None


_patterns: list[tuple[str, Any]] = cast("Any", backend_index).backend_url_patterns
_patterns.sort(key=lambda one: one[0] not in ("sqs", "dynamodb"))
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
    assert answering in ("memory", "moto", "dynamodb_local"), answering
    # Moto has ``requests`` answered, too, which takes longer to make ready than most tests: nobody here asks it so.
    with patch.object(moto_core, "RESPONSES_METHODS", []), mock_aws():
        if _open:
            yield _open[-1]
            return
        made = Tables(_engine(answering), answering != "memory", bool(os.environ.get("SAGAS_TESTS_COMPARE")))
        _open.append(made)
        watch = Watch()
        watching.append(watch)
        try:
            yield made
        finally:
            _open.clear()
            watching.clear()
            if made.engine.url is not None:
                made.engine.forget(made.created)
        assert not made.deviations, "\n".join(made.deviations)
        watch.end()
