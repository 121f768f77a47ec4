"""A circuit breaker shared by many environments at once, on an engine whose conditional writes hold."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from sagas import CircuitBreaker, Context, Retry, Saga, step
from sagas.core.commands import Discard, Postpone
from sagas.core.gates import BreakerState
from sagas.engine.attempt.attempt import Invocation
from sagas.engine.registry import Registry
from sagas.engine.start.starter import Starter
from sagas.engine.worker import End, Worker
from sagas.messaging.message import Message
from sagas.messaging.routes import Routes
from sagas.store.tables import StoreSettings
from sagas.store.types.breakers import BreakerItems
from tests.support.aws import REGION, LambdaContext, client, create_tables
from tests.support.bench import ManualClock
from tests.support.databases import emulator
from tests.support.engine import Engine
from tests.support.sagas import FAIL, LOG, Order, act

pytestmark = pytest.mark.usefixtures("clean")

GATE = threading.Event()


class Probed(Saga[Order], name="probed"):
    """A step that says nothing until it is told to go on."""

    @step(retry=Retry.constant(max_retries=2, delay=60), circuit_breaker=CircuitBreaker(3, 30))
    def call(self, ctx: Context) -> None:
        act("call", ctx)
        assert GATE.wait(30)


class _Mail:
    """Queues that nobody reads."""

    def send(self, message: Message, delay: float = 0.0) -> None: ...
    def send_all(self, messages: Sequence[Message]) -> None: ...


@pytest.fixture
def environments(credentials: None) -> list[Engine]:
    """Eight deployments, each with clients and caches of its own, on the emulator."""
    GATE.clear()
    url = emulator().endpoint_url
    sagas, audit = create_tables(client("dynamodb", url), f"breaker-{uuid4().hex[:8]}")
    clock = ManualClock(round(time.time(), 3))
    # A shard count of its own for each keeps the cache of models from giving all the same connection.
    settings = [StoreSettings("test", sagas, audit, shards=n, region=REGION, endpoint_url=url) for n in range(1, 9)]
    routes = Routes("http://queues", {"probed": {"call": "call"}})
    logger = logging.getLogger("sagas")
    return [Engine(Registry([Probed]), each, routes, clock=clock, logger=logger) for each in settings]


def _items(engine: Engine) -> BreakerItems:
    return BreakerItems(engine.tables, engine.control._settings)  # pyright: ignore[reportPrivateUsage]


def _start(engine: Engine) -> Message:
    d = engine
    parts = (d.control, d.journal, _Mail(), d.clock, d.pauses, d.auto_disabler, d.search_keys, d.blueprints)
    starter = Starter(d.settings.service, d.registry, *parts)
    saga_id = starter.start("probed", {"item": "train"}).state.saga_id
    return Message(saga_id, "probed", "call", 0, False, 1, message_id=saga_id)


def _first(futures: list[Future[End]], count: int) -> list[End]:
    """The outcomes of those that are done first."""
    return [future.result() for _, future in zip(range(count), as_completed(futures, timeout=30), strict=False)]


def _handle(engine: Engine, message: Message) -> End:
    worker = Worker(replace(engine.advancer, sender=_Mail()), engine.attempt)
    end, _ = worker.handle(message, Invocation(engine.clock.now() + 60, lambda_context=LambdaContext()))
    return end


def test_failures_of_many_environments_add_up(environments: list[Engine]) -> None:
    FAIL["call"] = RuntimeError("no")
    messages = [_start(environment) for environment in environments[:3]]
    with ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(_handle, environments, messages))
    assert outcomes == [Discard()] * 3, "the retry is a new message"
    store = _items(environments[0])
    assert store.get("probed", "call").failures == 3
    assert not store.get("probed", "call").closed


def test_half_open_lets_one_of_many_environments_try(environments: list[Engine]) -> None:
    clock: Any = environments[0].clock
    store = _items(environments[0])
    opened = BreakerState(failures=3, open_until=clock.now() + 30, revision="opened")
    assert store.swap("probed", "call", BreakerState(), opened) is opened
    clock.time += 30
    messages = [_start(environment) for environment in environments]
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(_handle, *pair) for pair in zip(environments, messages, strict=True)]
        try:
            postponed = _first(waiting, 7)
        finally:
            GATE.set()
        outcomes = [future.result(30) for future in waiting]
    assert all(isinstance(outcome, Postpone) and outcome.until == clock.now() + 5 + 15 for outcome in postponed)
    assert LOG == ["call:1"]
    assert [type(outcome) for outcome in outcomes].count(Discard) == 1
    assert store.get("probed", "call").closed
