"""A step's timeout is a promise: what ends later has failed, and whether it took effect is not known."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from sagas.authoring.context import Context
from sagas.authoring.policies import CircuitBreaker, Retry
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.core.breaker import BreakerState
from sagas.engine.engine import settings_from
from sagas.errors import Cancelled, Rejected, TimedOut
from sagas.store.breakers import BreakerItems
from sagas.store.tables import tables_for
from tests.engine.acting import until
from tests.engine.metering import Wire
from tests.support.bench import Bench, ManualClock
from tests.support.sagas import LOG, Order

pytestmark = pytest.mark.usefixtures("clean", "quiet")
Make = Callable[..., Bench]
ACT: list[Callable[[Context], object]] = []
"""What each execution does, in turn; those after the last do nothing."""
TIMEOUT = 5
_TWICE = Retry.constant(max_retries=1, delay=0.0)


@pytest.fixture
def quiet() -> Iterator[None]:
    """Nothing happens during a step, before and after."""
    ACT.clear()
    yield
    ACT.clear()


def act(ctx: Context, name: str) -> None:
    LOG.append(f"{name}:{ctx.attempt}")
    if ACT:
        ACT.pop(0)(ctx)


class Timed(Saga[Order], name="timed"):
    """Two attempts, of five seconds each."""

    @step(retry=_TWICE, timeout=TIMEOUT)
    def pay(self, ctx: Context) -> str:
        act(ctx, "pay")
        return "paid"

    @pay.compensate
    def refund(self, ctx: Context) -> None:
        act(ctx, "refund")


class Guarded(Saga[Order], name="guarded"):
    """Undone when it was started, behind a circuit breaker."""

    @step(retry=_TWICE, timeout=TIMEOUT, undo_when="started", circuit_breaker=CircuitBreaker(failure_threshold=9))
    def pay(self, ctx: Context) -> str:
        act(ctx, "pay")
        return "paid"

    @pay.compensate
    def refund(self, ctx: Context) -> None:
        act(ctx, "refund")


class Impatient(Saga[Order], name="impatient"):
    """Tried again neither when it was late nor on a mistake."""

    @step(retry=Retry.constant(max_retries=3, delay=0, give_up_on=(TimedOut, LookupError)), timeout=TIMEOUT)
    def pay(self, ctx: Context) -> str:
        act(ctx, "pay")
        return "paid"


class Picky(Saga[Order], name="picky"):
    """Tried again when the connection breaks, and on nothing else that it raises."""

    @step(retry=Retry.constant(max_retries=1, delay=0, retry_on=(ConnectionError,)), timeout=TIMEOUT)
    def pay(self, ctx: Context) -> str:
        act(ctx, "pay")
        return "paid"


class Undone(Saga[Order], name="undone"):
    """Its second step is refused."""

    pay = Timed.pay
    refund = Timed.refund

    @step
    def ship(self, pay: str) -> None:
        raise Rejected("no such address")


def takes(b: Bench, seconds: float, error: Exception | None = None) -> Callable[[Context], None]:
    """An execution that takes so long, and may raise."""

    def run(ctx: Context) -> None:
        b.clock.advance(seconds)
        if error is not None:
            raise error

    return run


def failures(b: Bench, saga_id: str) -> list[str]:
    """The types of the errors of its attempts."""
    return [entry["details"]["error"]["type"] for entry in b.stack.entries(saga_id) if "error" in entry["details"]]


# ---- results that come late


def test_a_late_result_is_refused_and_the_step_is_retried(bench: Make) -> None:
    b = bench(Timed)
    ACT.append(takes(b, 9))
    saga_id = b.start("timed")
    b.run()
    assert b.actions(saga_id) == ["SagaStarted", "StepFailed", "StepCompleted"]
    assert LOG == ["pay:1", "pay:2"]
    entry = b.entry(saga_id, "StepFailed")
    assert entry["details"]["error"] == {
        "type": "TimedOut",
        "message": "it ended 4.0 s after its timeout of 5 s; what it returned is refused",
    }
    assert entry["details"]["outcome_unknown"] is True
    assert entry.get("payload") is None
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert b.show(saga_id)["in_doubt"] == []


def test_one_that_ends_in_time_counts(bench: Make) -> None:
    b = bench(Timed)
    ACT.append(takes(b, TIMEOUT - 0.01))
    saga_id = b.start("timed")
    b.run()
    assert b.actions(saga_id) == ["SagaStarted", "StepCompleted"]


def test_what_was_late_each_time_is_in_doubt(bench: Make) -> None:
    b = bench(Timed)
    ACT.extend(takes(b, 9) for _ in range(2))
    saga_id = b.start("timed")
    b.run()
    saga = b.show(saga_id)
    assert (saga["status"], saga["in_doubt"], saga["error"]["type"]) == ("COMPENSATED", ["pay"], "TimedOut")
    assert b.state(saga_id).attention
    assert LOG == ["pay:1", "pay:2"]


def test_with_undo_when_started_it_is_undone_and_no_doubt_is_left(bench: Make) -> None:
    b = bench(Guarded)
    ACT.extend(takes(b, 9) for _ in range(2))
    saga_id = b.start("guarded")
    b.run()
    assert (b.status(saga_id), b.show(saga_id)["in_doubt"]) == ("COMPENSATED", [])
    assert LOG == ["pay:1", "pay:2", "refund:1"]


def test_a_failure_in_time_leaves_an_earlier_doubt(bench: Make) -> None:
    b = bench(Timed)
    ACT.extend([takes(b, 9), takes(b, 1, RuntimeError("no"))])
    saga_id = b.start("timed")
    b.run()
    assert failures(b, saga_id) == ["TimedOut", "RuntimeError"]
    assert b.show(saga_id)["in_doubt"] == ["pay"]


def test_a_failure_that_comes_late_timed_out_too_and_tells_what_it_was(bench: Make) -> None:
    b = bench(Timed)
    ACT.extend(takes(b, 6, KeyError("seat")) for _ in range(2))
    saga_id = b.start("timed")
    b.run()
    last = [entry for entry in b.stack.entries(saga_id) if entry["action"] == "StepFailed"][-1]["details"]
    assert last["error"]["type"] == "TimedOut"
    assert "it raised KeyError: 'seat'" in last["error"]["message"]
    assert "KeyError: 'seat'" in last["stack_trace"]
    assert b.show(saga_id)["in_doubt"] == ["pay"]


def test_a_verdict_holds_however_late(bench: Make) -> None:
    b = bench(Timed)
    ACT.append(takes(b, 9, Rejected("the card was declined")))
    saga_id = b.start("timed")
    b.run()
    assert failures(b, saga_id) == ["Rejected"]
    assert (b.status(saga_id), b.show(saga_id)["in_doubt"]) == ("COMPENSATED", [])


@pytest.mark.parametrize("error", [None, IndexError("seats")])
def test_give_up_on_names_it_or_what_was_raised_late(bench: Make, error: Exception | None) -> None:
    b = bench(Impatient)
    ACT.append(takes(b, 9, error))
    saga_id = b.start("impatient")
    b.run()
    assert LOG == ["pay:1"]
    assert failures(b, saga_id) == ["TimedOut"]
    assert b.show(saga_id)["in_doubt"] == ["pay"]


def test_what_was_raised_late_decides_where_give_up_on_names_it(bench: Make) -> None:
    class Careful(Saga[Order], name="careful"):
        @step(retry=Retry.constant(max_retries=3, delay=0, give_up_on=(LookupError,)), timeout=TIMEOUT)
        def pay(self, ctx: Context) -> None:
            act(ctx, "pay")

    b = bench(Careful)
    ACT.extend([takes(b, 9), takes(b, 9, IndexError("seats"))])
    b.start("careful")
    b.run()
    assert LOG == ["pay:1", "pay:2"]


def test_it_is_retried_whatever_retry_on_names(bench: Make) -> None:
    b = bench(Picky)
    ACT.append(takes(b, 9))
    saga_id = b.start("picky")
    b.run()
    assert (b.status(saga_id), LOG) == ("COMPLETED", ["pay:1", "pay:2"])


def test_the_circuit_breaker_counts_it(deployed: Make) -> None:
    t = deployed(Guarded)
    ACT.append(takes(t, 9))
    t.start("guarded")
    t.invoke("guarded", "pay")
    settings = settings_from(t.stack.environment)
    assert BreakerItems(tables_for(settings), settings).get("guarded", "pay") != BreakerState()


def test_a_late_undo_is_repeated(bench: Make) -> None:
    b = bench(Undone)
    ACT.extend([takes(b, 1), takes(b, 9)])
    saga_id = b.start("undone")
    b.run()
    assert LOG == ["pay:1", "refund:1", "refund:2"]
    failed = b.entry(saga_id, "CompensationAttemptFailed")
    assert failed["details"]["error"]["type"] == "TimedOut"
    assert b.status(saga_id) == "COMPENSATED"


def test_an_undo_that_is_late_each_time_has_failed(bench: Make) -> None:
    b = bench(Undone)
    ACT.extend([takes(b, 1), takes(b, 9), takes(b, 9)])
    saga_id = b.start("undone")
    b.run()
    assert b.status(saga_id) == "COMPENSATION_FAILED"
    assert b.entry(saga_id, "CompensationFailed")["details"]["error"]["type"] == "TimedOut"


# ---- whose time it is


def test_each_step_of_a_batch_has_its_own_time(deployed: Make) -> None:
    t = deployed(Timed)
    seen: list[float] = []

    def second(ctx: Context) -> None:
        seen.append(ctx.remaining_time())
        t.clock.advance(4)

    ACT.extend([takes(t, 4), second])
    ids = [t.start("timed") for _ in range(2)]
    assert t.invoke("timed", "pay", remaining=2 * TIMEOUT + 6, most=2) == 2
    assert [t.status(saga_id) for saga_id in ids] == ["COMPLETED"] * 2
    assert seen == [TIMEOUT]


def test_of_a_batch_only_the_slow_one_is_late(deployed: Make) -> None:
    t = deployed(Timed)
    ACT.append(takes(t, 9))
    ids = [t.start("timed") for _ in range(2)]
    t.invoke("timed", "pay", remaining=60, most=2)
    assert sorted("TimedOut" in failures(t, saga_id) for saga_id in ids) == [False, True]
    assert LOG.count("pay:1") == 2


def test_none_begins_that_could_not_be_recorded_in_time(deployed: Make) -> None:
    t = deployed(Timed)
    ACT.append(takes(t, TIMEOUT - 1))
    for _ in range(2):
        t.start("timed")
    t.invoke("timed", "pay", remaining=2 * TIMEOUT, most=2)
    assert LOG == ["pay:1"]


def test_reading_inputs_is_not_its_time(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Undone)
    began = b.engine.services.runner.run

    def slowly(*arguments: object) -> str | None:
        b.clock.advance(3)
        return began(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(b.engine.services.runner, "run", slowly)
    ACT.append(takes(b, 4))
    saga_id = b.start("undone")
    b.deliver("undone", "pay")
    assert b.actions(saga_id) == ["SagaStarted", "StepCompleted"]


def test_its_function_ends_sooner_than_its_timeout(bench: Make) -> None:
    b = bench(Timed, lifetime=6.0)
    seen: list[float] = []
    ACT.append(lambda ctx: seen.append(ctx.remaining_time()))
    b.start("timed")
    b.deliver("timed", "pay")
    assert seen == [4.0]


# ---- what the code is told


def test_the_context_tells_when_the_time_is_over(bench: Make, wire: Wire) -> None:
    b = bench(Timed)
    seen: list[object] = []

    def watching(ctx: Context) -> None:
        seen.extend([ctx.remaining_time(), ctx.deadline.timestamp() - b.clock.now(), ctx.cancelled])
        b.clock.advance(TIMEOUT)
        asked = len(wire.requests)
        seen.extend([ctx.remaining_time(), ctx.cancelled, len(wire.requests) - asked])
        with pytest.raises(Cancelled, match="the time of step pay is over"):
            ctx.raise_if_cancelled()
        ctx.raise_if_cancelled()

    ACT.append(watching)
    saga_id = b.start("timed")
    b.run()
    assert seen == [TIMEOUT, TIMEOUT, False, 0, True, 0]
    assert failures(b, saga_id) == ["TimedOut"]
    assert b.status(saga_id) == "COMPLETED"


def test_an_undo_is_told_of_its_deadline_but_of_no_cancel(bench: Make) -> None:
    b = bench(Undone)
    seen: list[bool] = []

    def undoing(ctx: Context) -> None:
        seen.append(ctx.cancelled)
        b.clock.advance(TIMEOUT)
        seen.append(ctx.cancelled)

    ACT.extend([takes(b, 1), undoing])
    b.start("undone")
    b.run()
    assert seen == [False, True]


# ---- coroutines


class RunningClock(ManualClock):
    """Goes on by itself, and can be moved."""

    def now(self) -> float:
        return round(self.time + time.monotonic() - _ZERO, 3)


_ZERO = time.monotonic()


class Async(Saga[Order], name="async"):
    """Half a second, for both ways."""

    @step(retry=_TWICE, timeout=0.5)
    async def pay(self, ctx: Context) -> str:
        LOG.append(f"pay:{ctx.attempt}")
        if ACT:
            await _coroutine(ACT.pop(0)(ctx))
        return "paid"

    @pay.compensate
    async def refund(self, ctx: Context) -> None:
        LOG.append(f"refund:{ctx.attempt}")
        if ACT:
            await _coroutine(ACT.pop(0)(ctx))

    @step
    def ship(self, pay: str, request: Order) -> None:
        if request.item == "nowhere":
            raise Rejected("no such address")


class Lasting(Saga[Order], name="lasting"):
    """Half a minute."""

    @step(retry=_TWICE, timeout=30)
    async def pay(self, ctx: Context) -> str:
        LOG.append(f"pay:{ctx.attempt}")
        if ACT:
            await _coroutine(ACT.pop(0)(ctx))
        return "paid"

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
    monkeypatch.setattr("sagas.engine.context._CLEANUP", 0.3)
    monkeypatch.setattr("sagas.engine.context._LEAST_CLEANUP", 0.3)
    b = bench(Async, clock=RunningClock())
    ACT.append(lambda ctx: _stubborn())
    saga_id = b.start("async")
    b.run()
    assert LOG == ["pay:1", "swallowed", "pay:2"]
    assert failures(b, saga_id) == ["TimedOut"]
    assert "it did not end" in b.entry(saga_id, "StepFailed")["details"]["error"]["message"]
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
        ctx.tell_lost()  # type: ignore[attr-defined]
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
    assert threading.active_count() <= before
