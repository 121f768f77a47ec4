"""Code that does not end after its timeout, or lets no other thread run: it is named, and undone only when it cannot
act any more."""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sagas import Context, Retry, Saga, step
from sagas.core.states import Lease, Progress, SagaState, StepState
from sagas.engine.attempt.heartbeat import Heartbeat
from sagas.threads import OVERTIME
from tests.support.bench import Bench, Death, Make, ManualClock
from tests.support.sagas import FAIL, LOG, Order, act

ONCE = Retry.constant(max_retries=0, delay=0.0)
DO: dict[str, Callable[[], None]] = {}


class Draw(Saga[Order], name="draw", lock_expiry=timedelta(seconds=20)):
    """Its steps and undos do what a test asks."""

    @step(timeout=10, retry=ONCE)
    def book(self, ctx: Context) -> str:
        act("book", ctx)
        return "b"

    @book.compensate(timeout=10, retry=ONCE)
    def unbook(self, ctx: Context) -> None:
        DO.get("unbook", int)()
        act("unbook", ctx)

    @step(timeout=10, retry=ONCE)
    def paint(self, ctx: Context) -> str:
        DO.get("paint", int)()
        act("paint", ctx)
        return "p"


@pytest.fixture(autouse=True)
def alarms(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, Callable[[], object]]]:
    """The alarms that attempts set, in seconds. Only the test lets one go off."""
    DO.clear()
    seen = list[tuple[float, Callable[[], object]]]()

    def noted(seconds: float, act: Callable[[], object], logger: logging.Logger) -> Callable[[], object]:
        seen.append((seconds, act))
        return lambda: seen.remove((seconds, act))

    monkeypatch.setattr(OVERTIME, "set", noted)
    return seen


def hang(b: Bench, alarms: list[tuple[float, Callable[[], object]]]) -> None:
    """The code runs until its alarm goes off, and then its process dies."""
    ((seconds, goes_off),) = alarms
    b.clock.advance(seconds)
    goes_off()
    raise Death


@pytest.fixture
def hung(
    bench: Make, alarms: list[tuple[float, Callable[[], object]]], caplog: pytest.LogCaptureFixture
) -> Callable[[str], tuple[Bench, str]]:
    """Makes a saga whose step or undo hangs and dies."""

    def made(name: str) -> tuple[Bench, str]:
        b = bench(Draw, lifetime=20.0)
        DO[name] = lambda: hang(b, alarms)
        if name == "unbook":
            FAIL["paint"] = RuntimeError("no")
        saga_id = b.start("draw")
        with pytest.raises(Death):
            b.run()
        DO.clear()
        return b, saga_id

    return made


def test_a_step_that_hangs_is_named_and_lost_by_its_timeout(
    hung: Callable[[str], tuple[Bench, str]], caplog: pytest.LogCaptureFixture
) -> None:
    b, saga_id = hung("paint")
    (line,) = [record for record in caplog.records if "hangs" in record.message]
    text = "attempt 1 of step paint hangs: the code has not ended 3.0 s after its timeout of 10 s"
    assert (line.levelname, line.message, vars(line)["saga_id"], vars(line)["attempt"]) == ("ERROR", text, saga_id, 1)
    assert b.show(saga_id)["progress"]["message"] == "the code has not ended 3.0 s after its timeout of 10 s"
    state = b.state(saga_id)
    assert state.lease  # nothing was released
    b.run()
    assert "unbook:1" not in LOG
    act_until = state.lease.act_until
    while b.status(saga_id) == "RUNNING":
        b.clock.advance(30)
        b.recover()
        b.run()
    assert b.entry(saga_id, "StepLost")["details"]["error"]["type"] == "TimedOut"
    assert b.at(saga_id, "CompensationStarted") >= act_until
    assert (b.status(saga_id), b.show(saga_id)["in_doubt"], LOG) == ("COMPENSATED", ["paint"], ["book:1", "unbook:1"])
    assert b.show(saga_id)["progress"] is None


def test_an_undo_that_hangs_is_named_and_fails_by_its_timeout(
    hung: Callable[[str], tuple[Bench, str]], caplog: pytest.LogCaptureFixture
) -> None:
    b, saga_id = hung("unbook")
    assert [record for record in caplog.records if "attempt 1 of the undo of step book hangs" in record.message]
    b.clock.advance(300)
    b.recover()
    b.run()
    assert (b.status(saga_id), b.step(saga_id, 0)["error"]["type"]) == ("COMPENSATION_FAILED", "TimedOut")


def test_a_death_within_the_time_is_no_timeout(bench: Make) -> None:
    b = bench(Draw, lifetime=20.0)
    FAIL["paint"] = Death()
    saga_id = b.start("draw")
    with pytest.raises(Death):
        b.run()
    b.clock.advance(300)
    b.recover()
    assert b.entry(saga_id, "StepLost")["details"]["error"]["type"] == "Lost"


def test_code_that_ends_sets_nothing_off(bench: Make, alarms: list[Any]) -> None:
    b = bench(Draw, lifetime=20.0)
    saga_id = b.start("draw")
    b.run()
    assert (b.status(saga_id), alarms) == ("COMPLETED", [])


def extended(state: SagaState, expires_at: float, progress: Progress | None) -> bool:
    """The lease is held still."""
    return True


def test_code_that_holds_the_interpreters_lock_is_named(caplog: pytest.LogCaptureFixture) -> None:
    clock, length = ManualClock(), 0.4
    lease = Lease("me", clock.now() + length, clock.now() + 60)
    state = SagaState("an-id", "draw", "1", (StepState("paint"),), lease=lease)
    holding = ctypes.PyDLL(None).usleep
    with Heartbeat(extended, state, length, clock, lambda: None):
        began = time.monotonic()
        holding(900_000)
        held = time.monotonic() - began
    assert held > 2 * length
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    fields = vars(line)
    assert (fields["saga_id"], fields["step"], fields["lock_expiry"]) == ("an-id", "paint", length)
    assert length / 2 < fields["seconds"] <= held
    assert line.message.startswith("step paint let no other thread run for ")
    assert "lock_expiry, 0.4 s, must be longer than any call that holds the interpreter's lock" in line.message


def test_code_that_lets_others_run_is_not(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    state = SagaState(
        "an-id", "draw", "1", (StepState("paint"),), lease=Lease("me", clock.now() + 30, clock.now() + 60)
    )
    with Heartbeat(extended, state, 30, clock, lambda: None):
        pass
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(("options", "seconds"), [({}, 300), ({"lock_expiry": timedelta(seconds=20)}, 20)])
def test_a_dead_process_holds_its_lease_for_the_lock_expiry(
    bench: Make, options: dict[str, timedelta], seconds: float
) -> None:
    """However long its step may take."""

    class Long(Saga[Order], name="long", **options):
        @step(timeout=600)
        def book(self, ctx: Context) -> None:
            act("book", ctx)

    b = bench(Long)
    b.lifetime = 650.0
    FAIL["book"] = Death()
    saga_id = b.start("long")
    with pytest.raises(Death):
        b.deliver("long", "book")
    lease = b.state(saga_id).lease
    assert lease is not None
    assert lease.expires_at - b.clock.now() == pytest.approx(seconds)
