"""``CircuitBreaker(when_open="fail")``: for sagas that would rather undo than wait."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from sagas import CircuitBreaker, Context, Exhausted, Retry, Saga, step
from sagas.core.gates import BreakerState
from sagas.engine.engine import settings_from
from sagas.messaging.message import parse_record
from sagas.store.tables import tables_for
from sagas.store.types.breakers import BreakerItems
from tests.support.bench import Bench, Make
from tests.support.sagas import FAIL, LOG, Booked, Order, act

pytestmark = pytest.mark.usefixtures("clean")
_BREAKER = CircuitBreaker(failure_threshold=2, open_for=30, when_open="fail")


class Hasty(Booked, name="hasty"):
    """Its second step does not wait; what follows when it is exhausted is undoing."""

    @step(retry=Retry.constant(max_retries=5, delay=2), circuit_breaker=_BREAKER)
    def call(self, ctx: Context) -> None:
        act("call", ctx)

    @call.compensate
    def uncall(self, ctx: Context) -> None:
        act("uncall", ctx)

    @step(retry=Retry.constant(max_retries=0, delay=0.0))
    def tell(self, ctx: Context) -> None:
        act("tell", ctx)


class Parking(Saga[Order], name="parking"):
    """Exhausted, it waits for an operator."""

    @step(
        retry=Retry.constant(max_retries=1, delay=0.0, on_exhausted=Exhausted.DEAD_LETTER),
        circuit_breaker=_BREAKER,
    )
    def call(self, ctx: Context) -> None:
        act("call", ctx)


def _stored(saga: str = "hasty") -> BreakerState:
    settings = settings_from(os.environ)
    return BreakerItems(tables_for(settings), settings).get(saga, "call")


def _opened(t: Bench) -> str:
    """A saga whose second failure opened the breaker."""
    FAIL["call"] = 2
    saga_id = t.start("hasty")
    t.invoke("hasty", "book")
    for _ in range(2):
        t.invoke("hasty", "call")
        t.clock.time += 2
    assert not _stored().closed
    return saga_id


def test_the_step_fails_at_once_and_its_code_does_not_run(deployed: Make) -> None:
    t = deployed(Hasty)
    first = _opened(t)
    before = _stored()
    t.run()
    assert t.status(first) == "COMPENSATED", "the one that was to try again has failed, too"
    second = t.start("hasty")
    t.run()
    assert t.status(second) == "COMPENSATED"
    assert LOG == ["book", "call:1", "call:2", "unbook", "book", "unbook"]
    step = t.step(second, 1)
    assert step["error"] == {"type": "BreakerOpen", "message": "the circuit breaker of step 'call' is open"}
    assert step["attempts"] == 1, "it is an attempt, and the last one"
    [entry] = [one for one in t.stack.entries(second) if one["action"] == "StepFailed"]
    assert entry["details"]["permanent"]
    assert entry["details"]["excused"]
    assert "next_attempt_at" not in entry["details"]
    assert _stored() == before, "it never counts at the breaker itself"


def test_one_is_let_through_when_the_open_period_is_over(deployed: Make) -> None:
    t = deployed(Hasty)
    _opened(t)
    t.invoke("hasty", "call")
    t.clock.time += 30
    saga_id = t.start("hasty")
    t.run()
    assert t.status(saga_id) == "COMPLETED"
    assert _stored().closed


def test_others_fail_while_one_tries(deployed: Make) -> None:
    t = deployed(Hasty)
    _opened(t)
    t.clock.time += 30
    other = t.start("hasty")
    t.invoke("hasty", "book")
    [record] = t.stack.receive("hasty", "call")
    message, until = parse_record(record), t.clock.now() + 600
    assert t.engine.breakers.admit(message, t.state(message.saga_id), until) is None, "the one that opened it"
    t.run()
    assert t.status(other) == "COMPENSATED"


def test_what_follows_is_the_policy_of_exhaustion(deployed: Make) -> None:
    t = deployed(Parking)
    FAIL["call"] = RuntimeError("no")
    first = t.start("parking")
    t.run()
    assert t.status(first) == "DEAD_LETTERED"
    second = t.start("parking")
    t.run()
    assert t.status(second) == "DEAD_LETTERED"
    assert t.dead_letters("parking") == 2
    assert LOG == ["call:1", "call:2"]
    FAIL.clear()
    t.clock.time += 60
    t.engine.operations.retry("parking", second, "it is back", "ada")
    t.run()
    assert t.status(second) == "COMPLETED"


def test_an_undo_passes(deployed: Make) -> None:
    t = deployed(Hasty)
    done = t.start("hasty")
    FAIL["tell"] = ValueError("no")
    for name in ("book", "call"):
        t.invoke("hasty", name)
    _opened(t)
    for name in ("tell", "call", "book"):
        t.invoke("hasty", name, most=10)
    assert t.status(done) == "COMPENSATED"
    assert "uncall:1" in LOG


def test_it_explains_no_silence(deployed: Make) -> None:
    t = deployed(Hasty)
    sent = t.clock.now()
    saga_id = _opened(t)
    assert t.engine.breakers.silent_until(replace(t.state(saga_id), updated_at=sent)) == 0.0
    assert t.show(saga_id)["breaker"] is None
