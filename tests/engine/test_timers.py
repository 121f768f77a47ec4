"""When sagas that sleep wake: short waits by their message, long ones by the supervisor that sends it in time."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import force_setattr

from sagas import Context, NotYet, Saga, sleep, step, wait_for
from sagas.core.text import epoch, iso
from sagas.engine.supervise.due_scan import LOOK_AHEAD, look_ahead
from sagas.handlers.tasks.due import recover_due
from sagas.messaging.queues import Queues
from sagas.messaging.work import BULK, Work, parse_work
from tests.support.aws import LambdaContext
from tests.support.bench import Bench, Death, Make, once
from tests.support.sagas import FAIL, LOG, PARK, Answered, Booked, Order, act

_LENGTHS = {"short": 600.0, "long": 5_000.5}


class Short(Saga[Order], name="short"):
    """Sleeps for ten minutes."""

    rest = sleep(timedelta(seconds=_LENGTHS["short"]))

    @step
    def end(self, ctx: Context) -> str:
        act("end", ctx)
        return "awake"


class Long(Short, name="long"):
    """Sleeps for longer than a message is kept."""

    rest = sleep(timedelta(seconds=_LENGTHS["long"]))


class Deadlined(Answered[Order], name="deadlined", timeout=timedelta(seconds=4_950)):
    """Its own deadline comes 50 seconds before its wait ends."""

    answer = wait_for(str, timeout=timedelta(seconds=5_000))


class Asked(Answered[Order], name="asked"):
    """Waits for a day."""


class Looking(Saga[Order], name="looking", stale_after=timedelta(seconds=60)):
    """Looks again after an hour."""

    @step(within=timedelta(days=1))
    def settle(self, ctx: Context) -> int:
        act("settle", ctx)
        if ctx.attempt == 1:
            raise NotYet(after=3_600)
        return ctx.attempt


class Service:
    """A deployment whose messages arrive when they are due, and whose supervisor comes once in ``every`` seconds."""

    def __init__(self, b: Bench, monkeypatch: pytest.MonkeyPatch, every: float = 60.0) -> None:
        self.b, self.every = b, every
        monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Sagas")
        self.late: list[tuple[float, Callable[[], None]]] = []
        self.queues: list[str] = []
        force_setattr(b.engine.finder, "look_ahead", look_ahead(every))
        force_setattr(b.engine.recovery, "look_ahead", look_ahead(every))
        send, send_work = Queues.send, Queues.send_work

        def sending(queues: Queues, message: Any, delay: float = 0.0) -> None:
            if message.codeless:
                return send(queues, message, delay)  # by way of the queue ``now``
            return self._later(delay, lambda: send(queues, message))

        def working(queues: Queues, queue: str, work: list[Work], delay: float = 0.0) -> None:
            self.queues.append(queue)
            self._later(delay, lambda: send_work(queues, queue, work))

        monkeypatch.setattr(Queues, "send", sending)
        monkeypatch.setattr(Queues, "send_work", working)
        monkeypatch.setattr(Queues, "work_waiting", self._waiting)

    def _waiting(self, name: str) -> int:
        return len(self.late)

    def _later(self, delay: float, arrive: Callable[[], None]) -> None:
        assert delay <= 900.0
        if delay <= 0:
            arrive()
        else:
            self.late.append((self.b.clock.now() + math.ceil(delay), arrive))

    def run(self, until: float, saga_id: str, phase: float = 0.0) -> float:
        """Let time pass until the saga is over; how long after ``until`` it was."""
        clock, tick = self.b.clock, self.b.clock.now() + phase
        while clock.now() < until + 600:
            self._arrive()
            self.b.run()
            if self.b.state(saga_id).ended:
                return round(clock.now() - until, 3)
            upcoming = min([tick, *(at for at, _ in self.late)])
            clock.advance(max(upcoming - clock.now(), 0.0))
            if clock.now() >= tick:
                tick += self.every
                self.b.engine.finder.run("recover", 60.0)
                self._bulk()
        raise AssertionError("it sleeps on")

    def _arrive(self) -> None:
        arrived = [one for one in self.late if one[0] <= self.b.clock.now()]
        for one in arrived:
            self.late.remove(one)
            one[1]()

    def _bulk(self) -> None:
        for record in self.b.stack.receive_from(self.b.stack.work, 10):
            recover_due(parse_work(record), LambdaContext(), self.b.engine)
            self.b.stack.sqs.delete_message(QueueUrl=self.b.stack.work, ReceiptHandle=record["receiptHandle"])


@pytest.mark.parametrize(("visits", "ahead"), [(60.0, 150.0), (120.0, 240.0), (300.0, 600.0), (900.0, 900.0)])
def test_the_supervisor_looks_ahead_two_of_its_visits(visits: float, ahead: float) -> None:
    assert look_ahead(visits) == ahead
    assert look_ahead(60.0) == LOOK_AHEAD


@pytest.mark.parametrize("name", ["short", "long"])
@pytest.mark.parametrize("every", [60.0, 300.0])
@pytest.mark.parametrize("phase", [0.0, 17.0, 59.0])
def test_a_sleeping_saga_wakes_within_two_seconds(
    bench: Make, monkeypatch: pytest.MonkeyPatch, name: str, every: float, phase: float
) -> None:
    b = bench(Short, Long)
    service = Service(b, monkeypatch, every)
    saga_id = b.start(name)
    until = b.clock.now() + _LENGTHS[name]
    assert 0.0 <= service.run(until, saga_id, phase) <= 2.0
    assert LOG == ["end:1"]
    assert b.actions(saga_id).count("WaitEnded") == 1
    if name == "long":
        assert BULK not in service.queues  # what is recovered in a mass holds up no wait


def test_a_short_sleep_whose_message_was_lost_ends_with_the_next_visit(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench(Short)
    service = Service(b, monkeypatch)
    saga_id = b.start("short")
    b.run()
    until = b.clock.now() + 600.0
    service.late.clear()
    assert 0.0 <= service.run(until, saga_id, 1.0) <= 65.0


def test_a_long_sleep_whose_message_was_lost_ends_soon_after_it(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Long)
    service = Service(b, monkeypatch)
    saga_id = b.start("long")
    b.run()
    until = b.clock.now() + _LENGTHS["long"]
    b.clock.advance(_LENGTHS["long"] - 100)
    b.engine.finder.run("recover", 60.0)
    b.run()
    assert service.late
    service.late.clear()
    assert service.run(until, saga_id) <= LOOK_AHEAD + 65.0


def test_a_wait_is_due_exactly_when_it_ends(bench: Make) -> None:
    b = bench(Short, Long, Looking)
    for name, length in _LENGTHS.items():
        saga_id = b.start(name)
        began = b.clock.now()
        b.end_waits()
        item = b.stack.control(saga_id)
        assert epoch(item["due"]["S"]) == began + length
        assert item["open_shard"]["S"].startswith("wait#") is (name == "long")
    looking = b.start("looking")
    b.deliver("looking", "settle")
    assert epoch(b.stack.control(looking)["due"]["S"]) == b.clock.now() + 3_600


def test_a_deadline_before_the_end_of_a_wait_is_kept(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Deadlined)
    service = Service(b, monkeypatch)
    saga_id = b.start("deadlined")
    until = b.clock.now() + 4_950
    assert 0.0 <= service.run(until, saga_id, 13.0) <= 65.0
    assert b.show(saga_id)["error"]["type"] == "SagaTimedOut"


def test_a_signal_whose_sender_died_is_due_where_nothing_is_looked_at_ahead(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench(Asked)
    saga_id = b.start("asked")
    b.end_waits()
    assert b.stack.control(saga_id)["open_shard"]["S"].startswith("wait#")
    once(monkeypatch, type(b.engine.signals), "_take")
    with pytest.raises(Death):
        b.engine.signals.send("asked", saga_id, "answer", "yes", "ada")
    assert not b.stack.control(saga_id)["open_shard"]["S"].startswith("wait#")
    assert epoch(b.stack.control(saga_id)["due"]["S"]) == b.clock.now() + 120
    b.clock.advance(121)
    b.recover()
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def test_what_waits_is_handed_to_the_queue_now(bench: Make) -> None:
    b = bench(Long)
    saga_id = b.start("long")
    b.end_waits()
    b.clock.advance(_LENGTHS["long"] - 100)
    assert b.engine.finder.run("recover", 60.0).found == 1
    assert not b.stack.receive_from(b.stack.work)
    assert b.stack.receive_from(b.stack.now)
    assert b.status(saga_id) == "WAITING"


class Stuck(Booked, name="stuck-in-time", timeout=timedelta(hours=1)):
    """Its second step waits for an operator, and the saga's own deadline comes."""

    @step(retry=PARK)
    def second(self, ctx: Context) -> str:
        act("second", ctx)
        return "done"


def stuck(b: Bench) -> str:
    FAIL["second"] = RuntimeError("broken")
    saga_id = b.start("stuck-in-time")
    b.deliver("stuck-in-time", "book")
    b.deliver("stuck-in-time", "second")
    assert b.status(saga_id) == "DEAD_LETTERED"
    return saga_id


def listed(b: Bench) -> list[str]:
    return [saga["saga_id"] for saga in b.engine.reader.attention(None, 10, None)["sagas"]]


def test_a_saga_that_waits_for_an_operator_ends_at_its_deadline(bench: Make) -> None:
    b = bench(Stuck)
    began = b.clock.now()
    saga_id = stuck(b)
    item = b.stack.control(saga_id)
    assert item["due"]["S"] == iso(began + 3_600)
    assert item["incident"]["S"].endswith(f"#{item['attention']['S']}")
    assert listed(b) == [saga_id]
    b.clock.advance(3_500)
    b.recover()
    assert b.status(saga_id) == "DEAD_LETTERED"
    b.clock.advance(101)
    b.recover()
    b.run()
    assert b.status(saga_id) == "COMPENSATED"
    assert b.show(saga_id)["error"]["type"] == "SagaTimedOut"
    assert LOG[-1] == "unbook"
    assert not listed(b)


def test_an_operator_who_is_faster_keeps_it_from_its_deadline(bench: Make) -> None:
    b = bench(Stuck)
    saga_id = stuck(b)
    FAIL.clear()
    b.clock.advance(3_000)
    b.engine.operations.retry("stuck-in-time", saga_id, "fixed", "bob")
    assert not listed(b)
    assert not {"incident_shard", "incident"} & b.stack.control(saga_id).keys()
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def test_a_cancelled_one_leaves_the_list_at_once(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Stuck)
    saga_id = stuck(b)
    once(monkeypatch, type(b.engine.operations), "_begin_undoing")
    with pytest.raises(Death):
        b.engine.operations.cancel("stuck-in-time", saga_id, "bob")
    assert not {"incident_shard", "incident"} & b.stack.control(saga_id).keys()
    b.clock.advance(1)
    b.recover()
    b.run()
    assert b.status(saga_id) == "CANCELLED"
