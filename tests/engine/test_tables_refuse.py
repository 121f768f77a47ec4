"""DynamoDB in memory refuses what AWS refuses of a request as such. ``test_tables_agree.py`` asks AWS's own."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagas.aws import code_of
from tests.support.tables import StrictTables

SAGAS, AUDIT = "t-sagas", "t-audit"
KEY = {"saga_id": {"S": "s1"}}
ENTRY = {"saga_id": {"S": "a"}, "seq": {"N": "1"}}
_ONE = {"ExpressionAttributeValues": {":v": {"N": "1"}}}
_ZERO = {"ExpressionAttributeValues": {":v": {"S": "0"}}}
_HUNDRED = [f":v{number}" for number in range(101)]


def nested(levels: int) -> dict[str, Any]:
    """Lists in lists."""
    return {"L": [nested(levels - 1)]} if levels else {"S": "x"}


def put(**attributes: Any) -> tuple[str, dict[str, Any]]:
    return "PutItem", {"TableName": SAGAS, "Item": {**KEY, **attributes}}


def update(expression: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "UpdateItem", {"TableName": SAGAS, "Key": KEY, "UpdateExpression": expression, **more}


def delete(condition: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "DeleteItem", {"TableName": SAGAS, "Key": KEY, "ConditionExpression": condition, **more}


def query(**more: Any) -> tuple[str, dict[str, Any]]:
    request = {
        "TableName": SAGAS,
        "IndexName": "open",
        "KeyConditionExpression": "open_shard = :k AND due <= :v",
        "ExpressionAttributeValues": {":k": {"S": "0"}, ":v": {"S": "2026-02"}},
    }
    return "Query", request | more


def start(due: str, **more: Any) -> dict[str, Any]:
    return {"ExclusiveStartKey": {**KEY, "open_shard": {"S": "0"}, "due": {"S": due}, **more}}


def batch(*keys: Any) -> tuple[str, dict[str, Any]]:
    return "BatchGetItem", {"RequestItems": {SAGAS: {"Keys": list(keys)}}}


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "a reserved word": delete("status = :v", **_ONE),
    "a reserved word in an update": update("SET #a = :v REMOVE name", ExpressionAttributeNames={"#a": "a"}, **_ONE),
    "an empty condition": delete(""),
    "an empty update": update(" "),
    "an expression over 4 KB": update("REMOVE " + ", ".join(f"attribute_{number}" for number in range(300))),
    "redundant parentheses": delete("((attribute_exists(due)))"),
    "paths that overlap": update("SET #a[0] = :v REMOVE #a", ExpressionAttributeNames={"#a": "a"}, **_ONE),
    "a path twice": update("REMOVE v, v"),
    "too many options": delete(
        f"v IN ({', '.join(_HUNDRED)})", ExpressionAttributeValues={name: {"N": "1"} for name in _HUNDRED}
    ),
    "a key that is changed": update("SET saga_id = :v", ExpressionAttributeValues={":v": {"S": "x"}}),
    "a number of 39 digits": put(v={"N": "1" * 39}),
    "no number": put(v={"N": "NaN"}),
    "a number too large": put(v={"N": "1e126"}),
    "an empty set": put(v={"SS": []}),
    "a name that is empty": put(v={"M": {"": {"S": "x"}}}),
    "lists in lists in lists": put(v=nested(32)),
    "a key that is empty": ("GetItem", {"TableName": SAGAS, "Key": {"saga_id": {"S": ""}}}),
    "a key of another type": ("GetItem", {"TableName": SAGAS, "Key": {"saga_id": {"N": "1"}}}),
    "a key that lacks its sort key": ("GetItem", {"TableName": AUDIT, "Key": KEY}),
    "more than a key": ("GetItem", {"TableName": SAGAS, "Key": ENTRY}),
    "a key over 2 KB": ("GetItem", {"TableName": SAGAS, "Key": {"saga_id": {"S": "x" * 2049}}}),
    "an index's key that is empty": put(open_shard={"S": ""}, due={"S": "x"}),
    "an index's key of another type": put(open_shard={"S": "0"}, due={"N": "1"}),
    "an index's sort key over 1 KB": put(open_shard={"S": "0"}, due={"S": "x" * 1025}),
    "an index's key that an update makes empty": update("SET due = :v", ExpressionAttributeValues={":v": {"S": ""}}),
    "a span that ends before it begins": query(
        KeyConditionExpression="open_shard = :k AND due BETWEEN :v AND :w",
        ExpressionAttributeValues={":k": {"S": "0"}, ":v": {"S": "2026-02"}, ":w": {"S": "2026-01"}},
    ),
    "an order of truths": delete("v < :v", ExpressionAttributeValues={":v": {"BOOL": True}}),
    "a beginning that is a number": delete("begins_with(v, :v)", **_ONE),
    "an index that is to be consistent": query(ConsistentRead=True),
    "no item at all": query(Limit=0),
    "a start beyond the span": query(**start("2026-03")),
    "a start in another partition": query(**start("2026-01", open_shard={"S": "1"})),
    "a start that lacks a key": query(ExclusiveStartKey=KEY),
    "a count of parts": query(Select="COUNT", ProjectionExpression="due"),
    "a filter by a key": query(FilterExpression="due <> :v"),
    "no keys": batch(),
    "101 keys": batch(*({"saga_id": {"S": str(number)}} for number in range(101))),
    "a key twice": batch(KEY, KEY),
    "26 writes": (
        "BatchWriteItem",
        {"RequestItems": {SAGAS: [{"DeleteRequest": {"Key": {"saga_id": {"S": str(n)}}}} for n in range(26)]}},
    ),
    "an empty transaction": ("TransactWriteItems", {"TransactItems": []}),
    "a check of nothing": (
        "TransactWriteItems",
        {"TransactItems": [{"ConditionCheck": {"TableName": SAGAS, "Key": KEY, "ConditionExpression": ""}}]},
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused(what: str) -> None:
    with pytest.raises(ClientError) as raised:
        StrictTables().answer(*REFUSED[what])
    assert code_of(raised.value) == "ValidationException"


THERE = put(a={"L": [{"N": "0"}]}, status={"N": "1"}, due={"S": "-"}, v={"S": "x"})
"""The item about which these are."""
TAKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "the longest numbers": put(v={"N": "-" + "9" * 38}, w={"N": "0.1e-129"}, x={"N": "9.99e125"}),
    "the deepest list": put(v=nested(31)),
    "parentheses that group": delete("(attribute_exists(due) OR (attribute_exists(v) AND due > :v))", **_ZERO),
    "groups side by side": delete("(attribute_exists(due) OR due > :v) AND (due < :v)", **_ZERO),
    "neighbours in a list": update("SET #a[1] = :v, #a[10] = :v", ExpressionAttributeNames={"#a": "a"}, **_ONE),
    "names that begin alike": update("SET a1 = :v REMOVE a11, a12", **_ONE),
    "a reserved word as a placeholder": delete("#status = :v", ExpressionAttributeNames={"#status": "status"}, **_ONE),
    "a start within the span": query(**start("2026-01")),
    "a hundred keys": batch(*({"saga_id": {"S": str(number)}} for number in range(100))),
}  # fmt: skip


@pytest.mark.parametrize("what", TAKEN)
def test_it_is_taken(what: str) -> None:
    """What is refused for the item is none of the request's faults."""
    tables = StrictTables()
    tables.answer(*THERE)
    tables.answer(*TAKEN[what])
