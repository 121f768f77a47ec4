"""A purge leaves nothing, even of writers that were refused or died while they wrote."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sagas import Context, Saga, children, step, wait_for
from sagas.core.ids import child_id, id_for_key
from sagas.core.states import SagaStatus
from sagas.engine.start.starter import KeyReused
from sagas.errors import Conflict, SagaError, Unavailable
from sagas.handlers import supervisor
from sagas.store.connection import SharedConnection
from sagas.store.control.control import ControlItems
from sagas.store.inbox import Inbox
from sagas.store.index.search_keys import SearchKeys
from sagas.store.journal.journal import Journal, Payloads
from sagas.store.journal.leftovers import DeadStart, Leftovers
from sagas.store.journal.objects import Objects
from tests.engine.purges import DAY, HOUR, deploy, expire, item, purge, start
from tests.support.aws import LambdaContext
from tests.support.bench import Bench, Death, Make, once
from tests.support.dynamodb import aws
from tests.support.sagas import ONCE, Idle

MARK = "DE00 1234 5678"
SMALL, LARGE, OTHER = MARK, MARK * 2_000, f"another {MARK}" * 2_000
WEEK = 7 * DAY


@dataclass(frozen=True)
class Person:
    """Personal data, short or long."""

    iban: str
    children: int = 0


class Payout(Saga[Person], name="payout", find_by={"iban": "$.iban"}):
    """Asks a person, and fails or not as the answer says."""

    @step
    def prepare(self, request: Person, ctx: Context) -> str:
        ctx.progress(0.5, f"paying {request.iban[:20]}")
        return request.iban

    @prepare.compensate
    def forget(self, prepare: str) -> None: ...

    answer = wait_for(Person, timeout=timedelta(hours=1))

    @step(retry=ONCE)
    def pay(self, answer: Person) -> str:
        if answer.children:
            raise RuntimeError(f"no account {answer.iban[:20]}")
        return answer.iban


class One(Idle[Person], name="one", find_by={"iban": "$.iban"}):
    """One of several."""


class Hasty(Saga[Person], name="hasty", timeout=timedelta(hours=1)):
    """It has an hour."""

    @step
    def work(self) -> None: ...


class Family(Saga[Person], name="family"):
    """Its children have the request of their parent."""

    @children(One, concurrency=2)
    def all(self, request: Person, ctx: Context) -> list[Person]:
        return [Person(request.iban) for _ in range(request.children)]


@pytest.fixture
def now(keeping: Make) -> Make:
    """Make a bench whose sagas are kept for a day, at the time that moto stamps objects with."""

    def make(*classes: type[Any]) -> Bench:
        return at_real_time(keeping(*classes))

    return make


def at_real_time(bench: Bench) -> Bench:
    bench.clock.time = round(time.time(), 3)
    return bench


def objects(bench: Bench) -> list[str]:
    return [one["Key"] for one in bench.stack.s3.list_objects_v2(Bucket=bench.stack.bucket).get("Contents", [])]


def marks(bench: Bench) -> list[str]:
    """Where the personal data is."""
    stack = bench.stack
    tables = [table for table in (stack.sagas_table, stack.audit_table, stack.joins_table) if table]
    items = [item for table in tables for item in stack.dynamodb.scan(TableName=table)["Items"]]
    bodies = {key: stack.s3.get_object(Bucket=stack.bucket, Key=key)["Body"].read().decode() for key in objects(bench)}
    return [str(item) for item in items if MARK in json.dumps(item, default=str)] + [
        key for key, body in bodies.items() if MARK in body
    ]


def visit(bench: Bench, most: int = 50) -> None:
    """The supervisor comes until the week's search has ended."""
    for _ in range(most):
        if not bench.engine.leftover_finder.run(60.0).pages:
            return
    raise AssertionError("the search does not end")


def body(iban: str, children: int = 0) -> dict[str, Any]:
    return {"iban": iban, "children": children}


def answered(bench: Bench, iban: str = LARGE) -> str:
    """A saga of a large request and a large answer, at its end."""
    saga_id = start(bench, "payout", body(iban)).state.saga_id
    bench.run()
    bench.engine.signals.send("payout", saga_id, "answer", body(iban), "ann")
    bench.run()
    assert bench.state(saga_id).status is SagaStatus.COMPLETED
    return saga_id


def short_pages(patch: pytest.MonkeyPatch) -> None:
    """A page of the audit table has one entry."""
    dispatch = SharedConnection.dispatch

    def short(self: SharedConnection, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        return dispatch(self, operation, request | {"Limit": 1} if operation == "Scan" else request)

    patch.setattr(SharedConnection, "dispatch", short)


def small(bench: Bench) -> str:
    """A saga at its end that has nothing in S3."""
    saga_id = start(bench, "one", body(SMALL)).state.saga_id
    bench.run()
    return saga_id


# Refused writers.


def test_a_start_repeated_after_the_purge_brings_nothing_back(now: Make) -> None:
    bench = now(Payout)
    saga_id = answered(bench)
    purge(bench, saga_id, name="payout")
    again = start(bench, "payout", body(LARGE))
    assert (again.created, again.entry.tombstone is not None) == (False, True)
    with pytest.raises(KeyReused):
        start(bench, "payout", body(OTHER))
    assert objects(bench) == []


def test_a_start_refused_for_its_key_leaves_nothing_and_takes_nothing(now: Make) -> None:
    bench = now(Payout)
    saga_id = start(bench, "payout", body(LARGE)).state.saga_id
    [key] = objects(bench)
    with pytest.raises(KeyReused):
        start(bench, "payout", body(OTHER))
    assert not start(bench, "payout", body(LARGE)).created
    assert objects(bench) == [key]
    assert bench.show(saga_id)["request"]["iban"] == LARGE


def test_a_start_that_won_without_hearing_of_it_keeps_its_request(now: Make) -> None:
    bench = now(Payout)
    saga_id = start(bench, "payout", body(LARGE)).state.saga_id
    [key] = objects(bench)
    own = bench.engine.journal.entries(saga_id, [1])[1]
    written = replace(own, details={name: value for name, value in own.details.items() if name != "payload_ref"})
    assert bench.engine.journal.put(written) == own
    assert objects(bench) == [key]


def test_a_bucket_out_of_reach_refuses_no_answer(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = now(Payout)
    start(bench, "payout", body(SMALL))

    def away(*_: Any) -> None:
        raise Unavailable("S3 is out of reach")

    monkeypatch.setattr(Objects, "delete", away)
    with pytest.raises(KeyReused):
        start(bench, "payout", body(LARGE))
    assert len(objects(bench)) == 1, "a purge, or the weekly search, finds it"


def test_a_large_signal_that_loses_against_a_cancel_leaves_nothing(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = now(Payout)
    saga_id = start(bench, "payout", body(SMALL)).state.saga_id
    bench.run()
    accept = Inbox.accept

    def overtaken(inbox: Inbox, *given: Any) -> bool:
        bench.engine.operations.cancel("payout", saga_id, "bob")
        return accept(inbox, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Inbox, "accept", overtaken)
        with pytest.raises(Conflict):
            bench.engine.signals.send("payout", saga_id, "answer", body(LARGE), "ann")
    assert objects(bench) == []


def test_a_signal_that_comes_twice_keeps_its_value(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two callers send the same value, and the second has not seen the first."""
    bench = now(Payout)
    saga_id = start(bench, "payout", body(SMALL)).state.saga_id
    bench.run()
    accept, sent = Inbox.accept, list[bool]()

    def overtaken(inbox: Inbox, *given: Any) -> bool:
        if not sent:
            sent.append(True)
            before, index, signal, stale = given
            assert accept(inbox, before, index, replace(signal, salt="of another caller"), stale)
        return accept(inbox, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Inbox, "accept", overtaken)
        assert not bench.engine.signals.send("payout", saga_id, "answer", body(LARGE), "ann").accepted
    bench.run()
    assert bench.state(saga_id).status is SagaStatus.COMPLETED


# Writers that died.


def dying(patch: pytest.MonkeyPatch, target: Any, name: str, *, before: bool = True) -> None:
    """The next call of a method is the last thing that its process does, before it takes effect or after."""
    once(patch, target, name, before=before)


def dies(act: Callable[[], object]) -> None:
    with pytest.raises(Death):
        act()


def dead_start(bench: Bench, patch: pytest.MonkeyPatch, iban: str = LARGE, name: str = "payout") -> str:
    """A start that died between its two writes; the saga's id."""
    dying(patch, ControlItems, "create")
    dies(lambda: start(bench, name, body(iban)))
    [entry] = bench.stack.dynamodb.scan(TableName=bench.stack.audit_table)["Items"]
    return str(entry["saga_id"]["S"])


def test_a_refused_start_that_died_goes_with_a_purge_by_hand(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = now(One)
    saga_id = small(bench)
    dying(monkeypatch, Payloads, "put", before=False)
    dies(lambda: start(bench, "one", body(LARGE)))
    assert len(objects(bench)) == 1
    purge(bench, saga_id, name="one")
    assert marks(bench) == []


def test_one_that_died_after_the_purge_goes_with_the_next_purge_by_hand(
    now: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = now(One)
    saga_id = small(bench)
    for _ in range(2):
        purge(bench, saga_id, name="one")
        assert marks(bench) == []
        dying(monkeypatch, Payloads, "put", before=False)
        dies(lambda: start(bench, "one", body(LARGE)))
        assert len(objects(bench)) == 1
        bench.clock.advance(HOUR)


def refused(*_: Any) -> bool:
    """The answer to a condition that does not hold."""
    return False


def test_by_hand_while_the_retention_has_begun_it(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = now(One)
    saga_id = small(bench)
    bench.clock.advance(DAY)
    monkeypatch.setattr(ControlItems, "delete", refused)
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    dying(monkeypatch, Payloads, "put", before=False)
    dies(lambda: start(bench, "one", body(LARGE)))
    purge(bench, saga_id, name="one")
    assert marks(bench) == []


def test_otherwise_the_weekly_search_finds_it(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = now(One)
    saga_id = small(bench)
    bench.clock.advance(DAY)
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    dying(monkeypatch, Payloads, "put", before=False)
    dies(lambda: start(bench, "one", body(LARGE)))
    bench.clock.advance(HOUR + 60)
    visit(bench)
    assert marks(bench) == []


@pytest.mark.parametrize("write", ["create", "put"])
def test_a_start_that_died_is_forgotten_whole(now: Make, monkeypatch: pytest.MonkeyPatch, write: str) -> None:
    """Before the control item was there, or before the search keys were."""
    bench = now(Payout)
    dying(monkeypatch, ControlItems if write == "create" else SearchKeys, write)
    dies(lambda: start(bench, "payout", body(LARGE)))
    bench.clock.advance(HOUR + 1)
    visit(bench)
    assert marks(bench) == []
    assert bench.stack.dynamodb.scan(TableName=bench.stack.audit_table)["Items"] == []


def test_one_without_an_entry_too(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = now(Payout)
    dying(monkeypatch, Payloads, "put", before=False)
    dies(lambda: start(bench, "payout", body(LARGE)))
    bench.clock.advance(HOUR + 1)
    visit(bench)
    assert objects(bench) == []


def test_a_start_that_is_redriven_days_later_still_starts(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = now(Payout)
    saga_id = dead_start(bench, monkeypatch)
    bench.clock.advance(3 * DAY)
    visit(bench)
    assert start(bench, "payout", body(LARGE)).created
    bench.run()
    assert bench.show(saga_id)["request"]["iban"] == LARGE
    bench.clock.advance(WEEK)
    visit(bench)
    assert bench.show(saga_id)["request"]["iban"] == LARGE


def test_so_does_one_that_is_redriven_before_the_search(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = now(Payout)
    saga_id = dead_start(bench, monkeypatch)
    bench.clock.advance(3 * DAY)
    assert start(bench, "payout", body(LARGE)).state.saga_id == saga_id
    visit(bench)
    bench.run()
    assert bench.state(saga_id).status is SagaStatus.WAITING
    assert bench.show(saga_id)["request"]["iban"] == LARGE


def test_the_time_of_a_saga_begins_with_the_start_that_made_it(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that died is not the beginning of its deadline: it would be cancelled before its first step."""
    bench = now(Hasty)
    saga_id = dead_start(bench, monkeypatch, name="hasty")
    bench.clock.advance(3 * DAY)
    start(bench, "hasty", body(LARGE))
    assert bench.state(saga_id).deadline == bench.clock.now() + HOUR
    bench.run()
    assert bench.state(saga_id).status is SagaStatus.COMPLETED


def test_one_that_is_forgotten_while_it_is_redriven_starts_as_well(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repeated start has found the entry, and the search deletes it."""
    bench = now(Payout)
    saga_id = dead_start(bench, monkeypatch)
    bench.clock.advance(3 * DAY)
    create_again = ControlItems.create_again

    def overtaken(control: ControlItems, *given: Any) -> bool:
        visit(bench)
        return create_again(control, *given)

    with monkeypatch.context() as patched:
        patched.setattr(ControlItems, "create_again", overtaken)
        assert start(bench, "payout", body(LARGE)).created
    bench.run()
    assert bench.show(saga_id)["request"]["iban"] == LARGE


def test_one_that_is_redriven_while_it_is_forgotten_keeps_all(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search has found no control item, and the repeated start makes it."""
    bench = now(Payout)
    saga_id = dead_start(bench, monkeypatch)
    bench.clock.advance(3 * DAY)
    forget = Leftovers.forget

    def overtaken(leftovers: Leftovers, dead: DeadStart) -> bool:
        assert start(bench, "payout", body(LARGE)).created is False
        return forget(leftovers, dead)

    with monkeypatch.context() as patched:
        patched.setattr(Leftovers, "forget", overtaken)
        visit(bench)
    bench.run()
    assert bench.show(saga_id)["request"]["iban"] == LARGE
    assert len(bench.engine.reader.list(["payout"], None, 9, None, values={"iban": LARGE})["sagas"]) == 1


def test_the_search_leaves_the_object_of_a_start_that_came_just_now(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has listed the object of one that died, and one with the same request begins before it deletes that."""
    bench = now(Payout)
    dying(monkeypatch, Payloads, "put", before=False)
    dies(lambda: start(bench, "payout", body(LARGE)))
    bench.clock.advance(3 * DAY)
    delete, begun = Leftovers.delete, list[str]()

    def overtaken(leftovers: Leftovers, keys: Any) -> None:
        begun.append(start(bench, "payout", body(LARGE)).state.saga_id)
        delete(leftovers, keys)

    with monkeypatch.context() as patched:
        patched.setattr(Leftovers, "delete", overtaken)
        visit(bench)
    assert bench.show(begun[0])["request"]["iban"] == LARGE
    assert len(objects(bench)) == 1


# What the search leaves alone.


def test_a_saga_that_has_only_begun_is_none_of_them(now: Make) -> None:
    bench = now(Payout)
    saga_id = start(bench, "payout", body(LARGE)).state.saga_id
    before = bench.stack.entries(saga_id)
    bench.clock.advance(DAY)
    visit(bench)
    assert (bench.stack.entries(saga_id), len(objects(bench))) == (before, 1)
    assert item(bench, saga_id) is not None


def test_nor_is_a_start_of_the_last_hour(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = now(Payout)
    saga_id = dead_start(bench, monkeypatch)
    bench.clock.advance(HOUR - 1)
    visit(bench)
    assert len(bench.stack.entries(saga_id)) == len(objects(bench)) == 1


def test_nor_is_one_that_lost_its_control_item(now: Make) -> None:
    """As after a restore: its trail says what its steps have done."""
    bench = now(Payout)
    saga_id = answered(bench)
    expire(bench, saga_id)
    before, kept = bench.stack.entries(saga_id), objects(bench)
    bench.clock.advance(DAY)
    visit(bench)
    assert (bench.stack.entries(saga_id), objects(bench)) == (before, kept)


def test_nor_is_one_that_lost_its_first_entry(now: Make) -> None:
    """After a restore of an older audit table, a saga in flight goes on with the results that it has."""
    bench = now(Payout)
    saga_id = start(bench, "payout", body(LARGE)).state.saga_id
    bench.run()
    expire(bench, saga_id, 1)
    kept = objects(bench)
    bench.clock.advance(DAY)
    visit(bench)
    assert objects(bench) == kept != []


def test_a_second_entry_on_the_next_page_is_seen(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = now(Payout)
    saga_id = answered(bench)
    expire(bench, saga_id)
    before = bench.stack.entries(saga_id)
    short_pages(monkeypatch)
    bench.clock.advance(DAY)
    visit(bench)
    assert bench.stack.entries(saga_id) == before


def test_payloads_of_no_saga_stay_where_they_are_the_most(now: Make) -> None:
    """The audit table may be the wrong one, or still be restored."""
    bench = now(Payout)
    for number in range(20):
        start(bench, "payout", body(LARGE), key=f"key {number}")
    for entry in bench.stack.dynamodb.scan(TableName=bench.stack.audit_table)["Items"][:11]:
        expire(bench, entry["saga_id"]["S"], 1)
        expire(bench, entry["saga_id"]["S"])
    bench.clock.advance(DAY)
    report = bench.engine.leftover_finder.run(60.0)
    assert (report.objects, report.strange, len(objects(bench))) == (0, 11, 20)


# Once a week.


def test_the_rule_for_purges_looks_for_leftovers(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = now(Payout)
    dead_start(bench, monkeypatch)
    bench.clock.advance(HOUR + 1)
    monkeypatch.setattr(supervisor, "_engine", lambda: bench.engine)
    for _ in range(3):
        assert supervisor.handler({"task": "purge", "queue": True}, LambdaContext())["finished"] is True
    assert marks(bench) == []


def test_a_search_begins_once_a_week(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = now(Payout)
    visit(bench)
    dead_start(bench, monkeypatch)
    bench.clock.advance(WEEK - 1)
    assert bench.engine.leftover_finder.run(60.0).pages == 0
    bench.clock.advance(1)
    visit(bench)
    assert marks(bench) == []


def test_it_goes_on_where_the_last_visit_ended(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each visit reads as many pages as the last week's search was long, and stops with the function's time."""
    monkeypatch.setattr("sagas.engine.supervise.leftovers._LEAST_PAGES", 1)
    monkeypatch.setattr("sagas.engine.supervise.leftovers._VISITS", 2)
    bench = now(Payout)
    short_pages(monkeypatch)
    for number in range(5):
        start(bench, "payout", body(SMALL), key=f"key {number}")
    assert bench.engine.leftover_finder.run(0.0).pages == 0
    first = [bench.engine.leftover_finder.run(60.0).pages for _ in range(9)]
    bench.clock.advance(WEEK)
    second = [bench.engine.leftover_finder.run(60.0).pages for _ in range(9)]
    assert sum(first) == sum(second)
    assert first[:2] == [1, 1]
    half = -(-sum(first) // 2)
    assert second[:3] == [half, sum(first) - half, 0]


# Children.


@pytest.mark.parametrize("asked", [False, True])
def test_children_that_never_started_leave_nothing(now: Make, monkeypatch: pytest.MonkeyPatch, *, asked: bool) -> None:
    """One had stored its request when it died, and then its parent decided that it never starts."""
    bench = now(Family, One)
    saga_id = start(bench, "family", body(LARGE, children=2)).state.saga_id
    bench.deliver("family", "all")
    dying(monkeypatch, Payloads, "put", before=False)
    dies(bench.run)
    bench.engine.operations.cancel("family", saga_id, "ann")
    bench.lose_messages()
    bench.clock.advance(HOUR)
    bench.recover()
    bench.run()
    assert bench.state(saga_id).status is SagaStatus.CANCELLED
    assert bench.engine.control.get(child_id(saga_id, "all", 0)) is None
    bench.clock.advance(DAY)
    if asked:
        purge(bench, saga_id, name="family")
    else:
        assert bench.engine.purger.run(60.0).purged == [saga_id]
    assert marks(bench) == []


def test_a_child_whose_start_died_is_its_parents(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parent would start it again, so the search leaves it alone. What the parent leaves of it goes with the
    parent."""
    bench = now(Family, One)
    saga_id = start(bench, "family", body(LARGE, children=1)).state.saga_id
    bench.deliver("family", "all")
    dying(monkeypatch, ControlItems, "create")
    dies(bench.run)
    child = child_id(saga_id, "all", 0)
    bench.clock.advance(DAY)
    visit(bench)
    assert bench.actions(child) == ["SagaStarted"]
    state = bench.state(saga_id)
    ended = replace(state, status=SagaStatus.FAILED, token=state.token + 1)
    assert bench.engine.control.claim(state, ended, 1.0), "as nobody writes it today"
    bench.clock.advance(WEEK)
    purge(bench, saga_id, name="family")
    assert marks(bench) == []


def test_a_child_that_has_nothing_but_its_object_goes_with_its_parent(
    now: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = now(Family, One)
    saga_id = start(bench, "family", body(LARGE, children=1)).state.saga_id
    bench.deliver("family", "all")
    dying(monkeypatch, Payloads, "put", before=False)
    dies(bench.run)
    state = bench.state(saga_id)
    ended = replace(state, status=SagaStatus.FAILED, token=state.token + 1)
    assert bench.engine.control.claim(state, ended, 1.0), "as nobody writes it today"
    bench.clock.advance(DAY)
    purge(bench, saga_id, name="family")
    assert marks(bench) == []


def test_a_child_that_lost_its_control_item_goes_with_its_parent(now: Make) -> None:
    bench = now(Family, One)
    saga_id = start(bench, "family", body(LARGE, children=1)).state.saga_id
    bench.run()
    expire(bench, child_id(saga_id, "all", 0))
    bench.clock.advance(DAY)
    purge(bench, saga_id, name="family")
    assert marks(bench) == []


def test_never_started_children_of_small_requests_ask_nothing_of_s3(now: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = now(Family, One)
    saga_id = start(bench, "family", body(SMALL, children=2)).state.saga_id
    bench.deliver("family", "all")
    bench.engine.operations.cancel("family", saga_id, "ann")
    bench.run()
    bench.clock.advance(DAY)
    asked: list[str] = []

    def delete_all(_: Payloads, saga_id: str) -> None:
        asked.append(saga_id)

    monkeypatch.setattr(Payloads, "delete_all", delete_all)
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    assert child_id(saga_id, "all", 0) not in asked


# Any life.

ACTS = st.sampled_from(
    [
        "start",
        "start large",
        "start other",
        "signal",
        "signal large",
        "signal failing",
        "run",
        "cancel",
        "purge",
        "wait",
    ]
)
DEATHS = st.sampled_from(
    [
        None,
        *((target, name, before) for target, name in (
            (Payloads, "put"), (Journal, "put"), (SearchKeys, "put"), (ControlItems, "create"),
            (ControlItems, "commit"), (ControlItems, "finish"), (Inbox, "accept"), (Inbox, "delete"),
        ) for before in (True, False)),
    ]
)  # fmt: skip


@pytest.mark.usefixtures("credentials")
@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(ACTS, DEATHS), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_after_any_life_and_a_purge_nothing_has_the_request(
    lived: list[tuple[str, Any]], family: bool, by_hand: bool
) -> None:
    """Also if a writer dies at any of its writes."""
    live(lived, "family" if family else "payout", by_hand=by_hand)


@pytest.mark.slow
@pytest.mark.usefixtures("credentials")
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.tuples(ACTS, DEATHS), min_size=1, max_size=10), st.booleans(), st.booleans())
def test_after_many_lives(lived: list[tuple[str, Any]], family: bool, by_hand: bool) -> None:
    """The same at length: ``test_after_any_life_and_a_purge_nothing_has_the_request`` fails first."""
    live(lived, "family" if family else "payout", by_hand=by_hand)


def live(lived: list[tuple[str, Any]], name: str, *, by_hand: bool) -> None:
    with aws():
        bench = at_real_time(Bench(Payout, Family, One))
        deploy(bench, Payout, Family, One, retention=DAY)
        saga_id = id_for_key(bench.stack.prefix, name, "key")
        for act, death in lived:
            with pytest.MonkeyPatch.context() as patch, suppress(Death, SagaError):
                if death is not None:
                    dying(patch, *death[:2], before=death[2])
                do(bench, name, saga_id, act)
        for _ in range(6):  # until it has ended, or was never there
            bench.clock.advance(2 * HOUR)
            bench.recover()
            bench.run()
        state = bench.engine.control.get(saga_id)
        if state is not None and not state.ended:
            bench.engine.operations.cancel(name, saga_id, "ann")
            bench.run()
        if by_hand and state is not None:
            purge(bench, saga_id, name=name)
        bench.clock.advance(3 * DAY)
        bench.engine.purger.run(60.0)
        bench.clock.advance(WEEK)
        bench.engine.purger.run(60.0)
        visit(bench)
        assert marks(bench) == []


def do(bench: Bench, name: str, saga_id: str, act: str) -> None:
    verb, _, how = act.partition(" ")
    iban = {"large": LARGE, "other": OTHER}.get(how, SMALL)
    match verb:
        case "start":
            start(bench, name, body(iban, children=2))
        case "signal":
            bench.engine.signals.send(name, saga_id, "answer", body(iban, how == "failing"), "ann")
        case "run":
            bench.run()
        case "cancel":
            bench.engine.operations.cancel(name, saga_id, "ann", reason=f"for {MARK}")
        case "purge":
            purge(bench, saga_id, name=name)
        case _:
            bench.clock.advance(2 * HOUR)
            bench.recover()
