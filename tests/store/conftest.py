"""The store over every engine there is. Each test gets its own ids; tables are shared but with moto."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
from moto import mock_aws

from sagas.store.activities import Activities
from sagas.store.control import ControlItems
from sagas.store.journal import Journal
from sagas.store.listing import Listing
from sagas.store.payloads import Payloads, prefix_of
from sagas.store.settings import StoreSettings
from sagas.store.tables import Tables, tables_for
from sagas.store.tombstones import Tombstones
from tests.support.aws import REGION, client, create_joins_table, create_tables
from tests.support.databases import DATABASES, Database, database

SHARDS = 3
STALE_AFTER = 120.0
"""Seconds; what every write is told."""


@dataclass(frozen=True)
class Store:
    """The adapters under test on one pair of tables, and the plain clients to look behind them."""

    settings: StoreSettings
    tables: Tables
    control: ControlItems
    journal: Journal
    listing: Listing
    activities: Activities
    tombstones: Tombstones
    payloads: Payloads
    dynamodb: Any
    s3: Any

    def item(self, saga_id: str) -> dict[str, Any] | None:
        """The control item as DynamoDB has it; ``None`` if there is none."""
        key = {"saga_id": {"S": saga_id}}
        return self.dynamodb.get_item(TableName=self.settings.sagas_table, Key=key, ConsistentRead=True).get("Item")

    def entry(self, saga_id: str, seq: int) -> dict[str, Any] | None:
        """The journal entry as DynamoDB has it; ``None`` if there is none."""
        key = {"saga_id": {"S": saga_id}, "seq": {"N": str(seq)}}
        return self.dynamodb.get_item(TableName=self.settings.audit_table, Key=key, ConsistentRead=True).get("Item")

    def payload_keys(self, saga_id: str) -> list[str]:
        """The keys of the saga's payloads in S3."""
        found = self.s3.list_objects_v2(Bucket=self.settings.payload_bucket, Prefix=prefix_of(saga_id))
        return [item["Key"] for item in found.get("Contents", [])]


def connect(where: Database, prefix: str) -> Store:
    """The store on new tables."""
    dynamodb, s3 = client("dynamodb", where.endpoint_url), client("s3", where.s3_url)
    sagas, audit = create_tables(dynamodb, prefix)
    bucket = f"{prefix}-payloads"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    settings = StoreSettings(sagas, audit, bucket, shards=SHARDS, region=REGION, endpoint_url=where.endpoint_url)
    settings = replace(settings, joins_table=create_joins_table(dynamodb, prefix))
    return store_for(settings, where, dynamodb, s3)


def store_for(settings: StoreSettings, where: Database, dynamodb: Any, s3: Any) -> Store:
    """The store on tables that exist."""
    tables = tables_for(settings)
    payloads = Payloads(replace(settings, endpoint_url=where.s3_url))
    control, journal = ControlItems(tables, settings), Journal(tables, payloads)
    activities = Activities(tables, lambda: 0.0)
    tombstones = Tombstones(tables, settings, payloads)
    listing = Listing(tables, settings)
    return Store(settings, tables, control, journal, listing, activities, tombstones, payloads, dynamodb, s3)


@cache
def _shared(where: Database) -> Store:
    return connect(where, f"shared-{where.name.replace('_', '-')}")


@pytest.fixture(params=["moto", *DATABASES])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """Every engine in turn."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with ExitStack() as stack:
        if request.param == "moto":
            stack.enter_context(mock_aws())
        yield database(request.param)


@pytest.fixture
def store(where: Database) -> Store:
    """The store on this engine."""
    return connect(where, "shared-moto") if where.name == "moto" else _shared(where)


@pytest.fixture
def fresh(where: Database, request: pytest.FixtureRequest) -> Store:
    """The store on this engine, on tables that nobody else uses."""
    return connect(where, f"fresh-{abs(hash(request.node.nodeid)):x}")
