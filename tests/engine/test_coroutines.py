"""Steps that are coroutines: they are cancelled at their deadline and with their saga, and may clean up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from sagas import Context, Retry, Saga, step
from sagas.errors import Rejected
from tests.engine.acting import ACT, failures, until
from tests.support.bench import Bench, Make, ManualClock
from tests.support.sagas import LOG, Order

pytestmark = pytest.mark.usefixtures("clean", "acting")
_TWICE = Retry.constant(max_retries=1, delay=0.0)


class RunningClock(ManualClock):
    """Goes on by itself, and can be moved."""

    def now(self) -> float:
        return round(self.time + time.monotonic() - _ZERO, 3)


_ZERO = time.monotonic()


async def acted(ctx: Context, name: str) -> str:
    """Note the execution, and act as the test says."""
    LOG.append(f"{name}:{ctx.attempt}")
    if ACT:
        await _coroutine(ACT.pop(0)(ctx))
    return "paid"


class Async(Saga[Order], name="async"):
    """Half a second, for both ways."""

    @step(retry=_TWICE, timeout=0.5)
    async def pay(self, ctx: Context) -> str:
        return await acted(ctx, "pay")

    @pay.compensate
    async def refund(self, ctx: Context) -> None:
        await acted(ctx, "refund")

    @step
    def ship(self, pay: str, request: Order) -> None:
        if request.item == "nowhere":
            raise Rejected("no such address")


class Lasting(Saga[Order], name="lasting"):
    """Half a minute."""

    @step(retry=_TWICE, timeout=30)
    async def pay(self, ctx: Context) -> str:
        return await acted(ctx, "pay")

    @pay.compensate
    async def refund(self, ctx: Context) -> None:
        LOG.append(f"refund:{ctx.attempt}")


async def _coroutine(acted: object) -> None:
    assert asyncio.iscoroutine(acted)
    await acted


async def _cleaning_up(seconds: float = 60.0) -> None:
    try:
        await asyncio.sleep(seconds)
    finally:
        LOG.append("cleans up")
        await asyncio.sleep(0.01)
        LOG.append("clean")


async def _swallowing() -> None:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        LOG.append("swallowed")


async def _stubborn() -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            LOG.append("swallowed")


def test_a_coroutine_is_cancelled_at_its_deadline_and_may_clean_up(bench: Make) -> None:
    b = bench(Async, clock=RunningClock())
    ACT.append(lambda ctx: _cleaning_up())
    saga_id = b.start("async")
    begun = time.monotonic()
    b.run()
    assert time.monotonic() - begun < 20
    assert LOG == ["pay:1", "cleans up", "clean", "pay:2"]
    assert failures(b, saga_id) == ["TimedOut"]
    assert b.entry(saga_id, "StepFailed")["details"]["outcome_unknown"] is True
    assert "it was cancelled" in b.entry(saga_id, "StepFailed")["details"]["error"]["message"]
    assert b.status(saga_id) == "COMPLETED"


def test_what_it_returns_after_that_is_late(bench: Make) -> None:
    b = bench(Async, clock=RunningClock())
    ACT.append(lambda ctx: _swallowing())
    saga_id = b.start("async")
    b.run()
    assert LOG == ["pay:1", "swallowed", "pay:2"]
    assert failures(b, saga_id) == ["TimedOut"]


def test_one_that_does_not_end_is_left_behind(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.engine.attempt.context._CLEANUP", 0.3)
    monkeypatch.setattr("sagas.engine.attempt.context._LEAST_CLEANUP", 0.3)
    b = bench(Async, clock=RunningClock())
    ACT.append(lambda ctx: _stubborn())
    saga_id = b.start("async")
    b.run()
    assert LOG == ["pay:1", "swallowed", "pay:2"]
    assert failures(b, saga_id) == ["TimedOut"]
    assert "ignored its cancellation" in b.entry(saga_id, "StepFailed")["details"]["error"]["message"]
    assert b.status(saga_id) == "COMPLETED"


def test_an_undo_is_cancelled_at_its_deadline_too(bench: Make) -> None:
    b = bench(Async, clock=RunningClock())
    ACT.extend([lambda ctx: asyncio.sleep(0), lambda ctx: _cleaning_up()])
    saga_id = b.start("async", {"item": "nowhere"})
    b.run()
    assert LOG == ["pay:1", "refund:1", "cleans up", "clean", "refund:2"]
    assert b.entry(saga_id, "CompensationAttemptFailed")["details"]["error"]["type"] == "TimedOut"
    assert b.status(saga_id) == "COMPENSATED"


async def _cancelled_meanwhile(b: Bench, ctx: Context, rest: Callable[[], object]) -> None:
    b.engine.operations.cancel("lasting", ctx.saga_id, "ada")
    b.clock.advance(5)
    await _coroutine(rest())


def test_a_coroutine_is_cancelled_with_its_saga(bench: Make) -> None:
    b = bench(Lasting)
    ACT.append(lambda ctx: _cancelled_meanwhile(b, ctx, _cleaning_up))
    saga_id = b.start("lasting")
    b.run()
    assert LOG == ["pay:1", "cleans up", "clean"]
    assert b.status(saga_id) == "CANCELLED"
    details = b.entry(saga_id, "StepFailed")["details"]
    assert (details["error"]["type"], details["excused"]) == ("Cancelled", True)
    assert "outcome_unknown" not in details
    assert b.show(saga_id)["in_doubt"] == []


def test_what_it_returns_after_a_cancel_is_its_result(bench: Make) -> None:
    b = bench(Lasting)
    ACT.append(lambda ctx: _cancelled_meanwhile(b, ctx, _swallowing))
    saga_id = b.start("lasting")
    b.run()
    assert LOG == ["pay:1", "swallowed", "refund:1"]
    assert b.status(saga_id) == "CANCELLED"
    assert "StepCompleted" in b.actions(saga_id)


def test_a_coroutine_whose_lease_was_lost_is_cancelled(bench: Make) -> None:
    b = bench(Lasting)

    def losing(ctx: Context) -> object:
        ctx.mark_lost()  # type: ignore[attr-defined]
        return _cleaning_up()

    ACT.append(losing)
    saga_id = b.start("lasting")
    b.deliver("lasting", "pay")
    assert LOG[:3] == ["pay:1", "cleans up", "clean"]
    assert failures(b, saga_id) == ["Cancelled"]


def test_nobody_is_asked_of_a_cancel_in_the_first_seconds(bench: Make, asked: list[str]) -> None:
    b = bench(Lasting)
    seen: list[list[str]] = []

    async def waiting() -> None:
        asked.clear()
        b.clock.advance(3.9)
        await asyncio.sleep(0.5)
        seen.append(list(asked))
        b.clock.advance(0.2)
        await asyncio.to_thread(until, lambda: asked)
        await asyncio.sleep(0.5)
        seen.append(list(asked))

    ACT.append(lambda ctx: waiting())
    b.start("lasting")
    b.deliver("lasting", "pay")
    assert seen == [[], ["GetItem"]]


def test_a_coroutine_that_cancels_itself_has_failed(bench: Make) -> None:
    async def quitting() -> None:
        raise asyncio.CancelledError

    b = bench(Lasting)
    ACT.append(lambda ctx: quitting())
    saga_id = b.start("lasting")
    b.run()
    assert failures(b, saga_id) == ["StepExited"]
    assert b.status(saga_id) == "COMPLETED"


def test_no_thread_is_left(bench: Make) -> None:
    before = threading.active_count()
    b = bench(Lasting)
    ACT.append(lambda ctx: _cancelled_meanwhile(b, ctx, _cleaning_up))
    b.start("lasting")
    b.run()
    until(lambda: threading.active_count() <= before)


@pytest.fixture
def late() -> Iterator[threading.Event]:
    """What a thread waits for; it is let go when the test has ended."""
    event = threading.Event()
    yield event
    event.set()


def test_what_it_returns_counts_while_a_thread_runs_on(bench: Make, late: threading.Event) -> None:
    async def leaving() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(late.wait, 5), 0.01)

    b = bench(Async, clock=RunningClock())
    ACT.append(lambda ctx: leaving())
    saga_id = b.start("async")
    b.run()
    assert (b.status(saga_id), LOG) == ("COMPLETED", ["pay:1"])


def test_one_that_is_cancelled_in_a_thread_is_recorded_at_once(bench: Make, late: threading.Event) -> None:
    ended: list[bool] = []
    b = bench(Async, clock=RunningClock())
    ACT.append(lambda ctx: asyncio.to_thread(lambda: ended.append(late.wait(5))))
    saga_id = b.start("async")
    b.run()
    assert failures(b, saga_id) == ["TimedOut"]
    assert (b.status(saga_id), ended) == ("COMPLETED", [])


@pytest.mark.parametrize("left", [_cleaning_up, _stubborn])
def test_tasks_that_it_leaves_are_cancelled(bench: Make, monkeypatch: pytest.MonkeyPatch, left: Any) -> None:
    monkeypatch.setattr("sagas.engine.attempt.coroutines._LEFT", 0.1)
    tasks: list[asyncio.Task[None]] = []

    async def leaving() -> None:
        tasks.append(asyncio.create_task(left()))
        await asyncio.sleep(0)

    b = bench(Lasting)
    ACT.append(lambda ctx: leaving())
    saga_id = b.start("lasting")
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert LOG[1:] == (["cleans up", "clean"] if left is _cleaning_up else ["swallowed"])
