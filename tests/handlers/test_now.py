"""The function behind the work queue ``now``: it ends waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sagas import Context, Saga, sleep, step, wait_for
from sagas.errors import Unavailable
from sagas.handlers import now
from sagas.messaging.work import NOW, OneSaga, Work
from sagas.store.control.control import ControlItems
from tests.handlers.conftest import Make, Site
from tests.support.aws import LambdaContext
from tests.support.bench import Death, once
from tests.support.sagas import LOG, Order, act

NOBODY = "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17"


class Nap(Saga[Order], name="nap"):
    """Begins with a wait that has no code and sleeps briefly between two steps."""

    word = wait_for(str, timeout=timedelta(days=1))

    @step
    def before(self, word: str, ctx: Context) -> str:
        act("before", ctx)
        return word

    rest = sleep(timedelta(minutes=5))

    @step
    def after(self, before: str, ctx: Context) -> str:
        act("after", ctx)
        return before


@pytest.fixture
def naps(site: Make) -> Site:
    now.reset()
    return site(Nap)


def queued(site: Site) -> list[dict[str, Any]]:
    return site.stack.receive_from(site.stack.now, 10)


def asleep(site: Site) -> str:
    """A saga that has come to its short sleep; nothing of it is in a step's queue."""
    saga = site.begin("nap")
    assert site.end_waits()
    assert site.show(saga)["status"] == "WAITING"
    assert site.call("POST", f"/sagas/nap/{saga}/signals/word", '"hello"').status == 202
    site.invoke("nap", "before")
    assert site.step(saga, 2)["waiting_for"] == "time"
    assert site.waiting() == 0
    return saga


def test_a_wait_without_code_begins_and_ends_by_the_queue_now(naps: Site) -> None:
    saga = asleep(naps)
    assert naps.delayed[-1][0] == 300
    naps.clock.advance(300)
    assert naps.end_waits()
    naps.run()
    assert naps.show(saga)["result"] == "hello"
    assert LOG == ["before:1", "after:1"]


def test_what_comes_too_early_comes_again_with_the_rest(naps: Site) -> None:
    saga = asleep(naps)
    naps.clock.advance(290)
    assert naps.end_waits()
    assert naps.delayed[-1] == (10, 1)
    assert naps.show(saga)["status"] == "WAITING"
    naps.clock.advance(10)
    naps.run()
    assert naps.show(saga)["status"] == "COMPLETED"


def test_a_stale_message_is_dropped_and_a_second_one_does_nothing(naps: Site) -> None:
    saga = asleep(naps)
    number = naps.state(saga).dispatch
    naps.clock.advance(300)
    for dispatch in (number - 1, number, number):
        naps.engine.queues.send_work(NOW, [OneSaga(saga, dispatch).work()])
    naps.end_waits()
    naps.run()
    assert LOG == ["before:1", "after:1"]
    assert naps.actions(saga).count("WaitEnded") == 1


@pytest.mark.parametrize("saga_id", [NOBODY, "over"])
def test_a_saga_that_is_gone_or_over_is_left(naps: Site, saga_id: str) -> None:
    saga = asleep(naps)
    naps.clock.advance(300)
    naps.run()
    before = naps.tables()
    naps.engine.queues.send_work(NOW, [OneSaga(saga if saga_id == "over" else saga_id).work()])
    assert naps.end_waits()
    assert naps.tables() == before
    assert not queued(naps)


def test_where_a_saga_is_held_it_comes_back_when_the_lease_is_over(naps: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    saga = asleep(naps)
    naps.clock.advance(300)
    once(monkeypatch, type(naps.engine.services.committer), "commit")
    with pytest.raises(Death):
        naps.end_waits()
    assert naps.state(saga).lease is not None
    naps.engine.queues.send_work(NOW, [OneSaga(saga, naps.state(saga).dispatch).work()])
    naps.end_waits()
    assert naps.delayed[-1][0] == 30
    naps.clock.advance(31)
    naps.run()
    assert naps.show(saga)["status"] == "COMPLETED"


def test_a_signal_that_could_not_be_taken_at_once_is_taken_by_the_queue(
    naps: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    saga = naps.begin("nap")
    naps.end_waits()

    def away(*given: object, **more: object) -> bool:
        raise Unavailable("away")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(ControlItems, "claim", away)
        assert naps.call("POST", f"/sagas/nap/{saga}/signals/word", '"hello"').status == 202
    assert naps.end_waits()
    assert naps.step(saga, 0)["status"] == "COMPLETED"


@pytest.mark.parametrize(
    "work",
    [Work("sweep"), Work("look"), Work("look", {"saga_id": "x"}), Work("look", {"saga_id": NOBODY, "dispatch": -1})],
)
def test_what_is_none_of_its_messages_dies(naps: Site, work: Work) -> None:
    naps.engine.queues.send_work(NOW, [work, OneSaga(NOBODY).work()])
    records = queued(naps)
    answer = now.handler({"Records": records}, LambdaContext())
    bad = next(record["messageId"] for record in records if record["body"] == work.body)
    assert answer == {"batchItemFailures": [{"itemIdentifier": bad}]}


def test_a_record_is_left_for_which_there_is_no_time(naps: Site, caplog: pytest.LogCaptureFixture) -> None:
    naps.engine.queues.send_work(NOW, [OneSaga(NOBODY).work()])
    with caplog.at_level("INFO"):
        assert len(now.handler({"Records": queued(naps)}, LambdaContext(1.0))["batchItemFailures"]) == 1
    assert [vars(record)["reason"] for record in caplog.records if record.message == "message postponed"] == ["time"]
