"""The supervisor reads in proportion to what stalls, however many sagas there are."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from typing import Any

import pytest

from sagas.core.states import SagaState, StepState
from sagas.engine.clock import uuid7
from sagas.engine.registry import Registry
from sagas.messaging.routes import Routes
from sagas.store.control.mapping import item_of
from sagas.store.tables import StoreSettings, tables_for
from tests.support.aws import REGION, client, create_tables
from tests.support.bench import ManualClock
from tests.support.databases import emulator
from tests.support.engine import Engine
from tests.support.sagas import Trip

pytestmark = pytest.mark.slow

MANY = int(os.environ.get("SAGAS_MANY", "2000"))
"""Sagas in the table; ``make proof`` has 100,000."""
STALE = 50
NAMES = ("book", "pay", "tell")


@pytest.fixture
def url(credentials: None) -> str:
    found = emulator().endpoint_url
    assert found is not None
    return found


def _saga(number: int, updated: float) -> SagaState:
    saga_id = uuid7(updated, number.to_bytes(10, "big"))
    steps = tuple(StepState(name) for name in NAMES)
    return SagaState(saga_id, "trip", "1", steps, saga_id, created_at=updated, updated_at=updated, head=b"h" * 32)


def _fill(settings: StoreSettings, states: list[SagaState]) -> None:
    model = tables_for(settings).control
    with model.batch_write() as batch:
        for state in states:
            batch.save(model.from_raw_data(item_of(state, settings, 120.0)))


def _engine(settings: StoreSettings, run: str, clock: ManualClock, url: str) -> Engine:
    sqs = client("sqs", url)
    names = {name: f"{run}-{name}" for name in NAMES}
    urls = [sqs.create_queue(QueueName=queue)["QueueUrl"] for queue in names.values()]
    routes = Routes(urls[0].rsplit("/", 1)[0], {"trip": names})
    return Engine(Registry([Trip]), settings, routes, clock=clock)


def test_requests_are_in_proportion_to_the_stale(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    # The emulator is that of the whole run, and a subject repeats this test in a process of its own.
    run = f"reads{MANY}-{secrets.token_hex(4)}"
    tables = create_tables(client("dynamodb", url), run)
    settings = StoreSettings("test", *tables, region=REGION, endpoint_url=url)
    _fill(settings, [_saga(n, clock.now() - (3600 if n < STALE else 0)) for n in range(MANY)])
    engine = _engine(settings, run, clock, url)
    seen: Counter[str] = Counter()

    def count(model: Any, **_: Any) -> None:
        seen[model.name] += 1

    control: Any = tables_for(settings).control
    control._get_connection().connection.client.meta.events.register("before-call.dynamodb", count)
    report = engine.recovery.run(600.0)
    assert len(report.recovered) == STALE
    with capsys.disabled():
        print(f"\n{MANY} sagas, {STALE} stale: {dict(seen)}")
    assert seen["Query"] <= 2 * settings.shards + STALE / 10, "a shard has a key for long waits too"
    assert seen["GetItem"] == STALE + 3, "whose tables they are, how many shards there are, and how far the queue got"
    assert sum(seen.values()) <= 5 * STALE
    assert "Scan" not in seen
