"""Circuit breakers through the step handler."""

from __future__ import annotations

import json
import os

import pytest
from msgspec.structs import replace

from sagas import CircuitBreaker, Context, Exhausted, Retry, Saga, step
from sagas.core.gates import BreakerState
from sagas.core.text import iso
from sagas.engine.attempt.attempt import lease_for
from sagas.engine.engine import settings_from
from sagas.errors import PermanentError, Rejected, TypeChanged, Unavailable
from sagas.handlers import step as step_handler
from sagas.messaging.message import Message
from sagas.store.tables import tables_for
from sagas.store.types.breakers import BreakerItems
from tests.support.aws import LambdaContext
from tests.support.bench import Bench, Make
from tests.support.sagas import FAIL, LOG, Order, act

pytestmark = pytest.mark.usefixtures("clean")


class Shaky(Saga[Order], name="shaky"):
    """The step in the middle depends on something that fails; the breaker opens at the third failure."""

    @step(retry=Retry.constant(max_retries=0, delay=0.0))
    def book(self, ctx: Context) -> None:
        act("book", ctx)

    @book.compensate
    def unbook(self, ctx: Context) -> None:
        act("unbook", ctx)

    @step(
        retry=Retry.constant(max_retries=9, delay=2, give_up_on=(KeyError,), on_exhausted=Exhausted.COMPENSATE),
        circuit_breaker=CircuitBreaker(failure_threshold=3, open_for=30),
    )
    def call(self, ctx: Context) -> None:
        act("call", ctx)

    @call.compensate
    def uncall(self, ctx: Context) -> None:
        act("uncall", ctx)

    @step(retry=Retry.constant(max_retries=0, delay=0.0))
    def tell(self, ctx: Context) -> None:
        act("tell", ctx)


def _items() -> BreakerItems:
    settings = settings_from(os.environ)
    return BreakerItems(tables_for(settings), settings)


def _stored(t: Bench, step: str = "call") -> BreakerState:
    return _items().get("shaky", step)


def _opened(t: Bench) -> str:
    """A saga whose third failure opened the breaker. It may try again in two seconds."""
    FAIL["call"] = 3
    saga_id = t.start("shaky")
    t.invoke("shaky", "book")
    for _ in range(3):
        t.clock.time += 2
        t.invoke("shaky", "call")
    assert t.hidden == [2, 2, 2]
    assert _stored(t).open_until == t.clock.now() + 30
    return saga_id


def test_opens_postpones_and_closes(deployed: Make) -> None:
    t = deployed(Shaky)
    saga_id = _opened(t)
    journal = t.actions(saga_id)
    t.clock.time += 2
    t.invoke("shaky", "call")
    assert t.delayed[-1] == (28 + 15, 1), "it comes back after the open period, by chance within another"
    assert t.step(saga_id, 1)["attempts"] == 3
    assert t.actions(saga_id) == journal
    t.clock.time += 28
    t.run()
    assert t.status(saga_id) == "COMPLETED"
    assert LOG == ["book:1", "call:1", "call:2", "call:3", "call:4", "tell:1"]
    assert _stored(t).closed
    assert _stored(t).failures == 0


def test_a_failing_probe_opens_it_again(deployed: Make) -> None:
    t = deployed(Shaky)
    saga_id = _opened(t)
    FAIL["call"] = 1
    t.clock.time += 30
    t.invoke("shaky", "call")
    assert LOG[-1] == "call:4"
    assert _stored(t).open_until == t.clock.now() + 30
    t.run()
    assert t.status(saga_id) == "COMPLETED"
    assert LOG.count("call:5") == 1


def test_others_wait_for_the_probe(deployed: Make) -> None:
    t = deployed(Shaky)
    first = _opened(t)
    other = t.start("shaky")
    t.invoke("shaky", "book")
    t.clock.time += 30
    probe = Message(first, "shaky", "call", 1, False, 2)
    assert t.engine.breakers.admit(probe, t.state(first), t.clock.now() + 60) is None
    t.stack.sqs.purge_queue(QueueUrl=t.stack.queues["shaky"]["call"])
    t.engine.queues.send(Message(other, "shaky", "call", 1, False, 2))
    t.invoke("shaky", "call")
    assert t.delayed[-1] == (5 + 15, 1)
    assert t.step(other, 1)["attempts"] == 0
    t.clock.time += 60
    t.invoke("shaky", "call")
    assert t.step(other, 1)["attempts"] == 1, "the probe died, so another may try"
    assert _stored(t).closed


@pytest.mark.parametrize("error", [PermanentError("no"), Rejected("declined"), KeyError("unknown")])
def test_permanent_errors_do_not_count(deployed: Make, asked: list[str], error: Exception) -> None:
    FAIL["call"] = error
    t = deployed(Shaky)
    ids = [t.start("shaky") for _ in range(5)]
    t.run()
    assert [t.status(saga_id) for saga_id in ids] == ["COMPENSATED"] * 5
    assert {one for one in asked if one.startswith("breaker")} == {"breaker GetItem"}
    assert _stored(t) == BreakerState()


def test_a_permanent_error_of_the_probe_makes_room_for_another(deployed: Make) -> None:
    t = deployed(Shaky)
    first = _opened(t)
    other = t.start("shaky")
    t.invoke("shaky", "book")
    FAIL["call"] = PermanentError("no")
    t.clock.time += 30
    t.invoke("shaky", "call")
    assert LOG[-1] == "call:4"
    assert not _stored(t).closed
    assert _stored(t).probe == ""
    FAIL.clear()
    t.run()
    assert t.status(first) == "COMPENSATED"
    assert t.status(other) == "COMPLETED"


def test_a_probe_that_could_not_be_called_makes_room_for_another(deployed: Make) -> None:
    t = deployed(Shaky)
    first = _opened(t)
    other = t.start("shaky")
    t.invoke("shaky", "book")

    def unreadable(*_: object) -> None:
        raise TypeChanged("the request does not fit")

    t.clock.time += 30
    call = t.replace_call(unreadable)
    t.invoke("shaky", "call")
    t.replace_call(call)
    assert sorted(t.status(saga_id) for saga_id in (first, other)) == ["DEAD_LETTERED", "RUNNING"]
    assert not _stored(t).closed
    assert _stored(t).probe == ""
    t.run()
    assert sorted(t.status(saga_id) for saga_id in (first, other)) == ["COMPLETED", "DEAD_LETTERED"]
    assert _stored(t).closed


def test_a_success_in_between_begins_the_count_anew(deployed: Make) -> None:
    t = deployed(Shaky)
    for _ in range(3):
        FAIL["call"] = 2
        saga_id = t.start("shaky")
        t.run()
        assert t.status(saga_id) == "COMPLETED"
    assert _stored(t).closed


def test_an_attempt_that_was_killed_does_not_count(deployed: Make) -> None:
    t = deployed(Shaky)
    FAIL["call"] = 2
    saga_id = t.start("shaky")
    t.invoke("shaky", "book")
    for _ in range(2):
        t.invoke("shaky", "call")
        t.clock.time += 2
    clock = t.clock
    lease = lease_for(t.engine.registry.get("shaky"), clock, clock.now() + 10)
    assert t.engine.control.claim_step(saga_id, 1, 2, lease, clock.now())
    clock.time += 20
    t.invoke("shaky", "call")
    assert "StepLost" in t.actions(saga_id)
    assert (_stored(t).closed, _stored(t).failures) == (True, 2)
    t.run()
    assert t.status(saga_id) == "COMPLETED"


def test_environments_share_it(deployed: Make) -> None:
    t = deployed(Shaky)
    _opened(t)
    step_handler.reset()
    other = t.start("shaky")
    t.invoke("shaky", "book")
    t.stack.sqs.purge_queue(QueueUrl=t.stack.queues["shaky"]["call"])
    t.engine.queues.send(Message(other, "shaky", "call", 1, False, 2))
    t.invoke("shaky", "call")
    assert t.delayed[-1] == (45, 1)
    assert t.step(other, 1)["attempts"] == 0


def test_is_believed_for_a_moment_only(deployed: Make, asked: list[str]) -> None:
    t = deployed(Shaky)
    for pause in (0.0, 0.5, 0.5):
        saga_id = t.start("shaky")
        t.run()
        assert t.status(saga_id) == "COMPLETED"
        t.clock.time += pause
    assert [one for one in asked if one.startswith("breaker")] == ["breaker GetItem"]
    t.start("shaky")
    t.run()
    assert [one for one in asked if one.startswith("breaker")] == ["breaker GetItem"] * 2


def _allow_receives(t: Bench, count: int) -> None:
    """Have the step's queue give messages up after so many receives."""
    url, sqs = t.stack.queues["shaky"]["call"], t.stack.sqs
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])["Attributes"]
    policy = json.loads(attributes["RedrivePolicy"]) | {"maxReceiveCount": count}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy)})


@pytest.mark.slow
@pytest.mark.parametrize("where", ["deployed", "emulated"])
def test_no_message_dies_however_long_it_stays_open(
    where: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    t: Bench = request.getfixturevalue(where)(Shaky)
    saga_id = _opened(t)
    _allow_receives(t, 6)
    monkeypatch.setenv("SAGAS_MAX_RECEIVES", "6")
    journal, control = t.actions(saga_id), t.stack.control(saga_id)
    t.clock.time += 2
    for _ in range(100):  # as if time stood still: each delivery is one postponement
        assert t.invoke("shaky", "call") == 1
    assert t.dead_letters("shaky") == 0
    assert len(t.delayed) > 30
    assert t.actions(saga_id) == journal
    assert t.stack.control(saga_id) == control
    t.run()
    assert t.status(saga_id) == "COMPLETED"


def test_a_cancel_does_not_wait_for_it(deployed: Make) -> None:
    t = deployed(Shaky)
    saga_id = _opened(t)
    t.engine.operations.cancel("shaky", saga_id, "me")
    t.run()
    assert t.status(saga_id) == "CANCELLED"
    assert LOG[-1] == "unbook:1"
    assert not _stored(t).closed


def test_an_undo_does_not_wait_for_it(deployed: Make) -> None:
    t = deployed(Shaky)
    FAIL["tell"] = ValueError("no")
    done = t.start("shaky")
    for name in ("book", "call"):
        t.invoke("shaky", name)
    _opened(t)
    opened_at = t.clock.now()
    for name in ("tell", "call", "book"):
        t.invoke("shaky", name, most=10)
    assert t.status(done) == "COMPENSATED"
    assert "uncall:1" in LOG
    assert t.clock.now() == opened_at


def test_a_stale_message_waits_as_any_other_and_is_dropped_then(deployed: Make) -> None:
    """While the breaker is known to be open nobody looks whether a new message is stale."""
    t = deployed(Shaky)
    saga_id = _opened(t)
    t.stack.sqs.purge_queue(QueueUrl=t.stack.queues["shaky"]["call"])
    t.engine.queues.send(Message(saga_id, "shaky", "call", 1, False, 1))
    t.invoke("shaky", "call")
    assert t.delayed[-1] == (45, 1)
    t.clock.time += 45
    journal = t.actions(saga_id)
    assert t.invoke("shaky", "call") == 1
    assert t.invoke("shaky", "call") == 0
    assert t.actions(saga_id) == journal


def test_the_silence_it_causes_is_excused(deployed: Make) -> None:
    t = deployed(Shaky)
    excused = t.engine.breakers.postponed_until
    sent = t.clock.now()
    assert excused("shaky", "book", sent) == excused("shaky", "call", sent) == 0.0
    _opened(t)
    t.clock.time += 2
    assert 30 < excused("shaky", "call", sent) - _stored(t).open_until < 60, "the spread, and some seconds"
    assert excused("shaky", "call", _stored(t).open_until - 3_600) - _stored(t).open_until > 90, "copies come later"
    t.run()
    t.clock.time += 2
    closed_at = _stored(t).closed_at
    assert 60 < excused("shaky", "call", sent) - closed_at < 150, "it may have been closed by hand"
    assert excused("shaky", "call", closed_at + 60) == excused("nobody", "knows", sent) == 0.0


def test_a_message_lost_after_it_closed_is_missed_as_soon_as_any_other(deployed: Make) -> None:
    """For a quarter of an hour after a breaker had closed, the silence of every message at its step was excused."""
    t = deployed(Shaky)
    _opened(t)
    t.run()
    t.clock.time += 60
    saga_id = t.start("shaky")
    t.invoke("shaky", "book")
    t.stack.sqs.purge_queue(QueueUrl=t.stack.queues["shaky"]["call"])
    for _ in range(3):
        t.clock.time += 100
        t.engine.recovery.run(10)
    t.run()
    assert t.status(saga_id) == "COMPLETED"
    assert t.actions(saga_id).count("MessageResent") == 1


def test_a_breaker_out_of_reach_holds_no_outcome_up(
    deployed: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> bool:
        raise Unavailable("DynamoDB: no")

    t = deployed(Shaky)
    FAIL["call"] = 1
    monkeypatch.setattr(BreakerItems, "count", refuse)
    saga_id = t.start("shaky")
    t.run()
    assert t.status(saga_id) == "COMPLETED"
    assert "an outcome was not counted by the circuit breaker" in caplog.messages


def test_a_breaker_that_cannot_be_read_keeps_the_message(deployed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> BreakerState:
        raise Unavailable("DynamoDB: no")

    t = deployed(Shaky)
    saga_id = t.start("shaky")
    t.invoke("shaky", "book")
    with monkeypatch.context() as patched:
        patched.setattr(BreakerItems, "get", refuse)
        records = t.stack.receive("shaky", "call")
        answer = step_handler.handler({"Records": records}, LambdaContext())
    assert [item["itemIdentifier"] for item in answer["batchItemFailures"]] == [records[0]["messageId"]]
    assert t.step(saga_id, 1)["attempts"] == 0


def test_an_open_circuit_is_no_stall(deployed: Make) -> None:
    t = deployed(Shaky)
    saga_id = _opened(t)
    known = _stored(t)
    held = replace(known, open_until=t.clock.now() + 3600, revision="x")
    assert _items().swap("shaky", "call", known, held) is held
    step_handler.reset()
    t.clock.time += 6
    shown = t.show(saga_id)["steps"]
    assert iso(held.open_until) in [step["next_attempt_at"] for step in shown]
    for _ in range(12):
        t.clock.time += 300
        assert t.engine.recovery.run(10).recovered == []
    assert t.show(saga_id)["recovery_attempts"] == 0
