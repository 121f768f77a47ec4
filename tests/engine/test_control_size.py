"""The control item of the largest saga that makes sense stays under a kilobyte: each write of a larger one costs
twice.

Ten steps with undos and short names, a caller's correlation id of 128 bytes, retries, breakers, a lost attempt, stalls,
a cancel, a purge. Two things are larger, and held to what ``docs/reference/limits.md`` says: an operator's
one write that resumes such a saga, and the last undos of ten.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import new_class
from typing import Any

import pytest

from benchmarks.units import KILOBYTE
from sagas.authoring.context import Context
from sagas.authoring.policies import AutoDisable, CircuitBreaker, Exhausted, Retry
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.engine.engine import build_engine
from sagas.engine.registry import Registry
from sagas.errors import Rejected
from sagas.messaging.routes import Routes
from sagas.store.settings import StoreSettings
from tests.engine.metering import Meter, metered
from tests.support.bench import Bench, Death
from tests.support.sagas import FAIL, Order, act

pytestmark = pytest.mark.usefixtures("clean")
Make = Callable[..., Bench]
CORRELATION = "c" * 128
NAMES = ("reserve", "charge", "label", "pack", "load", "ship", "invoice", "book", "notify", "close")
_PATIENT = Retry.constant(max_retries=3, delay=4.0, on_exhausted=Exhausted.DEAD_LETTER)


def _step(name: str) -> Any:
    def run(self: Any, request: Order, ctx: Context) -> str:
        act(name, ctx)
        return name

    def undo(self: Any, ctx: Context) -> None:
        act(f"undo_{name}", ctx)

    run.__name__ = run.__qualname__ = name
    undo.__name__ = undo.__qualname__ = f"undo_{name}"
    made = step(retry=_PATIENT, circuit_breaker=CircuitBreaker(failure_threshold=9))(run)
    return made, made.compensate(undo)


def _largest() -> type[Any]:
    members: dict[str, Any] = {"__module__": __name__, "__qualname__": "Largest", "__doc__": "Every option."}
    for name in NAMES:
        members[name], members[f"undo_{name}"] = _step(name)
    options: dict[str, Any] = {
        "name": "order",
        "version": "1",
        "lock_expiry": timedelta(minutes=5),
        "auto_disable": AutoDisable(threshold=100),
    }
    return new_class("Largest", (Saga[Order],), options, lambda body: body.update(members))


@pytest.fixture
def largest(bench: Make, monkeypatch: pytest.MonkeyPatch) -> tuple[Bench, Meter]:
    """A bench for the largest saga, kept for a day after its end, and what its control item takes."""
    b = bench(_largest())
    environment = b.stack.environment
    settings = StoreSettings(
        b.stack.sagas_table, b.stack.audit_table, b.stack.bucket, shards=64, retention=86_400.0, region="eu-central-1"
    )
    routes = Routes.parse(environment["SAGAS_QUEUES"])
    b.engine = build_engine(Registry(b.stack.classes), settings, routes, clock=b.clock)
    return b, metered(b, monkeypatch)


def _sizes(seen: Meter) -> list[int]:
    assert seen.sizes
    return seen.sizes


def test_on_its_way_with_all_that_can_go_wrong(largest: tuple[Bench, Meter]) -> None:
    b, seen = largest
    saga_id = b.start("order", correlation_id=CORRELATION)
    for name in NAMES:
        FAIL[name] = 2  # each fails twice
    FAIL["close"] = Death()  # a lost attempt: it stays in doubt
    with pytest.raises(Death):
        b.run()
    FAIL["close"] = 99  # ... and fails until its message is a dead letter
    b.clock.advance(1_000)
    for _ in range(3):
        b.lose_messages()  # stalls
        b.clock.advance(5_000)
        b.recover()
    b.run()
    assert b.status(saga_id) == "DEAD_LETTERED"
    assert max(_sizes(seen)) < KILOBYTE
    FAIL.clear()
    b.engine.operations.retry("order", saga_id, "again " * 100, "ann")
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    resuming = [size for size in _sizes(seen) if size >= KILOBYTE]
    assert [round(size, -1) for size in resuming] == [1_120]


def test_to_the_end_of_its_purge(largest: tuple[Bench, Meter]) -> None:
    b, seen = largest
    saga_id = b.start("order", correlation_id=CORRELATION)
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    b.clock.advance(2 * 86_400)
    assert b.engine.purger.run(60.0).purged == [saga_id]
    assert max(_sizes(seen)) < KILOBYTE


def test_undone_in_the_middle_by_a_cancel(largest: tuple[Bench, Meter]) -> None:
    b, seen = largest
    saga_id = b.start("order", correlation_id=CORRELATION)
    for name in NAMES[:5]:
        b.deliver("order", name)
    b.engine.operations.cancel("order", saga_id, "arn:aws:sts::123456789012:assumed-role/Operators/ann@example")
    b.run()
    assert b.status(saga_id) == "CANCELLED"
    assert max(_sizes(seen)) < KILOBYTE


def test_ten_undos(largest: tuple[Bench, Meter]) -> None:
    """Each takes twelve bytes more than its step did."""
    b, seen = largest
    FAIL["close"] = Rejected("no")
    saga_id = b.start("order", correlation_id=CORRELATION)
    b.run()
    assert b.status(saga_id) == "COMPENSATED"
    larger = [size for size in _sizes(seen) if size >= KILOBYTE]
    assert len(larger) <= 6
    assert max(larger) < 1_100
