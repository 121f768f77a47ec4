"""Trips of sagas, made to be counted: what a trip does between its first and its second ``yield`` is counted, and so on
in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.ours.saga import Purchase
from benchmarks.variants import ORDER, REFUSED
from sagas import Rejected
from sagas.engine.operate.pausing import HOUR
from sagas.handlers import api as api_handler
from sagas.handlers import step as step_handler
from tests.engine.trip_sagas import (
    CORRELATION,
    LARGEST,
    MANY,
    NAMES,
    YEAR,
    Asked,
    AtOnce,
    Few,
    Flaky,
    Gifted,
    Hurried,
    Insured,
    Nap,
    NextTrip,
    Plain,
    Reports,
    Ten,
    Travel,
    Winter,
    large,
)
from tests.handlers.conftest import Answer, request
from tests.support.aws import LambdaContext
from tests.support.bench import Bench, Death
from tests.support.sagas import FAIL, Trip

ANN = "arn:aws:sts::123456789012:assumed-role/Operators/ann@example"
SLOT = 120
"""Seconds to which due times are rounded."""

Driver = Callable[[Bench], Iterator[None]]
DRIVERS: dict[str, tuple[Driver, tuple[type[Any], ...], dict[str, str]]] = {}
"""By the name of the trip: what makes it, with which saga classes, in which environment."""
WORKER: dict[str, str] = {"SAGAS_RETENTION": "86400", "SAGAS_SHARDS": "64"}
"""The environment of those that hand messages to the worker, and let it die."""


def trip(name: str, *classes: type[Any], **environment: str) -> Callable[[Driver], Driver]:
    """Name a trip, the classes of its sagas, :class:`Trip` by default, and variables of its environment."""

    def noting(driver: Driver) -> Driver:
        DRIVERS[name] = (driver, classes or (Trip,), environment)
        return driver

    return noting


def handled(b: Bench, saga: str, step: str) -> Iterator[None]:
    """Hand the one message of a queue to the step function, which alone is counted."""
    [record] = b.stack.receive(saga, step)
    yield
    answer = step_handler.handler({"Records": [record]}, LambdaContext())
    yield
    b.stack.settle(saga, step, [record], answer)


def completed(b: Bench, saga: str, steps: int, body: Any = None) -> Iterator[None]:
    """A whole saga, undisturbed."""
    yield
    saga_id = b.start(saga, body)
    b.run()
    yield
    assert (b.status(saga_id), len(b.show(saga_id)["steps"])) == ("COMPLETED", steps)


def called(method: str, path: str, body: Any = None, *, key: str | None = None, **headers: str) -> Answer:
    """Call the API."""
    event = request(method, path, body, key=key)
    event["headers"] = (event["headers"] or {}) | headers
    return Answer(api_handler.handler(event, LambdaContext()))


# Starts.


@trip("a start")
def start(b: Bench) -> Iterator[None]:
    yield
    b.start("trip")


@trip("the first start of a release")
def first_start(b: Bench) -> Iterator[None]:
    b.engine = b.deploy(NextTrip)
    yield
    b.start("trip")
    yield
    b.start("trip")


@trip("a start by the API")
def start_by_the_api(b: Bench) -> Iterator[None]:
    called("POST", "/sagas/trip", {"item": "warm-up"}, key="first")
    yield
    answer = called("POST", "/sagas/trip", {"item": "train"}, key="second")
    yield
    assert (answer.status, answer.body["status"]) == (202, "PENDING")
    assert answer.body | {"links": {}} == b.show(answer.body["saga_id"]) | {"links": {}}


@trip("a start by the API, whose request goes to the bucket")
def start_with_a_large_request(b: Bench) -> Iterator[None]:
    called("POST", "/sagas/trip", {"item": "warm-up"}, key="first")
    yield
    answer = called("POST", "/sagas/trip", {"item": "x" * 20_000}, key="second")
    yield
    assert (answer.status, answer.body["status"]) == (202, "PENDING")


@trip("a start that is repeated after the saga has ended")
def repeated_start(b: Bench) -> Iterator[None]:
    first = called("POST", "/sagas/trip", {"item": "train"}, key="key")
    b.run()
    yield
    again = called("POST", "/sagas/trip", {"item": "train"}, key="key")
    yield
    assert (again.status, again.body["saga_id"]) == (200, first.body["saga_id"])
    assert again.body["status"] == "COMPLETED"
    assert [step["result"] for step in again.body["steps"]] == [None] * 3, "the caller has no right to read"


@trip("a look at a saga that has not changed")
def look(b: Bench) -> Iterator[None]:
    saga_id = b.start("trip")
    b.run()
    tag = called("GET", f"/sagas/trip/{saga_id}").headers["etag"]
    yield
    answer = called("GET", f"/sagas/trip/{saga_id}", **{"If-None-Match": tag})
    yield
    assert (answer.status, answer.body, answer.headers["etag"]) == (304, None, tag)


@trip("an hourly look at what pauses have marked of a type", SAGAS_SHARDS="8")
def look_at_the_paused(b: Bench) -> Iterator[None]:
    assert b.engine.pausing.shards(b.clock.now()) == []
    b.clock.advance(HOUR)
    yield
    assert b.engine.pausing.shards(b.clock.now()) == []
    b.clock.advance(HOUR - 60)
    assert b.engine.pausing.shards(b.clock.now()) == []
    yield


# Steps and undos.


@trip("a step")
def first_step(b: Bench) -> Iterator[None]:
    b.start("trip")
    yield from handled(b, "trip", "book")


@trip("a step that reads its input", SAGAS_CARRY_INPUTS="0")
def reading_step(b: Bench) -> Iterator[None]:
    b.start("trip")
    b.invoke("trip", "book")
    yield from handled(b, "trip", "pay")


@trip("the last step")
def last_step(b: Bench) -> Iterator[None]:
    """It names no input, so nothing is read; nothing follows, so nothing is sent."""
    b.start("trip")
    b.invoke("trip", "book")
    b.invoke("trip", "pay")
    yield from handled(b, "trip", "tell")


@trip("a chain of three steps", SAGAS_CHAIN="*")
def chain(b: Bench) -> Iterator[None]:
    b.start("trip")
    yield from handled(b, "trip", "book")


@trip("a step, and the next one is skipped", Insured)
def skipping_step(b: Bench) -> Iterator[None]:
    saga_id = b.start("insured")
    yield from handled(b, "insured", "begin")
    assert b.step(saga_id, 1)["status"] == "SKIPPED"


@trip("a step that its own attempt skips", Gifted)
def skipped_step(b: Bench) -> Iterator[None]:
    saga_id = b.start("gifted")
    yield from handled(b, "gifted", "wrap")
    assert b.step(saga_id, 0)["status"] == "SKIPPED"


@trip("a chain of three steps, the second one skipped", Insured, SAGAS_CHAIN="*")
def skipping_chain(b: Bench) -> Iterator[None]:
    b.start("insured")
    yield from handled(b, "insured", "begin")


@trip("a failure that is tried again after a minute", Flaky)
def failure(b: Bench) -> Iterator[None]:
    b.start("flaky")
    yield from handled(b, "flaky", "begin")


@trip("a retry", Flaky)
def retry(b: Bench) -> Iterator[None]:
    b.start("flaky")
    b.invoke("flaky", "begin")
    b.clock.advance(60)
    yield from handled(b, "flaky", "begin")


def _refused(b: Bench) -> str:
    """A saga whose last step is about to refuse."""
    FAIL["tell"] = Rejected("no")
    saga_id = b.start("trip")
    b.invoke("trip", "book")
    b.invoke("trip", "pay")
    return saga_id


@trip("a step that fails for good, something to undo")
def final_failure(b: Bench) -> Iterator[None]:
    _refused(b)
    yield from handled(b, "trip", "tell")


@trip("an undo")
def undo(b: Bench) -> Iterator[None]:
    _refused(b)
    b.invoke("trip", "tell")
    yield from handled(b, "trip", "pay")


@trip("the last undo")
def last_undo(b: Bench) -> Iterator[None]:
    saga_id = _refused(b)
    b.invoke("trip", "tell")
    b.invoke("trip", "pay")
    yield from handled(b, "trip", "book")
    assert b.status(saga_id) == "COMPENSATED"


@trip("a cancel")
def cancel(b: Bench) -> Iterator[None]:
    saga_id = b.start("trip")
    b.invoke("trip", "book")
    yield
    b.engine.operations.cancel("trip", saga_id, ANN)
    yield
    assert b.status(saga_id) == "COMPENSATING"


@trip("a purge of four entries", SAGAS_RETENTION="3600")
def purge(b: Bench) -> Iterator[None]:
    b.clock.advance(3600)
    assert len(b.engine.purger.run(60.0).purged) == 1
    b.start("trip")
    b.run()
    b.clock.advance(3600)
    b.engine.purger.listing.shards.number()  # an environment reads it once a minute, whatever there is to purge
    yield
    assert len(b.engine.purger.run(60.0).purged) == 1


@trip("a purge of four entries by an operator", SAGAS_RETENTION="3600")
def purge_by_hand(b: Bench) -> Iterator[None]:
    saga_id = b.start("trip")
    b.run()
    b.clock.advance(600)
    yield
    b.engine.purger.purge("trip", saga_id, "a person asked", ANN)
    yield


@trip("a weekly search for leftovers")
def search_for_leftovers(b: Bench) -> Iterator[None]:
    b.start("trip")
    b.run()
    b.clock.advance(7_200)
    yield
    assert b.engine.leftover_finder.run(60.0).pages == 2


@trip("a visit of the supervisor between two searches for leftovers")
def visit_between_searches(b: Bench) -> Iterator[None]:
    assert b.engine.leftover_finder.run(60.0).pages == 2
    b.clock.advance(300)
    yield
    assert b.engine.leftover_finder.run(60.0).pages == 0


@trip("a life of three steps that is kept for an hour", SAGAS_RETENTION="3600")
def kept_life(b: Bench) -> Iterator[None]:
    yield from completed(b, "trip", 3)


# Whole lives.


@trip("a life of two steps", Plain)
def two_steps(b: Bench) -> Iterator[None]:
    yield from completed(b, "plain", 2)


@trip("a life of three steps", Travel)
def three_steps(b: Bench) -> Iterator[None]:
    yield from completed(b, "travel", 3, {"number": 0})


@trip("a life of three steps, the second one skipped", Insured)
def skipped_life(b: Bench) -> Iterator[None]:
    yield from completed(b, "insured", 3)


@trip("a life of five steps", Purchase)
def five_steps(b: Bench) -> Iterator[None]:
    yield from completed(b, "purchase", 5, ORDER)


@trip("a life of ten steps", Ten)
def ten_steps(b: Bench) -> Iterator[None]:
    yield from completed(b, "ten", 10)


@trip("a life of ten steps whose results go to the bucket", Reports)
def large_results(b: Bench) -> Iterator[None]:
    """The steps compare what they get."""
    yield
    saga_id = b.start("reports")
    b.run()
    yield
    saga = b.show(saga_id)
    assert saga["status"] == "COMPLETED"
    assert [step["result"] for step in saga["steps"]] == [*map(large, "abcdefghi"), None]
    assert all("payload" not in entry for entry in b.stack.entries(saga_id)[1:-1])


@trip("five steps, and the last one rejects: three steps are undone", Purchase)
def three_undos(b: Bench) -> Iterator[None]:
    yield
    saga_id = b.start("purchase", REFUSED)
    b.run()
    yield
    assert b.status(saga_id) == "COMPENSATED"


def _waited(b: Bench, saga: str, length: float, *, signal: bool = False) -> Iterator[None]:
    yield
    saga_id = b.start(saga)
    b.invoke(saga, "begin")
    if length > 900 and not signal:
        yield  # what the supervisor notes is for a thousand sagas, and what it sends for 25
        b.clock.advance(length - 100)
        assert b.engine.finder.run("recover", 60.0).found == 1
        yield
        b.end_waits()
        b.clock.advance(100)
    else:
        b.clock.advance(length)
    if signal:
        b.engine.signals.send(saga, saga_id, "word", "yes", "ada")
    b.end_waits()
    b.invoke(saga, "end")
    yield
    assert b.status(saga_id) == "COMPLETED"


@trip("a life of two steps and a wait for a signal", Plain, Asked)
def signalled(b: Bench) -> Iterator[None]:
    yield from _waited(b, "asked", YEAR - 120, signal=True)


@trip("a life of two steps and ten minutes for a signal that never comes", Plain, Hurried)
def hurried(b: Bench) -> Iterator[None]:
    yield from _waited(b, "hurried", 600.0)


@trip("a life of two steps and a year for a signal that never comes", Plain, Asked)
def forgotten(b: Bench) -> Iterator[None]:
    yield from _waited(b, "asked", YEAR)


@trip("a life of two steps and a sleep of ten minutes", Plain, Nap)
def nap(b: Bench) -> Iterator[None]:
    yield from _waited(b, "nap", 600.0)


@trip("a life of two steps and a sleep of a year", Plain, Winter)
def winter(b: Bench) -> Iterator[None]:
    yield from _waited(b, "winter", YEAR)


# Children.


def _family(b: Bench, count: int) -> Iterator[None]:
    yield
    saga_id = b.start("few", {"legs": count})
    b.run(rounds=1_000)
    yield
    assert b.status(saga_id) == "COMPLETED"


@trip("a parent of 8 children, and these", Few, Travel)
def eight(b: Bench) -> Iterator[None]:
    yield from _family(b, 8)


@trip("a parent of 16 children, and these", Few, Travel)
def sixteen(b: Bench) -> Iterator[None]:
    yield from _family(b, 16)


@trip("a parent of 24 children, and these", Few, Travel)
def twenty_four(b: Bench) -> Iterator[None]:
    yield from _family(b, 24)


# Large control items. Two things are over a kilobyte, so that each such write costs twice: an operator's one write that
# resumes such a saga, and the last undos of ten.


@trip("a thousand children at once, handed out and cancelled", AtOnce, Travel, **WORKER)
def thousand_children(b: Bench) -> Iterator[None]:
    yield
    saga_id = b.start("at-once", {"legs": MANY}, correlation_id=CORRELATION)
    b.deliver("at-once", "legs")
    b.engine.children.look(saga_id)
    step = b.state(saga_id).steps[0]
    assert (step.fan_out.children, step.fan_out.handed_out) == (MANY, MANY)
    b.engine.operations.cancel("at-once", saga_id, ANN)


def _dead_lettered(b: Bench) -> str:
    """Each step fails twice, the last one until its message is a dead letter; an attempt is lost, and messages."""
    saga_id = b.start("order", correlation_id=CORRELATION)
    FAIL.update(dict.fromkeys(NAMES, 2))
    FAIL["close"] = Death()  # it stays in doubt
    with pytest.raises(Death):
        b.run()
    FAIL["close"] = 99
    b.clock.advance(1_000)
    recovery, now = b.engine.recovery, b.clock.now
    for _ in range(3):  # those of others are handled
        b.lose_messages()
        b.clock.advance(5_000)
        recovery.watermarks.note("order", recovery.queues.representative("order", "close"), now(), now())
        b.recover()
    b.run()
    assert b.status(saga_id) == "DEAD_LETTERED"
    FAIL.clear()
    return saga_id


@trip("ten steps, with all that can go wrong on the way to a dead letter", LARGEST, **WORKER)
def misfortunes(b: Bench) -> Iterator[None]:
    yield
    _dead_lettered(b)


@trip("a retry by an operator, to the end of ten steps", LARGEST, **WORKER)
def resumed(b: Bench) -> Iterator[None]:
    saga_id = _dead_lettered(b)
    yield
    b.engine.operations.retry("order", saga_id, "again " * 100, "ann")
    b.run()
    yield
    assert b.status(saga_id) == "COMPLETED"


@trip("ten steps, and their purge", LARGEST, **WORKER)
def purged(b: Bench) -> Iterator[None]:
    yield
    saga_id = b.start("order", correlation_id=CORRELATION)
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    b.clock.advance(2 * 86_400)
    assert b.engine.purger.run(60.0).purged == [saga_id]


@trip("five steps of ten, cancelled and undone", LARGEST, **WORKER)
def cancelled(b: Bench) -> Iterator[None]:
    yield
    saga_id = b.start("order", correlation_id=CORRELATION)
    for name in NAMES[:5]:
        b.deliver("order", name)
    b.engine.operations.cancel("order", saga_id, ANN)
    b.run()
    yield
    assert b.status(saga_id) == "CANCELLED"


@trip("ten steps, and their undos", LARGEST, **WORKER)
def undone(b: Bench) -> Iterator[None]:
    """Each takes twelve bytes more than its step did."""
    FAIL["close"] = Rejected("no")
    yield
    saga_id = b.start("order", correlation_id=CORRELATION)
    b.run()
    yield
    assert b.status(saga_id) == "COMPENSATED"
