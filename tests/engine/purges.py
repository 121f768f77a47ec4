"""What tests of purges share: sagas that run to their end, what is stored of them, and a purge by hand."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from sagas.engine.engine import settings_from
from sagas.engine.registry import Registry
from sagas.engine.start.starter import Started
from tests.support.bench import Bench
from tests.support.engine import Engine

HOUR, DAY = 3_600.0, 86_400.0
SECRET = "a book for ann"
REQUEST = {"item": SECRET}


def deploy(bench: Bench, *classes: type[Any], retention: float) -> None:
    """Deploy a bench's sagas with another retention, in seconds."""
    environment = bench.stack.environment
    settings = replace(settings_from(environment), retention=retention)
    bench.engine = Engine(Registry(classes), settings, bench.stack.routes, clock=bench.clock)


def start(bench: Bench, name: str = "trip", request: Any = REQUEST, key: str | None = "key") -> Started:
    """Start a saga, with a key unless that is ``None``."""
    return bench.engine.starter.start(name, request, key=key, actor="ann")


def ended(bench: Bench, name: str = "trip", key: str | None = "key") -> str:
    """A saga that has run to its end."""
    saga_id = start(bench, name, key=key).state.saga_id
    bench.run()
    return saga_id


def item(bench: Bench, saga_id: str) -> dict[str, Any] | None:
    """The control item, if there is one."""
    key = {"saga_id": {"S": saga_id}}
    return bench.stack.dynamodb.get_item(TableName=bench.stack.sagas_table, Key=key).get("Item")


def expire(bench: Bench, saga_id: str, seq: int | None = None) -> None:
    """DynamoDB deletes an item by its time to live: the control item, or an entry."""
    key: dict[str, Any] = {"saga_id": {"S": saga_id}} | ({"seq": {"N": str(seq)}} if seq else {})
    table = bench.stack.audit_table if seq else bench.stack.sagas_table
    bench.stack.dynamodb.delete_item(TableName=table, Key=key)


def stored(bench: Bench) -> str:
    """Everything there is in both tables, and the keys in the bucket."""
    tables = (bench.stack.sagas_table, bench.stack.audit_table)
    items = [bench.stack.dynamodb.scan(TableName=table)["Items"] for table in tables]
    return json.dumps(
        [items, bench.stack.s3.list_objects_v2(Bucket=bench.stack.bucket).get("Contents", [])], default=str
    )


def purge(bench: Bench, saga_id: str, reason: str = "asked for", name: str = "trip") -> Any:
    """An operator has a saga purged; what is left of it."""
    return bench.engine.purger.purge(name, saga_id, reason, "bob")
