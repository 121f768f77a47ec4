"""The store on tables in memory, on DynamoDB Local and on the emulator.

Each test gets its own ids. DynamoDB Local and the emulator keep one set of tables for all tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from sagas.store.control.control import ControlItems
from sagas.store.index.listing import Listing
from sagas.store.journal.journal import Journal, Payloads, prefix_of
from sagas.store.journal.tombstones import Tombstones
from sagas.store.tables import StoreSettings, Tables, tables_for
from sagas.store.types.streaks import Streaks
from tests.support.aws import REGION, client, create_joins_table, create_tables
from tests.support.databases import Database, database, lead_nowhere
from tests.support.dynamodb import aws

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
    streaks: Streaks
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
    settings = StoreSettings(
        prefix, sagas, audit, f"{prefix}-payloads", shards=SHARDS, region=REGION, endpoint_url=where.endpoint_url
    )
    settings = replace(settings, joins_table=create_joins_table(dynamodb, prefix))
    return with_bucket(store_for(settings, where, dynamodb, s3))


def with_bucket(store: Store) -> Store:
    """The store with its bucket, which moto forgets after each test."""
    with suppress(store.s3.exceptions.BucketAlreadyOwnedByYou):
        place = {"LocationConstraint": REGION}
        store.s3.create_bucket(Bucket=store.settings.payload_bucket, CreateBucketConfiguration=place)
    return store


def store_for(settings: StoreSettings, where: Database, dynamodb: Any, s3: Any) -> Store:
    """The store on tables that exist."""
    tables = tables_for(settings)
    payloads = Payloads(replace(settings, endpoint_url=where.s3_url))
    control, journal = ControlItems(tables, settings), Journal(tables, payloads)
    streaks = Streaks(tables)
    tombstones = Tombstones(tables, settings, payloads)
    listing = Listing(tables, settings)
    return Store(settings, tables, control, journal, listing, streaks, tombstones, payloads, dynamodb, s3)


@cache
def _shared(where: Database) -> Store:
    return connect(where, f"shared-{os.getpid()}")


SLOW = pytest.mark.slow
ENGINES = (
    "memory",
    pytest.param("dynamodb_local", marks=SLOW),
    pytest.param("emulator", marks=SLOW),
)
CONCURRENT = (pytest.param("dynamodb_local", marks=SLOW), pytest.param("emulator", marks=SLOW))
"""The engines whose conditional writes hold under concurrency."""


@pytest.fixture(params=ENGINES)
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """Every engine in turn."""
    lead_nowhere(monkeypatch)
    with aws("memory"):
        yield database(request.param)


@pytest.fixture
def store(where: Database) -> Store:
    """The store on this engine."""
    return with_bucket(_shared(where)) if where.endpoint_url else connect(where, f"shared-{where.name}")


@pytest.fixture
def fresh(where: Database, request: pytest.FixtureRequest) -> Store:
    """The store on this engine, on tables that nobody else uses."""
    return connect(where, f"fresh-{abs(hash(request.node.nodeid)):x}")
