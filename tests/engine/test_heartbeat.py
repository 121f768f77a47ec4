"""A step that outlasts its lease keeps it, and one that has lost it is told."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from sagas.authoring.context import Context
from sagas.core.commands import Discard, Postpone
from sagas.core.states import Lease, Progress, SagaState, StepState
from sagas.engine.attempt.attempt import Invocation
from sagas.engine.attempt.heartbeat import Heartbeat
from sagas.engine.engine import settings_from
from sagas.engine.registry import Registry
from sagas.engine.worker import End
from sagas.errors import Cancelled, Unavailable
from sagas.messaging.message import Message, parse_record
from tests.engine.acting import ACT, LEASE, Acting, Brief, helpers, until
from tests.support.aws import HandmadeStack, LambdaContext
from tests.support.bench import Bench, ManualClock
from tests.support.databases import emulator
from tests.support.engine import Engine
from tests.support.sagas import LOG

pytestmark = pytest.mark.usefixtures("acting")
Make = Callable[..., Bench]
REQUEST = {"item": "train"}
LENGTH = 0.5


class Book:
    """Leases as they were extended."""

    def __init__(self, clock: ManualClock, act_until: float) -> None:
        self.clock = clock
        self.lease = Lease("me", clock.now() + LENGTH, act_until)
        self.extended: list[float] = []
        self.news: list[Progress | None] = []
        self.failures: Sequence[Exception] = ()
        self.mine = True

    def extend(self, state: SagaState, expires_at: float, progress: Progress | None = None) -> bool:
        self.clock.advance(LENGTH / 2)
        if self.failures:
            *self.failures, error = self.failures
            raise error
        self.extended.append(expires_at)
        self.news.append(progress)
        return self.mine

    def beating(self, lost: Callable[[], None] = lambda: None, news: Any = lambda: None) -> Heartbeat:
        state = SagaState("id", "brief", "1", (StepState("act"),), lease=self.lease)
        return Heartbeat(self.extend, state, LENGTH, self.clock, lost, news)


def test_a_lease_that_lasts_as_long_as_its_function_needs_none() -> None:
    clock = ManualClock()
    book = Book(clock, clock.now() + LENGTH)
    with book.beating():
        assert helpers() == []
    assert book.extended == []


def test_it_never_extends_beyond_the_end_of_the_function_and_then_ends() -> None:
    clock = ManualClock()
    act_until = clock.now() + 0.7
    book = Book(clock, act_until)
    with book.beating():
        until(lambda: not helpers())
    assert len(book.extended) == 2
    assert max(book.extended) == book.extended[-1] == act_until


def test_an_answer_that_does_not_come_is_no_loss() -> None:
    clock = ManualClock()
    book, told = Book(clock, clock.now() + 60), list[str]()
    book.failures = [Unavailable("DynamoDB is out of reach"), TypeError("not JSON")]
    with book.beating(lambda: told.append("lost")):
        until(lambda: book.extended)
    assert told == []


def test_an_error_of_what_it_calls_does_not_end_it() -> None:
    clock = ManualClock()
    book, news = Book(clock, clock.now() + 60), [TypeError("not JSON")]

    def failing() -> None:
        if news:
            raise news.pop()

    with book.beating(news=failing):
        until(lambda: book.extended)
    assert news == []


def test_a_refused_extension_is_a_loss_and_the_last_one() -> None:
    clock = ManualClock()
    book, told = Book(clock, clock.now() + 60), list[str]()
    book.mine = False
    with book.beating(lambda: told.append("lost")):
        until(lambda: not helpers())
    assert (len(book.extended), told) == (1, ["lost"])


def test_news_go_with_it() -> None:
    clock = ManualClock()
    book, news = Book(clock, clock.now() + 60), [Progress(0.5, "half", 1.0)]
    with book.beating(news=lambda: news.pop() if news else None):
        until(lambda: len(book.news) > 1)
    assert book.news[:2] == [Progress(0.5, "half", 1.0), None]


def test_none_and_no_write_while_the_lease_lasts(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Acting)
    seen: list[str] = []
    monkeypatch.setattr(b.engine.control, "extend", None)
    ACT.append(lambda ctx: seen.extend(helpers()))
    saga_id = b.start("acting", REQUEST)
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert seen == []


def test_it_has_ended_before_the_outcome_is_written(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Brief)
    seen: list[list[str]] = []
    finish = b.engine.control.finish

    def noticing(*arguments: Any) -> None:
        seen.append(helpers())
        finish(*arguments)

    monkeypatch.setattr(b.engine.control, "finish", noticing)
    ACT.append(lambda ctx: seen.append(helpers()))
    b.start("brief", REQUEST)
    b.run()
    assert seen == [["sagas-heartbeat"], []]


def test_a_step_that_lost_its_lease_is_told_and_its_result_refused(bench: Make) -> None:
    b = bench(Brief)
    outcomes: list[str] = []

    def late(ctx: Context) -> None:
        b.clock.advance(LEASE + 5)
        assert b.recover(stale_after=0) == [ctx.saga_id]
        until(lambda: ctx.cancelled)
        with pytest.raises(Cancelled):
            ctx.raise_if_cancelled()
        outcomes.append("told")

    ACT.append(late)
    saga_id = b.start("brief", REQUEST)
    assert isinstance(b.deliver("brief", "act"), Postpone)
    assert outcomes == ["told"]
    assert b.actions(saga_id) == ["SagaStarted", "StepLost"]
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["act:1", "act:2"]
    assert b.actions(saga_id) == ["SagaStarted", "StepLost", "StepCompleted"]


def test_a_late_failure_is_refused_too(bench: Make) -> None:
    b = bench(Brief)

    def late(ctx: Context) -> None:
        b.clock.advance(LEASE + 5)
        assert b.recover(stale_after=0) == [ctx.saga_id]
        until(lambda: ctx.cancelled)
        ctx.raise_if_cancelled()

    ACT.append(late)
    saga_id = b.start("brief", REQUEST)
    assert isinstance(b.deliver("brief", "act"), Postpone)
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert b.actions(saga_id) == ["SagaStarted", "StepLost", "StepCompleted"]


def test_a_cancel_is_seen_within_five_seconds(bench: Make) -> None:
    b = bench(Acting)

    def patient(ctx: Context) -> None:
        assert not ctx.cancelled
        b.engine.operations.cancel("acting", ctx.saga_id, "somebody")
        b.clock.advance(5)
        assert ctx.cancelled
        ctx.raise_if_cancelled()

    ACT.append(patient)
    saga_id = b.start("acting", REQUEST)
    b.run()
    assert b.show(saga_id)["status"] == "CANCELLED"
    assert LOG == ["act:1"]


class TwoWorkers:
    """Two workers and a supervisor on the emulator, under the machine's own clock."""

    def __init__(self) -> None:
        self.stack = HandmadeStack(Brief, prefix=f"beat-{secrets.token_hex(4)}", endpoint_url=emulator().endpoint_url)
        self.first, self.second = self._deploy(), self._deploy()

    def _deploy(self) -> Engine:
        environment = self.stack.environment | {"AWS_ENDPOINT_URL": str(self.stack.endpoint_url)}
        return Engine(Registry(self.stack.classes), settings_from(environment), self.stack.routes)

    def handle(self, engine: Engine, message: Message) -> End:
        context: Any = LambdaContext(30)
        end, _ = engine.worker.handle(message, Invocation(engine.clock.now() + 30, lambda_context=context))
        return end


def test_a_step_of_three_lease_lengths_runs_once(credentials: None) -> None:
    LOG.clear()
    site = TwoWorkers()
    running, enough = threading.Event(), threading.Event()
    outcomes: list[End] = []

    def long(ctx: Context) -> None:
        running.set()
        enough.wait(20)

    ACT.append(long)
    saga_id = site.first.starter.start("brief", REQUEST).state.saga_id
    (record,) = site.stack.receive("brief", "act")
    message = parse_record(record)
    worker = threading.Thread(target=lambda: outcomes.append(site.handle(site.first, message)))
    worker.start()
    assert running.wait(20)
    end = time.monotonic() + 3 * LEASE
    tries = 0
    while tries < 4 or time.monotonic() < end:
        assert isinstance(site.handle(site.second, replace(message, message_id="again")), Postpone)
        assert site.second.recovery.run(5.0, 0).recovered == []
        tries += 1
    enough.set()
    worker.join()
    assert outcomes == [Discard()]
    assert site.second.reader.show("brief", saga_id)["status"] == "COMPLETED"
    assert LOG == ["act:1"]
