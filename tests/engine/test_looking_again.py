"""A step that looks again and again: what is journaled of it, and what that costs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sagas import Context, NotYet, Retry, Saga, step
from sagas.store.control.control import ControlItems
from tests.engine.metering import Wire
from tests.support.bench import Bench, Death, Make, once
from tests.support.sagas import LOG, Order, act

SAID: dict[int, tuple[float, str]] = {}
"""What the step says at an attempt; the last of it from there on."""


class Looking(Saga[Order], name="looking-again"):
    """Looks as often as its request says, and says what the test wants."""

    @step(within=timedelta(days=20), retry=Retry.constant(max_retries=1, delay=0))
    def settle(self, request: Order, ctx: Context) -> int:
        act("settle", ctx)
        if ctx.attempt <= request.count:
            after, message = SAID[max(attempt for attempt in SAID if attempt <= ctx.attempt)]
            raise NotYet(after=after, message=message)
        return ctx.attempt


def begun(bench: Make, looks: int, **said: tuple[float, str]) -> tuple[Bench, str]:
    SAID.clear()
    SAID.update({int(attempt[1:]): one for attempt, one in said.items()})
    b = bench(Looking)
    return b, b.start("looking-again", {"item": "x", "count": looks})


def look(b: Bench, times: int = 1) -> None:
    for _ in range(times):
        b.deliver("looking-again", "settle")
        b.clock.advance(20)
        b.lose_messages()
        state = next(iter(b.engine.control.get_many([saga["saga_id"] for saga in listed(b)]).values()))
        if not state.ended:
            b.engine.recovery.advancer.send_again(state, 0.0)


def listed(b: Bench) -> list[Any]:
    return b.engine.reader.list(["looking-again"], None, 1, None)["sagas"]


def postponed(b: Bench, saga_id: str) -> list[int]:
    return [int(entry["attempt"]) for entry in b.stack.entries(saga_id) if entry["action"] == "StepPostponed"]


def test_the_first_look_is_journaled_and_what_says_otherwise(bench: Make) -> None:
    b, saga_id = begun(bench, 9, _1=(10, "the bank"), _4=(10, "the clerk"), _7=(15, "the clerk"))
    look(b, 9)
    assert b.status(saga_id) == "WAITING"
    assert b.step(saga_id)["message"] == "the clerk"
    assert b.step(saga_id)["attempts"] == 9
    look(b)
    assert b.show(saga_id)["result"] == 10
    assert postponed(b, saga_id) == [1, 4, 7]
    assert len(LOG) == 10


def test_a_look_that_says_the_same_costs_two_writes(bench: Make, wire: Wire) -> None:
    b, saga_id = begun(bench, 5, _1=(10, "the bank"))
    look(b, 2)
    wire.requests.clear()
    b.deliver("looking-again", "settle")
    writes = [name for name, _ in wire.requests if name in ("UpdateItem", "PutItem", "TransactWriteItems")]
    assert writes == ["UpdateItem", "UpdateItem"]
    assert b.actions(saga_id).count("StepPostponed") == 1


def test_after_a_hundred_looks_the_next_is_a_minute_later(bench: Make) -> None:
    b, saga_id = begun(bench, 200, _1=(1, "the bank"))
    look(b, 100)
    assert b.state(saga_id).not_before - b.state(saga_id).updated_at == pytest.approx(1.0)
    b.deliver("looking-again", "settle")
    state = b.state(saga_id)
    assert state.not_before - b.clock.now() == pytest.approx(60.0)
    assert postponed(b, saga_id) == [1, 101]


def test_a_cancel_while_it_looks_is_journaled_with_how_often_it_looked(bench: Make) -> None:
    b, saga_id = begun(bench, 99, _1=(10, "the bank"))
    look(b, 4)
    b.engine.operations.cancel("looking-again", saga_id, "bob")
    b.run()
    assert b.status(saga_id) == "CANCELLED"
    assert b.entry(saga_id, "CancelRequested")["details"]["looked"] == {"step": "settle", "attempts": 4}
    left = b.engine.reader.remains.of(saga_id)
    assert left is not None
    assert left.state.steps[0].attempts.made == 4


class Refunding(Saga[Order], name="refunding"):
    """Its undo looks as often as its request says; then the undo succeeds."""

    @step(within=timedelta(seconds=5), retry=Retry.constant(max_retries=0, delay=0))
    def pay(self, request: Order, ctx: Context) -> str:
        act("pay", ctx)
        return "paid"

    @pay.compensate(retry=Retry.constant(max_retries=0, delay=0))
    def refund(self, request: Order, pay: str | None, ctx: Context) -> None:
        act("refund", ctx)
        if ctx.attempt <= request.count:
            raise NotYet(after=2, message="the bank")

    @step(retry=Retry.constant(max_retries=0, delay=0))
    def ship(self, ctx: Context) -> None:
        raise ValueError("sold out")


def test_an_undo_looks_again_without_using_up_its_retries(bench: Make) -> None:
    b = bench(Refunding)
    saga_id = b.start("refunding", {"item": "x", "count": 2})
    for step_name in ("pay", "ship", "pay"):
        b.deliver("refunding", step_name)
    shown = b.show(saga_id)
    assert (shown["status"], shown["waiting"]["kind"]) == ("COMPENSATING", "backoff")
    assert (shown["steps"][0]["message"], shown["steps"][0]["status"]) == ("the bank", "COMPLETED")
    b.run()
    assert b.status(saga_id) == "COMPENSATED"
    assert b.actions(saga_id)[-3:] == ["CompensationStarted", "CompensationPostponed", "StepCompensated"]
    assert LOG == ["pay:1", "refund:1", "refund:2", "refund:3"]


def test_an_undo_whose_patience_is_over_has_failed_for_good(bench: Make) -> None:
    b = bench(Refunding)
    saga_id = b.start("refunding", {"item": "x", "count": 99})
    b.run()
    assert b.status(saga_id) == "COMPENSATION_FAILED"
    assert LOG == ["pay:1", "refund:1", "refund:2", "refund:3", "refund:4"]
    assert b.show(saga_id)["steps"][0]["error"] == {"type": "NotYet", "message": "not yet after 5 s: the bank"}
    b.engine.operations.retry("refunding", saga_id, "the bank is back", "ada")
    b.deliver("refunding", "pay")
    assert b.step(saga_id, 0)["message"] == "the bank", "its patience counts anew"


def test_an_undo_that_looks_again_may_die(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Refunding)
    saga_id = b.start("refunding", {"item": "x", "count": 2})
    for step_name in ("pay", "ship", "pay"):
        b.deliver("refunding", step_name)
    b.clock.advance(2)
    once(monkeypatch, ControlItems, "commit")
    with pytest.raises(Death):
        b.deliver("refunding", "pay")
    b.run()
    assert b.status(saga_id) == "COMPENSATION_FAILED", "its one attempt was lost"
    assert b.step(saga_id, 0)["error"]["type"] == "Lost"


class Shy(NotYet):
    """Does not call what it inherits from."""

    def __init__(self, after: object = None) -> None:
        if after is not None:
            self.after = after  # pyright: ignore[reportAttributeAccessIssue] -- authors do


class Unsure(Saga[Order], name="unsure"):
    """Raises a subclass of its own."""

    @step(retry=Retry.constant(max_retries=0, delay=0))
    def look(self, request: Order, ctx: Context) -> str:
        if ctx.attempt == 1:
            raise Shy("soon" if request.count == 1 else None)
        return "seen"


def test_a_subclass_that_says_nothing_is_called_again_after_a_minute(bench: Make) -> None:
    b = bench(Unsure)
    saga_id = b.start("unsure", {"item": "x", "count": 0})
    b.deliver("unsure", "look")
    state = b.state(saga_id)
    assert (b.status(saga_id), state.not_before) == ("WAITING", state.updated_at + 60)


def test_a_subclass_that_says_nonsense_has_failed(bench: Make) -> None:
    b = bench(Unsure)
    saga_id = b.start("unsure", {"item": "x", "count": 1})
    b.deliver("unsure", "look")
    told = "NotYet: after must be a number of seconds, at least 1, not 'soon'"
    assert b.show(saga_id)["error"] == {"step": "look", "type": "ValueError", "message": told}


def test_a_cancel_during_a_look_wins(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b, saga_id = begun(bench, 99, _1=(10, "the bank"))
    look(b, 2)
    commit = ControlItems.commit

    def cancelled_before(control: ControlItems, *given: Any) -> None:
        monkeypatch.setattr(ControlItems, "commit", commit)
        b.engine.operations.cancel("looking-again", saga_id, "bob")
        commit(control, *given)

    monkeypatch.setattr(ControlItems, "commit", cancelled_before)
    b.deliver("looking-again", "settle")
    b.run()
    assert b.status(saga_id) == "CANCELLED"


def test_the_answer_to_such_a_write_may_be_lost(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b, saga_id = begun(bench, 99, _1=(10, "the bank"))
    look(b, 2)
    before, commit = b.state(saga_id), ControlItems.commit

    def twice(control: ControlItems, *given: Any) -> None:
        commit(control, *given)
        commit(control, *given)

    monkeypatch.setattr(ControlItems, "commit", twice)
    b.deliver("looking-again", "settle")
    after = b.state(saga_id)
    assert after.lease is None
    assert (after.seq, after.dispatch, after.steps[0].attempts.made) == (before.seq, before.dispatch + 1, 3)


def test_a_worker_that_dies_before_it_is_found(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b, saga_id = begun(bench, 3, _1=(10, "the bank"))
    look(b, 2)
    once(monkeypatch, ControlItems, "commit")
    with pytest.raises(Death):
        b.deliver("looking-again", "settle")
    b.clock.advance(600)
    b.recover()
    b.run()
    assert b.actions(saga_id).count("StepLost") == 1
    assert b.show(saga_id)["result"] == 4


def look_after(b: Bench, saga_id: str, wait: float) -> None:
    """Look once, so many seconds later than the step asked."""
    b.clock.advance(max(b.state(saga_id).not_before - b.clock.now(), 0.0) + wait)
    b.lose_messages()
    b.engine.recovery.advancer.send_again(b.state(saga_id), 0.0)
    b.deliver("looking-again", "settle")


def test_patience_counts_no_time_for_which_nobody_could_look(bench: Make) -> None:
    b, saga_id = begun(bench, 3, _1=(600, "the bank"))
    b.deliver("looking-again", "settle")
    for _ in range(2):
        look_after(b, saga_id, 30 * 86_400)
        assert b.status(saga_id) == "WAITING"
    look_after(b, saga_id, 0)
    assert b.status(saga_id) == "COMPLETED"
    assert b.actions(saga_id).count("StepPostponed") == 1


def test_patience_counts_no_pause(bench: Make) -> None:
    b, saga_id = begun(bench, 2, _1=(600, "the bank"))
    b.deliver("looking-again", "settle")
    b.engine.pausing.pause("looking-again", "ada", "the bank is down")
    look_after(b, saga_id, 0)
    assert b.state(saga_id).paused
    b.clock.advance(30 * 86_400)
    b.engine.pausing.resume("looking-again", "ada")
    b.clock.advance(10)
    look_after(b, saga_id, 0)
    assert b.status(saga_id) == "WAITING"
    look_after(b, saga_id, 0)
    assert b.show(saga_id)["result"] == 3


def test_patience_counts_the_delays_of_a_queue(bench: Make) -> None:
    b, saga_id = begun(bench, 99, _1=(2 * 86_400, "the bank"))
    began = b.clock.now()
    b.deliver("looking-again", "settle")
    while not b.state(saga_id).ended:
        look_after(b, saga_id, 30)
    assert b.status(saga_id) == "COMPENSATED"
    assert b.clock.now() - began == pytest.approx(20 * 86_400 + 30)
