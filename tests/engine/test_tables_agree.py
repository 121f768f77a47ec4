"""DynamoDB in memory answers as AWS's own DynamoDB Local does: each kind of request by itself, and every request of
whole lives of sagas. ``make proof PARTS=dynamodb-local`` has every request of all tests of the engine and the handlers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from tests.engine.test_tables_refuse import REFUSED, TAKEN, THERE
from tests.support.aws import client, create_joins_table, create_tables
from tests.support.databases import dynamodb_local
from tests.support.dynamodb import Tables, aws
from tests.support.tables import StrictTables

Request = tuple[str, dict[str, Any]]
pytestmark = pytest.mark.slow
LIVES = (
    *("engine/test_chains.py", "engine/test_costs.py", "engine/test_pivot.py", "engine/test_sweep_actions.py"),
    *("engine/test_upcast.py", "engine/test_waits.py", "handlers/test_actors.py", "handlers/test_breakers.py"),
    *("handlers/test_bulk.py", "handlers/test_children.py", "handlers/test_redaction.py", "handlers/test_search.py"),
)
"""Tests that make half of the kinds of requests that there are, with a tenth of all requests."""


@pytest.fixture
def both(credentials: None) -> Iterator[Tables]:
    """DynamoDB Local and memory answer while it lasts, and fail it where they differ."""
    with aws("dynamodb_local") as tables:
        yield tables


@pytest.mark.timeout(600)
def test_of_lives_of_sagas() -> None:
    dynamodb_local()  # without Java this is skipped, as all others here are
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-m", "not slow and not proof"]
    environment = os.environ | {"SAGAS_TESTS_TABLES": "dynamodb_local"}
    done = subprocess.run(
        [*command, *(f"tests/{name}" for name in LIVES)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


SAGAS, AUDIT, JOINS = "t-sagas", "t-audit", "t-joins"
_N = {f":{n}": {"N": str(n)} for n in range(10)}
_EVEN = {"FilterExpression": "even = :even", "ExpressionAttributeValues": {":k": {"S": "a"}, ":even": {"BOOL": True}}}


def _saga(number: int, **more: Any) -> dict[str, Any]:
    names = {"open_shard": "0", "name_shard": "trip#0", "incident_shard": "0", "ended": "trip#COMPLETED#0"}
    sorts = dict.fromkeys(("due", "created_at", "incident", "ended_at"), f"2026-0{number}")
    texts = {"saga_id": f"s{number}", **names, **sorts}
    return {**{name: {"S": text} for name, text in texts.items()}, **more}


def _entry(number: int, **more: Any) -> dict[str, Any]:
    return {"saga_id": {"S": "a"}, "seq": {"N": str(number)}, "even": {"BOOL": number % 2 == 0}, **more}


FULL = {
    "count": {"N": "1"},
    "part": {"N": "0.5"},
    "text": {"S": "abc"},
    "raw": {"B": b"\x00\xff"},
    "names": {"SS": ["x", "y"]},
    "list": {"L": [{"M": {"status": {"S": "DONE"}}}, {"S": "second"}]},
    "map": {"M": {"part": {"NULL": True}}},
}
KEY = {"saga_id": {"S": "s1"}}
UPDATES = (
    "SET #a = :1, #b = if_not_exists(#b, :2), #list[0].#c = :3",
    "SET #count = #count + :2, #map.part = :1 REMOVE #text",
    "SET #list[7] = :1, #new = if_not_exists(#count, :0) - :9",
    "SET #absent.part = :1",
    "SET #a = #absent + :1",
    "SET #a = #absent",
    "SET #a = #text + :1",
    "ADD #count :5, #absent :1, #names :x REMOVE #raw",
    "ADD #text :1",
    "DELETE #names :x",
    "DELETE #names :xy",
    "REMOVE #list[0]",
    "REMOVE #absent, #map.part",
)
CONDITIONS = (
    "attribute_exists(saga_id)",
    "attribute_not_exists(saga_id)",
    "#absent <> :1",
    "#absent = :1",
    "#absent < :1",
    "#text <> :1",
    "#count <> :1",
    "#count <= :1 AND (#count < :1 OR #count >= :1)",
    "#count IN (:0, :1)",
    "#count BETWEEN :0 AND :1 AND NOT #count BETWEEN :2 AND :3",
    "NOT (#count = :1)",
    "begins_with(#text, :ab)",
    "begins_with(#absent, :ab)",
    "contains(#names, :only)",
    "contains(#text, :ab)",
    "contains(#list, :ab)",
    "#list[0].#c = :ab",
    "#list[9].#c = :ab",
    "#part < :1",
)
_PLACEHOLDERS = {
    **{
        f"#{name}": name for name in ("count", "text", "raw", "names", "part", "absent", "a", "b", "new", "list", "map")
    },
    "#c": "status",
}
_VALUES = {**_N, ":x": {"SS": ["x"]}, ":xy": {"SS": ["x", "y"]}, ":ab": {"S": "ab"}, ":only": {"S": "x"}}


def _with(expression: str, of: str) -> dict[str, Any]:
    """An expression as a parameter, with those of the placeholders that it has."""
    words = expression.translate(str.maketrans("(),.[]", "      ")).split()
    names = {word: _PLACEHOLDERS[word] for word in words if word in _PLACEHOLDERS}
    values = {word: _VALUES[word] for word in words if word in _VALUES}
    return {
        of: expression,
        **({"ExpressionAttributeNames": names} if names else {}),
        **({"ExpressionAttributeValues": values} if values else {}),
    }


def _query(index: str, partition: str, value: str, **more: Any) -> Request:
    named = {"KeyConditionExpression": f"{partition} = :k", "ExpressionAttributeValues": {":k": {"S": value}}}
    table = {"TableName": SAGAS, "IndexName": index} if index else {"TableName": AUDIT, "ConsistentRead": True}
    return "Query", table | named | more


def _transaction(*writes: dict[str, Any]) -> Request:
    return "TransactWriteItems", {"TransactItems": list(writes)}


_PUT = {"Put": {"TableName": AUDIT, "Item": _entry(9), "ConditionExpression": "attribute_not_exists(seq)"}}
_SET = {"TableName": SAGAS, "Key": KEY, "UpdateExpression": "SET v = :1", "ExpressionAttributeValues": {":1": _N[":1"]}}
_HOLDS = {"TableName": SAGAS, "Key": {"saga_id": {"S": "s2"}}, "ConditionExpression": "attribute_exists(due)"}
_FAILS = _HOLDS | {
    "ConditionExpression": "attribute_not_exists(due)",
    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
}
_HUGE = {"S": "x" * 410_000}
WRITES: dict[str, Request] = {
    "put": ("PutItem", {"TableName": SAGAS, "Item": _saga(1)}),
    "put, the old one told": ("PutItem", {"TableName": SAGAS, "Item": _saga(1), "ReturnValues": "ALL_OLD"}),
    "put, refused": ("PutItem", {"TableName": AUDIT, "Item": _entry(1), "ConditionExpression": "even = saga_id"}),
    "put, refused and told": (
        "PutItem",
        {
            "TableName": AUDIT,
            "Item": _entry(1),
            "ConditionExpression": "attribute_not_exists(seq)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        },
    ),
    "put, too large": ("PutItem", {"TableName": SAGAS, "Item": _saga(1, large=_HUGE)}),
    "update, too large": ("UpdateItem", _SET | {"ExpressionAttributeValues": {":1": _HUGE}}),
    "update of nothing": ("UpdateItem", _SET | {"Key": {"saga_id": {"S": "new"}}, "ReturnValues": "ALL_NEW"}),
    "update, the old one told": ("UpdateItem", _SET | {"ReturnValues": "ALL_OLD"}),
    "delete": ("DeleteItem", {"TableName": SAGAS, "Key": KEY, "ReturnValues": "ALL_OLD"}),
    "delete of nothing": ("DeleteItem", {"TableName": SAGAS, "Key": {"saga_id": {"S": "new"}}}),
    "delete, refused": ("DeleteItem", _FAILS),
    "batch": (
        "BatchWriteItem",
        {
            "RequestItems": {
                AUDIT: [{"PutRequest": {"Item": _entry(8)}}, {"DeleteRequest": {"Key": {**KEY, "seq": _N[":1"]}}}],
                SAGAS: [{"DeleteRequest": {"Key": KEY}}],
            }
        },
    ),
    "transaction": _transaction(_PUT, {"Update": _SET}, {"ConditionCheck": _HOLDS}),
    "transaction that deletes": _transaction(_PUT, {"Delete": _HOLDS}),
    "transaction, refused": _transaction(_PUT, {"Update": _SET}, {"ConditionCheck": _FAILS}),
    "transaction, refused twice": _transaction({"Delete": _FAILS}, {"Update": _SET | _FAILS | {"Key": KEY}}),
    "no such table": ("PutItem", {"TableName": "x-sagas", "Item": _saga(1)}),
    **{
        f"update: {one}": ("UpdateItem", {"TableName": SAGAS, "Key": KEY, **_with(one, "UpdateExpression")})
        for one in UPDATES
    },
    **{
        f"condition: {one}": ("DeleteItem", {"TableName": SAGAS, "Key": KEY, **_with(one, "ConditionExpression")})
        for one in CONDITIONS
    },
}
_INDEXES = {
    "open": ("open_shard", "0", "due"),
    "by_name": ("name_shard", "trip#0", "created_at"),
    "incidents": ("incident_shard", "0", "incident"),
    "ended": ("ended", "trip#COMPLETED#0", "ended_at"),
}
READS: dict[str, Request] = {
    "get": ("GetItem", {"TableName": SAGAS, "Key": KEY, "ConsistentRead": True}),
    "get nothing": ("GetItem", {"TableName": SAGAS, "Key": {"saga_id": {"S": "new"}}}),
    "get some attributes": (
        "GetItem",
        {
            "TableName": SAGAS,
            "Key": KEY,
            "ProjectionExpression": "saga_id, #c, absent",
            "ExpressionAttributeNames": {"#c": "count"},
        },
    ),
    "batch": (
        "BatchGetItem",
        {
            "RequestItems": {
                SAGAS: {"Keys": [KEY, {"saga_id": {"S": "new"}}], "ProjectionExpression": "due"},
                AUDIT: {"Keys": [{"saga_id": {"S": "a"}, "seq": _N[":3"]}]},
            }
        },
    ),
    "scan": ("Scan", {"TableName": AUDIT, "ConsistentRead": True}),
    "scan, filtered": (
        "Scan",
        {"TableName": AUDIT, "FilterExpression": "even = :e", "ExpressionAttributeValues": {":e": {"BOOL": True}}},
    ),
    **{
        f"scan, segment {number}": ("Scan", {"TableName": SAGAS, "Segment": number, "TotalSegments": 2})
        for number in range(2)
    },
    "query": _query("", "saga_id", "a"),
    "query backwards": _query("", "saga_id", "a", ScanIndexForward=False, Limit=3),
    "query of nothing": _query("", "saga_id", "b"),
    "query, a page": _query("", "saga_id", "a", Limit=2, ExclusiveStartKey={"saga_id": {"S": "a"}, "seq": _N[":2"]}),
    "query, counted": _query("", "saga_id", "a", Select="COUNT"),
    "query, filtered": _query("", "saga_id", "a", **_EVEN),
    "query, some attributes": _query("", "saga_id", "a", ProjectionExpression="seq"),
    "no such table": ("GetItem", {"TableName": "x-sagas", "Key": KEY}),
    **{
        f"{index} {forward} {limit} after {after}": _query(
            index,
            partition,
            value,
            ScanIndexForward=forward,
            Limit=limit,
            **(
                {
                    "ExclusiveStartKey": {
                        "saga_id": {"S": f"s{after}"},
                        partition: {"S": value},
                        sort: {"S": f"2026-0{after}"},
                    }
                }
                if after
                else {}
            ),
        )
        for index, (partition, value, sort) in _INDEXES.items()
        for forward in (True, False)
        for limit, after in ((2, 0), (9, 0), (2, 3))
    },
    **{
        f"{index} between": _query(
            index,
            partition,
            value,
            KeyConditionExpression=f"{partition} = :k AND {sort} BETWEEN :from AND :to",
            ExpressionAttributeValues={":k": {"S": value}, ":from": {"S": "2026-02"}, ":to": {"S": "2026-04"}},
        )
        for index, (partition, value, sort) in _INDEXES.items()
    },
}


@pytest.fixture
def filled(both: Tables) -> Any:
    """A client of tables that have something."""
    made = client("dynamodb")
    create_tables(made, "t")
    create_joins_table(made, "t")
    for number in range(1, 6):
        made.put_item(TableName=SAGAS, Item=_saga(number, **(FULL if number == 1 else {})))
        made.put_item(TableName=AUDIT, Item=_entry(number))
    return made


def _asked(dynamodb_client: Any, request: Request) -> dict[str, Any]:
    """Ask, whatever the answer is."""
    try:
        return dynamodb_client._make_api_call(*request)
    except ClientError as error:
        answer: Any = error.response
        return answer


@pytest.mark.parametrize("name", WRITES)
def test_writes_leave_the_same(filled: Any, name: str) -> None:
    _asked(filled, WRITES[name])
    for table in (SAGAS, AUDIT, JOINS):
        assert "Items" in _asked(filled, ("Scan", {"TableName": table}))


@pytest.mark.parametrize("name", READS)
def test_reads_find_the_same(both: Tables, filled: Any, name: str) -> None:
    answer = _asked(filled, READS[name])
    if "IndexName" in READS[name][1]:  # no two items have the same sort key, so that there is one order
        assert answer["Items"] == both.memory.answer(*READS[name])["Items"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(filled: Any, name: str) -> None:
    with pytest.raises((ClientError, ParamValidationError)):  # botocore itself does not send some
        filled._make_api_call(*REFUSED[name])


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken(filled: Any, name: str) -> None:
    filled._make_api_call(*THERE)
    filled._make_api_call(*TAKEN[name])


def test_another_answer_fails_the_test_that_asked(credentials: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if who asked outlives it."""
    monkeypatch.setattr(StrictTables, "_get_item", _wrong)
    with pytest.raises(AssertionError, match="GetItem"), aws("dynamodb_local"):
        _get_from_new_tables()


def _wrong(tables: StrictTables, request: object) -> dict[str, Any]:
    return {"Item": KEY}


def _get_from_new_tables() -> None:
    made = client("dynamodb")
    create_tables(made, "t")
    made.get_item(TableName=SAGAS, Key=KEY)


def test_an_engine_keeps_the_tables_of_others(credentials: None) -> None:
    # Those of the store's tests, which are in the same process.
    others = client("dynamodb", dynamodb_local().endpoint_url)
    create_tables(others, "others")
    with aws("dynamodb_local"):
        create_tables(client("dynamodb"), "mine")
        assert others.describe_table(TableName="mine-sagas")["Table"]["TableStatus"] == "ACTIVE"
    assert others.describe_table(TableName="others-sagas")["Table"]["TableStatus"] == "ACTIVE"
    with pytest.raises(others.exceptions.ResourceNotFoundException):
        others.describe_table(TableName="mine-sagas")
