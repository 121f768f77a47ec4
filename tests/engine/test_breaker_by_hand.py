"""Circuit breakers as operators see them, and closing one."""

from __future__ import annotations

import pytest

from sagas import CircuitBreaker, Context, Retry, step
from sagas.core.text import iso
from sagas.engine.operate import breaker_operations
from sagas.errors import NotFound, Unavailable
from sagas.handlers import step as step_handler
from sagas.messaging.queues import Queues
from tests.engine.purges import purge, stored
from tests.support.bench import Bench, Make
from tests.support.sagas import FAIL, LOG, Booked, Trip, act

pytestmark = pytest.mark.usefixtures("clean")


class Shaky(Booked, name="shaky"):
    """The second step's breaker opens at the second failure; the third has one that nothing opens."""

    @step(retry=Retry.constant(max_retries=9, delay=2), circuit_breaker=CircuitBreaker(2, 30))
    def call(self, ctx: Context) -> None:
        act("call", ctx)

    @step(circuit_breaker=CircuitBreaker())
    def tell(self, ctx: Context) -> None:
        act("tell", ctx)


def _opened(t: Bench) -> str:
    FAIL["call"] = 2
    saga_id = t.start("shaky")
    t.invoke("shaky", "book")
    for _ in range(2):
        t.clock.time += 2
        t.invoke("shaky", "call")
    return saga_id


def _lost(t: Bench) -> None:
    """All messages of the step are on their way for a long time."""
    t.stack.sqs.purge_queue(QueueUrl=t.stack.queues["shaky"]["call"])
    t.delayed.clear()


def test_all_that_are_declared_are_listed(deployed: Make) -> None:
    t = deployed(Shaky, Trip)
    assert [(one["type"], one["step"], one["state"]) for one in t.engine.breaker_operations.list()] == [
        ("shaky", "call", "closed"), ("shaky", "tell", "closed"),
    ]  # fmt: skip


def test_an_open_one_says_until_when_and_how_many_wait(deployed: Make) -> None:
    t = deployed(Shaky, Trip)
    first = _opened(t)
    opened_at = t.clock.now()
    for _ in range(3):
        t.start("shaky")
    t.invoke("shaky", "book")
    t.start("trip")
    call, tell = t.engine.breaker_operations.list()
    assert call == {
        "type": "shaky", "step": "call", "state": "open", "failures": 2, "open_until": iso(opened_at + 30),
        "waiting": 2, "more_waiting": False,
        "last_error": {
            "type": "RuntimeError", "message": "call fails", "at": iso(opened_at), "saga_id": first,
            "seq": t.show(first)["seq"],
        },
    }  # fmt: skip
    assert (tell["state"], tell["open_until"], tell["waiting"]) == ("closed", None, 0)
    t.clock.time += 30
    assert t.engine.breaker_operations.list()[0]["state"] == "half-open"
    assert t.show(first)["breaker"] == {"step": "call", "open_until": iso(opened_at + 30)}
    t.run()
    assert [one["state"] for one in t.engine.breaker_operations.list()] == ["closed", "closed"]
    assert t.show(first)["breaker"] is None


def test_a_failed_probe_is_the_last_error_and_closing_keeps_it(deployed: Make) -> None:
    t = deployed(Shaky)
    _opened(t)
    [before, _] = t.engine.breaker_operations.list()
    FAIL["call"] = 1
    t.clock.time += 35
    t.invoke("shaky", "call")
    [after, _] = t.engine.breaker_operations.list()
    assert after["state"] == "open"
    assert before["last_error"]
    assert after["last_error"]
    assert after["last_error"]["at"] > before["last_error"]["at"]
    closed = t.engine.breaker_operations.close("shaky", "call", "ann")
    assert closed["last_error"] == after["last_error"] | {"message": None}, "what is solved costs no read"


def test_a_purge_takes_the_text_of_the_last_error(deployed: Make) -> None:
    t = deployed(Shaky)
    first = _opened(t)
    t.engine.operations.cancel("shaky", first, "ann")
    t.run()
    purge(t, first, name="shaky")
    [call, _] = t.engine.breaker_operations.list()
    assert call["state"] != "closed"
    assert call["last_error"]
    assert call["last_error"]["message"] is None
    assert "call fails" not in stored(t)


def test_listing_costs_one_read_while_all_are_closed(deployed: Make, asked: list[str]) -> None:
    t = deployed(Shaky)
    t.start("shaky")
    asked.clear()
    t.engine.breaker_operations.list()
    assert asked == ["BatchGetItem"]


def test_those_that_wait_are_counted_up_to_a_limit_and_it_says_so(
    deployed: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker_operations, "MOST_LOOKED_AT", 2)
    t = deployed(Shaky)
    _opened(t)
    for _ in range(2):
        t.start("shaky")
        t.invoke("shaky", "book")
    call, tell = t.engine.breaker_operations.list()
    assert (call["waiting"], call["more_waiting"]) == (2, True)
    assert tell["more_waiting"] is False


def test_closing_sends_those_that_wait_anew_spread(
    deployed: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(breaker_operations, "_A_SECOND", 0.25)
    caplog.set_level("INFO", "sagas")
    t = deployed(Shaky)
    ids = [_opened(t)]
    for _ in range(3):
        ids.append(t.start("shaky"))
        t.invoke("shaky", "book")
    _lost(t)
    after = t.engine.breaker_operations.close("shaky", "call", "arn:ann")
    assert (after["state"], after["open_until"], after["waiting"], after["more_waiting"]) == ("closed", None, 4, False)
    assert t.delayed == [(2, 0), (6, 0), (10, 0), (14, 0)], "first when all environments have heard of it"
    [told] = [one for one in caplog.records if one.message == "the circuit breaker was closed by hand"]
    known = ("saga", "step", "actor", "was_closed", "sent")
    assert [getattr(told, name) for name in known] == ["shaky", "call", "arn:ann", False, 4]
    assert t.show(ids[0])["breaker"] is None
    t.clock.time += 6
    t.run()
    assert [t.status(saga_id) for saga_id in ids] == ["COMPLETED"] * 4
    assert [LOG.count(f"call:{attempt}") for attempt in (1, 2, 3)] == [4, 1, 1]


def test_an_environment_that_read_it_open_asks_again_a_second_later(deployed: Make) -> None:
    t = deployed(Shaky)
    saga_id = _opened(t)
    t.engine.breaker_operations.close("shaky", "call", "ann")
    t.clock.time += 1
    t.delayed.clear()
    t.run()
    assert t.status(saga_id) == "COMPLETED"
    assert t.delayed == []


def test_a_message_that_comes_by_itself_as_well_does_no_harm(deployed: Make) -> None:
    t = deployed(Shaky)
    saga_id = _opened(t)
    t.engine.breaker_operations.close("shaky", "call", "ann")
    step_handler.reset()
    t.run()
    assert t.status(saga_id) == "COMPLETED"
    assert LOG.count("call:3") == 1
    assert t.actions(saga_id).count("StepCompleted") == 3


def test_running_and_cancelled_sagas_are_left_alone(deployed: Make) -> None:
    t = deployed(Shaky)
    _opened(t)
    other = t.start("shaky")
    t.invoke("shaky", "book")
    t.engine.operations.cancel("shaky", other, "ann")
    _lost(t)
    assert t.engine.breaker_operations.close("shaky", "call", "ann")["waiting"] == 1


def test_closing_one_that_is_closed_sends_nothing_and_counts_anew(deployed: Make) -> None:
    t = deployed(Shaky)
    FAIL["call"] = 1
    t.start("shaky")
    t.invoke("shaky", "book")
    t.invoke("shaky", "call")
    assert t.engine.breaker_operations.list()[0]["failures"] == 1
    _lost(t)
    assert t.engine.breaker_operations.close("shaky", "call", "ann")["failures"] == 0
    assert t.delayed == []
    assert t.engine.breaker_operations.list()[0]["failures"] == 0


def test_a_queue_out_of_reach_leaves_it_closed(deployed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Unavailable("SQS: no")

    t = deployed(Shaky)
    _opened(t)
    with monkeypatch.context() as patched:
        patched.setattr(Queues, "send", refuse)
        after = t.engine.breaker_operations.close("shaky", "call", "ann")
    assert (after["state"], after["waiting"], after["more_waiting"]) == ("closed", 0, True)
    assert t.engine.breaker_operations.list()[0]["state"] == "closed"


@pytest.mark.parametrize(("saga", "step"), [("nobody", "call"), ("shaky", "nothing"), ("shaky", "book")])
def test_only_what_has_one_can_be_closed(deployed: Make, saga: str, step: str) -> None:
    t = deployed(Shaky)
    with pytest.raises(NotFound):
        t.engine.breaker_operations.close(saga, step, "ann")
