"""A step's timeout is a promise: what ends later has failed, and whether it took effect is not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sagas import CircuitBreaker, Context, Retry, Saga, step
from sagas.core.gates import BreakerState
from sagas.engine.engine import settings_from
from sagas.errors import Cancelled, Rejected, TimedOut
from sagas.store.tables import tables_for
from sagas.store.types.breakers import BreakerItems
from tests.engine.acting import ACT, Paying, act, failures
from tests.engine.metering import Wire
from tests.support.bench import Bench, Make
from tests.support.sagas import LOG, Order

pytestmark = pytest.mark.usefixtures("clean", "acting")
TIMEOUT = 5
_TWICE = Retry.constant(max_retries=1, delay=0.0)


class Timed(Paying, name="timed", retry=_TWICE):
    """Two attempts, of five seconds each."""

    @Paying.pay.compensate
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


class Impatient(
    Paying, name="impatient", retry=Retry.constant(max_retries=3, delay=0, give_up_on=(TimedOut, LookupError))
):
    """Tried again neither when it was late nor on a mistake."""


class Picky(Paying, name="picky", retry=Retry.constant(max_retries=1, delay=0, retry_on=(ConnectionError,))):
    """Tried again when the connection breaks, and on nothing else that it raises."""


class Undone(Timed, name="undone"):
    """Its second step is refused."""

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
        "message": "it ended 4.0 s after its timeout of 5 s; its result is refused",
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
    assert ", in pay" in last["stack_trace"]
    assert "/sagas/engine/" not in last["stack_trace"]  # neither error begins in the library
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
    class Careful(Paying, name="careful", retry=Retry.constant(max_retries=3, delay=0, give_up_on=(LookupError,))):
        """Tried again on all but a mistake."""

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


def test_reading_inputs_is_not_its_time(bench: Make) -> None:
    b = bench(Undone)

    def slowly(*arguments: Any) -> str | None:
        b.clock.advance(3)
        return call(*arguments)

    call = b.replace_call(slowly)
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
        with pytest.raises(Cancelled, match="the timeout of step pay has expired"):
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
