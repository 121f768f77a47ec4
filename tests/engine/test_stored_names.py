"""Sagas in flight whose steps have other methods now, or are retired; and types that only wait."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sagas import Context, Exhausted, Retry, Saga, children, sleep, step, wait_for
from sagas.errors import NotFound
from tests.engine.changing import deployed, names
from tests.support.bench import Bench, Make
from tests.support.sagas import LOG, Order, perform

DAY = timedelta(days=1)
_FAST = Retry.constant(max_retries=0, delay=0.0)


class Old(Saga[Order], name="renamed"):
    """As it was."""

    @step(retry=_FAST)
    def hold(self, request: Order, ctx: Context) -> str:
        perform(f"hold {ctx.step}")
        return "seat"

    @hold.compensate
    def release(self, hold: str, ctx: Context) -> None:
        perform(f"release {hold} {ctx.idempotency_key}")

    answer = wait_for(str, timeout=DAY)

    @step(retry=_FAST)
    def pay(self, hold: str, answer: str) -> str:
        perform(f"pay {hold} {answer}")
        return "paid"


class Renamed(Saga[Order], name="renamed"):
    """All methods have other names."""

    @step(retry=_FAST, name="hold")
    def reserve(self, request: Order, ctx: Context) -> str:
        perform(f"reserve {ctx.step}")
        return "place"

    @reserve.compensate
    def free(self, reserve: str, ctx: Context) -> None:
        perform(f"free {reserve} {ctx.idempotency_key}")

    consent = wait_for(str, timeout=DAY, name="answer")

    @step(retry=_FAST, name="pay")
    def charge(self, reserve: str, consent: str) -> str:
        perform(f"charge {reserve} {consent}")
        return "paid"


def test_a_saga_in_flight_runs_the_method_that_has_its_steps_name(bench: Make) -> None:
    b = bench(Old)
    saga_id = b.start("renamed")
    b.run()
    deployed(b, Renamed)
    b.engine.signals.send("renamed", saga_id, "answer", "yes", "ada")
    b.run()
    assert (b.status(saga_id), LOG) == ("COMPLETED", ["hold hold", "charge seat yes"])


def test_its_undo_runs_with_the_same_idempotency_key(bench: Make) -> None:
    b = bench(Old)
    saga_id = b.start("renamed")
    b.run()
    deployed(b, Renamed)
    b.engine.operations.cancel("renamed", saga_id, "ann")
    b.run()
    assert (b.status(saga_id), LOG[1:]) == ("CANCELLED", [f"free seat {saga_id}:hold:undo"])


def test_a_new_saga_is_stored_queued_and_answered_under_the_stored_names(bench: Make) -> None:
    b = bench(Renamed)
    saga_id = b.start("renamed")
    assert b.deliver("renamed", "hold") is not None
    b.run()
    b.engine.signals.send("renamed", saga_id, "answer", "yes", "ada")
    with pytest.raises(NotFound):
        b.engine.signals.send("renamed", saga_id, "consent", "yes", "ada")
    b.run()
    assert (names(b, saga_id), LOG) == (["hold", "answer", "pay"], ["reserve hold", "charge place yes"])
    assert b.status(saga_id) == "COMPLETED"


class Hotel(Saga[Order], name="renamed-hotel"):
    """A child."""

    go = wait_for(str, timeout=DAY)

    @step
    def rent(self, go: str) -> str:
        perform("rent")
        return go


class Before(Saga[Order], name="retiring"):
    """A wait of each kind."""

    answer = wait_for(str, timeout=DAY)

    @answer.compensate
    def revoke(self, answer: str) -> None:
        perform(f"revoke {answer}")

    nap = sleep(DAY)

    @children(Hotel)
    def hotels(self, request: Order) -> list[Order]:
        return [request]

    @step(retry=_FAST)
    def end(self) -> str:
        perform("end")
        return "done"


class After(Saga[Order], name="retiring"):
    """All of them are retired."""

    answer = wait_for(str, timeout=DAY, retired=True)

    @answer.compensate
    def revoke(self, answer: str) -> None:
        perform(f"revoke {answer}")

    nap = sleep(DAY, retired=True)

    @children(Hotel, retired=True)
    def hotels(self, request: Order) -> list[Order]:
        perform("hotels")
        return [request]

    end = Before.end


def _signalled(b: Bench, name: str, saga_id: str, step: str) -> None:
    b.engine.signals.send(name, saga_id, step, "yes", "ada")
    b.run()


def test_sagas_in_flight_wait_at_retired_steps_and_new_ones_skip_them(bench: Make) -> None:
    b = bench(Before, Hotel)
    saga_id = b.start("retiring")
    b.run()
    b.engine = b.deploy(After, Hotel)
    new = b.start("retiring")
    b.run()
    assert (names(b, new), b.status(new), LOG) == (["end"], "COMPLETED", ["end"])
    with pytest.raises(NotFound):
        b.engine.signals.send("retiring", new, "answer", "yes", "ada")
    LOG.clear()
    _signalled(b, "retiring", saga_id, "answer")
    b.clock.advance(DAY.total_seconds())
    b.recover()
    b.run()
    (hotel,) = (one["saga_id"] for one in b.engine.reader.list(["renamed-hotel"], None, 10, None)["sagas"])
    _signalled(b, "renamed-hotel", hotel, "go")
    assert (b.status(saga_id), LOG) == ("COMPLETED", ["hotels", "rent", "end"])
    assert [one["status"] for one in b.show(saga_id)["steps"]] == ["COMPLETED"] * 4


def test_a_retired_wait_is_undone(bench: Make) -> None:
    b = bench(Before, Hotel)
    saga_id = b.start("retiring")
    b.run()
    b.engine = b.deploy(After, Hotel)
    _signalled(b, "retiring", saga_id, "answer")
    b.engine.operations.cancel("retiring", saga_id, "ann")
    b.run()
    assert (b.status(saga_id), LOG) == ("CANCELLED", ["revoke yes"])


class Reminder(Saga[Order], name="reminder", result="answer"):
    """Nothing but waits, whose class has no instance."""

    answer = wait_for(str, timeout=DAY, on_timeout=Exhausted.DEAD_LETTER)
    nap = sleep(DAY)

    @classmethod
    def create(cls) -> Any:
        raise AssertionError("create() of a type that only waits")


class Reminding(Saga[Order], name="reminding"):
    """Its children only wait."""

    @children(Reminder)
    def reminders(self, request: Order) -> list[Order]:
        return [request]

    @step
    def end(self, reminders: list[str]) -> str:
        return reminders[0]


def _slept(b: Bench) -> None:
    b.clock.advance(DAY.total_seconds())
    b.recover()
    b.run()


def test_a_type_that_only_waits_needs_no_queue_of_its_own(bench: Make) -> None:
    b = bench(Reminder)
    assert b.stack.steps() == []
    saga_id = b.start("reminder")
    b.run()
    assert b.status(saga_id) == "WAITING"
    _signalled(b, "reminder", saga_id, "answer")
    _slept(b)
    assert (b.status(saga_id), b.show(saga_id)["result"]) == ("COMPLETED", "yes")
    assert b.actions(saga_id) == ["SagaStarted", "WaitStarted", "SignalReceived", "WaitStarted", "WaitEnded"]


def test_its_lost_messages_are_sent_again(bench: Make) -> None:
    b = bench(Reminder)
    saga_id = b.start("reminder")
    b.lose_messages()
    b.clock.advance(3_600)
    assert b.recover() == [saga_id]
    b.run()
    assert b.status(saga_id) == "WAITING"


def test_it_can_be_cancelled_and_wait_for_an_operator_and_be_retried(bench: Make) -> None:
    b = bench(Reminder)
    cancelled, stopped = b.start("reminder"), b.start("reminder")
    b.run()
    b.engine.operations.cancel("reminder", cancelled, "ann")
    b.run()
    assert b.status(cancelled) == "CANCELLED"
    _slept(b)
    assert b.status(stopped) == "DEAD_LETTERED"
    b.engine.operations.retry("reminder", stopped, "ask again", "ann")
    b.run()
    _signalled(b, "reminder", stopped, "answer")
    _slept(b)
    assert b.status(stopped) == "COMPLETED"


def test_it_can_be_a_child(bench: Make) -> None:
    b = bench(Reminding, Reminder)
    saga_id = b.start("reminding")
    b.run()
    (reminder,) = (one["saga_id"] for one in b.engine.reader.list(["reminder"], None, 10, None)["sagas"])
    _signalled(b, "reminder", reminder, "answer")
    _slept(b)
    assert (b.status(saga_id), b.show(saga_id)["result"]) == ("COMPLETED", "yes")


def test_no_queue_of_its_own_is_counted(bench: Make) -> None:
    b = bench(Reminder, Old)
    queues = b.engine.statistics.of(["reminder", "renamed"])["queues"]
    assert {queue["type"] for queue in queues} == {"renamed"}
