"""What a circuit breaker counts, and what counting costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from sagas import CircuitBreaker, Context, Retry, Saga, step
from sagas.core.events import Failure, StepCompleted, StepFailed
from sagas.core.gates import BreakerState
from sagas.core.states import SagaState
from sagas.engine.attempt.attempt import lease_for
from sagas.engine.engine import settings_from
from sagas.errors import Ambiguous, Cancelled, Unavailable
from sagas.messaging.message import parse_record
from sagas.store.journal.journal import Journal
from sagas.store.tables import tables_for
from sagas.store.types.breakers import BreakerItems
from tests.support.bench import Bench, Make
from tests.support.sagas import FAIL, LOG, Order, act

pytestmark = pytest.mark.usefixtures("clean", "quiet")
DURING: list[Callable[[Context], None]] = []
"""What happens while the step runs."""
FAILED = StepFailed(0, 1, Failure("RuntimeError"))


class Cautious(Saga[Order], name="cautious"):
    """A step that stops when it is told to; its breaker opens at the third failure."""

    @step(retry=Retry.constant(max_retries=9, delay=2), circuit_breaker=CircuitBreaker(3, 30))
    def call(self, request: Order, ctx: Context) -> None:
        act("call", ctx)
        for happening in DURING:
            happening(ctx)
        ctx.raise_if_cancelled()


@pytest.fixture
def quiet() -> Iterator[None]:
    """Nothing happens during a step, before and after."""
    DURING.clear()
    yield
    DURING.clear()


def _stored() -> BreakerState:
    settings = settings_from(os.environ)
    return BreakerItems(tables_for(settings), settings).get("cautious", "call")


def _cancel(t: Bench) -> None:
    """Have the saga cancelled while its step runs."""
    DURING.append(lambda ctx: cast("None", t.engine.operations.cancel("cautious", cast("Any", ctx).saga_id, "ada")))


def _opened(t: Bench) -> str:
    FAIL["call"] = 3
    saga_id = t.start("cautious")
    for _ in range(3):
        t.clock.time += 2
        t.invoke("cautious", "call")
    assert not _stored().closed
    return saga_id


def test_cancels_do_not_count(deployed: Make, capsys: pytest.CaptureFixture[str]) -> None:
    t = deployed(Cautious)
    _cancel(t)
    ids = [t.start("cautious") for _ in range(3)]
    t.run()
    assert [t.status(saga_id) for saga_id in ids] == ["CANCELLED"] * 3
    assert _stored() == BreakerState()
    for saga_id in ids:
        entry = next(one for one in t.stack.entries(saga_id) if one["action"] == "StepFailed")
        assert "next_attempt_at" not in entry["details"], "no attempt follows"
        assert entry["details"]["excused"]
    assert "StepRetried" not in capsys.readouterr().out


def test_a_cancel_raised_by_hand_is_a_failure_as_any_other(deployed: Make) -> None:
    t = deployed(Cautious)
    FAIL["call"] = Cancelled("so it says")
    t.start("cautious")
    t.invoke("cautious", "call")
    assert _stored().failures == 1
    assert t.hidden == [2]


def test_a_cancelled_probe_gives_its_place_back(deployed: Make) -> None:
    t = deployed(Cautious)
    saga_id = _opened(t)
    until = _stored().open_until
    t.clock.time += 30
    _cancel(t)
    t.invoke("cautious", "call")
    assert t.status(saga_id) == "CANCELLED"
    assert LOG[-1] == "call:4"
    after = _stored()
    assert (after.open_until, after.probe) == (until, "")
    DURING.clear()
    other = t.start("cautious")
    t.invoke("cautious", "call")
    assert t.status(other) == "COMPLETED"
    assert _stored().closed


def test_inputs_out_of_reach_do_not_count(deployed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> dict[int, object]:
        raise Unavailable("DynamoDB: throttled")

    t = deployed(Cautious, SAGAS_CARRY_INPUTS="0")
    saga_id = t.start("cautious")
    monkeypatch.setattr(Journal, "entries", refuse)
    for _ in range(3):
        t.invoke("cautious", "call")
        t.clock.time += 2
    assert LOG == []
    entry = t.stack.entries(saga_id)[-1]
    assert (entry["action"], entry["details"]["because"]) == ("StepPostponed", "inputs")
    assert _stored() == BreakerState()


def test_what_the_code_raises_counts_whatever_it_is(deployed: Make) -> None:
    t = deployed(Cautious)
    FAIL["call"] = Unavailable("another service, by the same client library")
    t.start("cautious")
    t.invoke("cautious", "call")
    assert _stored().failures == 1


def test_a_probe_whose_worker_died_gives_its_place_back(deployed: Make) -> None:
    t = deployed(Cautious)
    saga_id = _opened(t)
    t.clock.time += 30
    record = t.stack.receive("cautious", "call")[0]
    message = parse_record(record)
    lease = lease_for(t.engine.registry.get("cautious"), t.clock, t.clock.now() + 3_000)
    assert t.engine.breakers.admit(message, t.state(message.saga_id), lease.act_until) is None
    assert t.engine.control.claim_step(saga_id, 0, message.dispatch, lease, t.clock.now())
    t.clock.time += 300
    assert t.engine.recovery.run(10).recovered == [saga_id]
    assert "StepLost" in t.actions(saga_id)
    assert _stored().probe == ""
    assert not _stored().closed


def test_a_success_costs_nothing_but_the_look_before_it(deployed: Make, asked: list[str]) -> None:
    t = deployed(Cautious)
    t.start("cautious")
    asked.clear()
    t.run()
    assert [one for one in asked if one.startswith("breaker")] == ["breaker GetItem"]


def test_a_failure_costs_one_request_and_the_last_one_two(deployed: Make, asked: list[str]) -> None:
    t = deployed(Cautious)
    FAIL["call"] = 3
    t.start("cautious")
    of_each: list[list[str]] = []
    for _ in range(3):
        asked.clear()
        t.invoke("cautious", "call")
        of_each.append([one for one in asked if one == "breaker UpdateItem"])
        t.clock.time += 2
    assert [len(one) for one in of_each] == [1, 1, 2]


def _state(t: Bench) -> SagaState:
    state = t.engine.control.get(t.start("cautious"))
    assert state is not None
    return state


def test_failures_of_one_second_are_counted_together_unless_they_open_it(deployed: Make, asked: list[str]) -> None:
    t = deployed(Cautious)
    state = _state(t)
    counted: list[int] = []
    for _ in range(3):
        asked.clear()
        t.engine.breakers.committed(state, state, FAILED)
        counted.append(asked.count("breaker UpdateItem"))
    assert counted == [1, 0, 2]
    assert _stored().failures == 3
    assert not _stored().closed


def test_a_success_ends_what_was_gathered(deployed: Make, asked: list[str]) -> None:
    t = deployed(Cautious)
    state = _state(t)
    for fact in (FAILED, FAILED, StepCompleted(0, 1), FAILED, FAILED):
        t.engine.breakers.committed(state, state, fact)
    assert _stored().closed
    assert _stored().failures == 0, "the later two are gathered, and end with the next success or count in a second"


def test_a_message_that_arrives_while_it_is_open_costs_no_request(deployed: Make, asked: list[str]) -> None:
    t = deployed(Cautious)
    _opened(t)
    ids = [t.start("cautious") for _ in range(5)]
    t.stack.receive("cautious", "call")  # the message of the saga that opened it
    asked.clear()
    for _ in ids:
        assert t.invoke("cautious", "call") == 1
    assert asked == []
    assert t.delayed == [(45, 1)] * 5
    t.clock.time += 6
    t.invoke("cautious", "call")
    assert asked.count("breaker GetItem") == 1, "once in some seconds a worker looks"


def test_counting_that_is_refused_is_tried_ever_more_rarely(
    deployed: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    t = deployed(Cautious)
    tries: list[tuple[float, int]] = []

    def refuse(self: BreakerItems, saga: str, step: str, failures: int, *_: object) -> BreakerState:
        tries.append((round(t.clock.time - began), failures))
        raise Ambiguous("DynamoDB: throttled")

    began = t.clock.time
    state = _state(t)
    with monkeypatch.context() as patched:
        patched.setattr(BreakerItems, "count", refuse)
        for _ in range(16):
            t.engine.breakers.committed(state, state, FAILED)
            t.clock.time += 1
    assert tries == [(0, 1), (1, 2), (3, 4), (7, 8), (15, 16)]
    assert caplog.messages == ["an outcome was not counted by the circuit breaker"] * 5
    t.clock.time += 16
    t.engine.breakers.committed(state, state, FAILED)
    assert _stored().failures == 17
    assert not _stored().closed
