"""Saga types that keep failing take no new sagas for a while; healthy ones pay nothing for it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

import pytest
from botocore.client import BaseClient
from msgspec.structs import replace

from sagas.authoring.policies import AutoDisable, Exhausted, Retry
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.core.ids import id_for_key
from sagas.engine.start.starter import KeyReused, Paused
from sagas.errors import Rejected, Unavailable
from sagas.handlers import api as api_handler
from sagas.handlers import step as step_handler
from sagas.store.types.streaks import Streak
from tests.handlers.conftest import Answer, request
from tests.support.aws import LambdaContext
from tests.support.bench import Bench
from tests.support.dynamodb import aws
from tests.support.sagas import FAIL, LOG, Booked, Order, Trip, perform

Make = Callable[..., Bench]
REQUEST = {"item": "train"}
POLICY = AutoDisable(threshold=3, window=timedelta(hours=1), cooldown=timedelta(minutes=30))
_ONCE = Retry.constant(max_retries=0, delay=0.0)


class Risky(Booked, name="risky", auto_disable=POLICY):
    """Two steps; the first can be undone."""

    @step(retry=_ONCE)
    def pay(self) -> None:
        perform("pay")


class ByHand(Risky, name="by-hand", auto_disable=AutoDisable(threshold=1, cooldown=None)):
    """What disables it is over when a person says so."""


class Waiting(Booked, name="waiting", auto_disable=AutoDisable(threshold=2)):
    """Its failure is an operator's business."""

    @step(retry=Retry.constant(max_retries=0, delay=0.0, on_exhausted=Exhausted.DEAD_LETTER))
    def pay(self) -> None:
        perform("pay")


class Final(Saga[Order], name="final", auto_disable=AutoDisable(threshold=1)):
    """Its failure is the end."""

    @step(retry=Retry.constant(max_retries=0, delay=0.0, on_exhausted=Exhausted.FAIL))
    def pay(self) -> None:
        perform("pay")


def run(b: Bench, name: str = "risky", error: BaseException | None = None, step_name: str = "pay") -> str:
    """Run a saga to its end, a second after the one before; return its status."""
    FAIL.pop(step_name, None)
    if error is not None:
        FAIL[step_name] = error
    b.clock.advance(1)
    saga_id = b.start(name, REQUEST)
    b.run()
    return str(b.show(saga_id)["status"])


def fail(b: Bench, times: int, name: str = "risky") -> None:
    for _ in range(times):
        run(b, name, RuntimeError())


def streak(b: Bench, name: str = "risky") -> Streak:
    return b.engine.auto_disabler.streaks.get(name)


def failures_in_a_row(b: Bench, name: str = "risky") -> int:
    return len(b.engine.auto_disabler.streak(name, b.clock.now()).failures)


def refused(b: Bench, name: str = "risky") -> float:
    """The seconds after which a refused start may be tried again."""
    with pytest.raises(Paused) as caught:
        b.start(name, REQUEST)
    return caught.value.retry_after


def test_failures_in_a_row_pause_starts_for_the_cooldown(bench: Make, caplog: pytest.LogCaptureFixture) -> None:
    b = bench(Risky)
    fail(b, 2)
    assert failures_in_a_row(b) == 2
    with caplog.at_level(logging.WARNING):
        fail(b, 1)
    assert refused(b) == 1800
    assert "paused starts of the saga type because its sagas keep failing" in caplog.messages
    b.clock.advance(1790)
    assert refused(b) == 10
    b.clock.advance(10)
    assert run(b) == "COMPLETED"


def test_those_in_flight_go_on_and_their_failures_do_not_prolong_it(bench: Make) -> None:
    b = bench(Risky)
    FAIL["pay"] = RuntimeError()
    started = [b.start("risky", REQUEST) for _ in range(4)]
    b.run()
    assert {b.show(saga_id)["status"] for saga_id in started} == {"COMPENSATED"}
    assert len(streak(b).failures) == 3
    assert streak(b).paused_until == b.clock.now() + 1800


def test_after_the_cooldown_the_count_begins_anew(bench: Make) -> None:
    b = bench(Risky)
    fail(b, 3)
    b.clock.advance(1800)
    fail(b, 2)
    assert failures_in_a_row(b) == 2
    fail(b, 1)
    assert refused(b) == 1800


def test_a_success_in_between_starts_the_count_anew(bench: Make) -> None:
    b = bench(Risky)
    fail(b, 2)
    run(b)
    assert failures_in_a_row(b) == 0
    fail(b, 2)
    assert failures_in_a_row(b) == 2
    assert streak(b).paused_until == 0
    fail(b, 1)
    assert refused(b) == 1800


def test_a_success_counts_however_many_sagas_are_in_flight(bench: Make, requests: list[tuple[str, str]]) -> None:
    b = bench(Risky)
    fail(b, 2)
    run(b)
    newer = b.state(b.start("risky", REQUEST))
    b.lose_messages()
    for number in range(1_050):
        b.engine.control.create(replace(newer, saga_id=str(UUID(int=number))), 120.0)
    fail(b, 2)
    assert streak(b).paused_until == 0
    requests.clear()
    assert failures_in_a_row(b) == 2
    assert _names(requests) == ["GetItem", *["Query"] * b.engine.listing.shards.number()]
    fail(b, 1)
    assert refused(b) == 1800


def test_the_index_of_successes_may_be_behind(bench: Make) -> None:
    """Every second saga fails, but never two in a row; then all fail."""
    b = bench(Risky)
    with aws() as tables:
        tables.memory.now, tables.memory.lag = b.clock.now, 0.7
    for number in range(27):
        end_soon(b, RuntimeError() if number > 10 and number % 2 else None)
    assert streak(b).paused_until == 0
    ended = [end_soon(b, RuntimeError()) for _ in range(15) if not streak(b).paused_until]
    assert len(ended) == 10  # a second after the last success


def end_soon(b: Bench, error: BaseException | None) -> str:
    """Run a saga to its end, 100 ms after the one before; return its status."""
    b.clock.advance(-0.9)  # ``run`` advances by a second
    return run(b, error=error)


def test_failures_outside_the_window_do_not_count(bench: Make) -> None:
    b = bench(Risky)
    for _ in range(5):
        fail(b, 1)
        b.clock.advance(2000)
    assert failures_in_a_row(b) == 1
    fail(b, 2)
    assert len(streak(b).failures) == 3
    assert refused(b) == 1800


def test_cancelled_and_rejected_sagas_do_not_count(bench: Make) -> None:
    b = bench(Risky)
    for _ in range(4):
        assert run(b, error=Rejected("declined")) == "COMPENSATED"
        saga_id = b.start("risky", REQUEST)
        b.engine.operations.cancel("risky", saga_id, "ann")
        b.run()
        assert b.show(saga_id)["status"] == "CANCELLED"
    assert streak(b) == Streak()


def test_an_undo_that_fails_counts_even_of_a_rejected_saga(bench: Make) -> None:
    b = bench(Waiting)
    FAIL["unbook"] = RuntimeError()
    assert run(b, "waiting", Rejected("declined")) == "COMPENSATION_FAILED"
    assert failures_in_a_row(b, "waiting") == 1


def test_a_failed_saga_counts_once_whatever_becomes_of_it(bench: Make) -> None:
    b = bench(Waiting)
    FAIL["pay"] = RuntimeError()
    saga_id = b.start("waiting", REQUEST)
    b.run()
    assert b.show(saga_id)["status"] == "DEAD_LETTERED"
    operations = b.engine.operations
    operations.retry("waiting", saga_id, "again", "ann")
    b.run()
    FAIL["unbook"] = RuntimeError()
    operations.compensate("waiting", saga_id, "no more", "ann")
    b.run()
    assert b.show(saga_id)["status"] == "COMPENSATION_FAILED"
    FAIL.clear()
    operations.retry("waiting", saga_id, "again", "ann")
    b.run()
    assert b.show(saga_id)["status"] == "COMPENSATED"
    assert len(streak(b, "waiting").failures) == 1


def test_a_redriven_saga_that_completes_is_a_success(bench: Make) -> None:
    b = bench(Waiting)
    FAIL["pay"] = RuntimeError()
    saga_id = b.start("waiting", REQUEST)
    b.run()
    assert failures_in_a_row(b, "waiting") == 1
    FAIL.clear()
    b.clock.advance(1)
    b.engine.operations.retry("waiting", saga_id, "again", "ann")
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert failures_in_a_row(b, "waiting") == 0


def test_a_saga_that_ends_failed_counts(bench: Make) -> None:
    b = bench(Final)
    assert run(b, "final", RuntimeError()) == "FAILED"
    assert refused(b, "final") == 1800


def test_an_operator_resumes_it_and_clears_the_count(bench: Make) -> None:
    b = bench(Risky)
    fail(b, 3)
    b.engine.pausing.resume("risky", "ann")
    assert streak(b).failures == ()
    fail(b, 2)
    assert run(b) == "COMPLETED"


def test_the_cooldown_does_not_end_an_operators_pause(bench: Make) -> None:
    b = bench(Risky)
    fail(b, 3)
    b.engine.pausing.pause("risky", "ann", "closed", starts_only=True)
    b.clock.advance(86_400)
    assert refused(b) == 60


def test_without_a_cooldown_only_an_operator_resumes_it(bench: Make) -> None:
    b = bench(ByHand)
    assert run(b, "by-hand", RuntimeError()) == "COMPENSATED"
    assert refused(b, "by-hand") == 60
    b.clock.advance(10 * 366 * 86_400)
    assert refused(b, "by-hand") == 60
    b.engine.pausing.resume("by-hand", "ann")
    assert run(b, "by-hand") == "COMPLETED"
    assert run(b, "by-hand", RuntimeError()) == "COMPENSATED"
    assert refused(b, "by-hand") == 60


def test_a_key_that_is_known_gets_its_saga_while_starts_are_refused(bench: Make) -> None:
    b = bench(Risky)
    known = b.start("risky", REQUEST, key="k-1")
    b.run()
    fail(b, 3)
    again = b.engine.starter.start("risky", REQUEST, key="k-1")
    assert (again.state.saga_id, again.created) == (known, False)
    with pytest.raises(KeyReused):
        b.start("risky", {"item": "bus"}, key="k-1")
    with pytest.raises(Paused):
        b.start("risky", REQUEST, key="k-2")
    assert b.engine.journal.entries(id_for_key(b.stack.prefix, "risky", "k-2"), [1]) == {}
    b.engine.pausing.pause("risky", "ann", "closed", starts_only=True)
    assert b.start("risky", REQUEST, key="k-1") == known


def test_all_environments_count_together(bench: Make) -> None:
    b = bench(Risky)
    first, second = b.engine, b.deploy()
    for engine in (first, second, first):
        b.engine = engine
        fail(b, 1)
    for engine in (second, b.deploy()):  # also one that has asked just before
        b.engine = engine
        assert refused(b) == 1800


def test_a_store_out_of_reach_while_counting_costs_the_saga_nothing(
    bench: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    b = bench(Risky)

    def unreachable(*_: object) -> None:
        raise Unavailable("no")

    monkeypatch.setattr(b.engine.auto_disabler.streaks, "count", unreachable)
    assert run(b, error=RuntimeError()) == "COMPENSATED"
    assert "a failed saga was not counted" in caplog.messages


# What it costs, and what the API and the metrics say.


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The requests that leave, each with its table or key."""
    seen: list[tuple[str, str]] = []
    send = cast("Any", BaseClient)._make_api_call

    def listening(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        seen.append((operation, json.dumps(parameters.get("Key", ""))))
        return send(self, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", listening)
    return seen


def _names(requests: list[tuple[str, str]]) -> list[str]:
    return [name for name, _ in requests]


def test_a_healthy_type_costs_a_read_a_start(bench: Make, requests: list[tuple[str, str]]) -> None:
    b = bench(Risky)
    run(b)
    requests.clear()
    b.start("risky", REQUEST)
    assert _names(requests) == ["GetItem", "PutItem", "PutItem", "SendMessage"]
    assert b.deliver("risky", "book") is not None
    requests.clear()
    assert b.deliver("risky", "pay") is not None
    assert _names(requests) == ["ReceiveMessage", "UpdateItem", "TransactWriteItems", "DeleteMessage"]


def test_a_failure_costs_one_write_and_only_where_it_is_declared(bench: Make, requests: list[tuple[str, str]]) -> None:
    b = bench(Risky, Trip)
    run(b, error=RuntimeError())
    assert _about_streaks(requests) == ["GetItem", "UpdateItem"]
    requests.clear()
    FAIL["pay"] = RuntimeError()
    assert run(b, "trip", RuntimeError()) == "COMPENSATED"
    assert _about_streaks(requests) == []


def _about_streaks(requests: list[tuple[str, str]]) -> list[str]:
    """The first read is the start's."""
    return [name for name, key in requests if "streak#" in key]


def test_the_api_refuses_says_why_and_resumes(
    deployed: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    w = deployed(Risky)
    api_handler.reset()
    FAIL["pay"] = RuntimeError()

    def call(method: str, path: str, body: Any = None) -> Answer:
        return Answer(api_handler.handler(request(method, path, body), LambdaContext()))

    for _ in range(3):
        w.start("risky", REQUEST)
        for queue in ("book", "pay", "book"):
            w.invoke("risky", queue)
    metrics = [line for line in capsys.readouterr().out.splitlines() if '"SagaTypePaused"' in line]
    assert len(metrics) == 1
    answer = call("POST", "/sagas/risky", REQUEST)
    assert (answer.status, answer.code) == (503, "paused")
    assert 1790 < int(answer.headers["retry-after"]) <= 1800
    shown = call("GET", "/types/risky").body
    assert (shown["active"], shown["failures"], shown["reason"]) == (False, 3, "3 sagas in a row failed")
    (pause,) = shown["pauses"]
    assert (pause["by"], pause["starts_only"], bool(pause["until"])) == ("auto_disable", True, True)
    streaks = w.engine.auto_disabler.streaks
    streaks.forget_failures("risky", streaks.get("risky").failures)  # as somebody may, in the table
    emptied = call("GET", "/types/risky").body
    assert (emptied["active"], emptied["reason"]) == (False, "too many sagas in a row failed")
    assert emptied["pauses"] == [pause | {"at": None, "reason": emptied["reason"]}]
    resumed = call("PUT", "/types/risky", {"active": True, "reason": "fixed"}).body
    assert (resumed["active"], resumed["failures"], resumed["pauses"]) == (True, 0, [])
    assert call("POST", "/sagas/risky", REQUEST).status == 202
    FAIL.clear()
    LOG.clear()
    api_handler.reset()
    step_handler.reset()
