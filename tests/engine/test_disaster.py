"""docs/operations/backup-restore.md, by restoring older copies of one table and of both."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from copy import copy
from typing import Any

import pytest

from sagas.store.connection import SharedConnection
from sagas.store.restored import trim_audit, trim_joins
from tests.engine.test_children import Basketful, Shipment
from tests.support.aws import REGION, HandmadeStack, create_joins_table, create_tables
from tests.support.bench import Bench
from tests.support.dynamodb import aws
from tests.support.sagas import FAIL, LOG, Trip

STEPS = ("book", "pay", "tell")
COPIES = len(STEPS) + 1
"""Of the tables: after the start, and after each step."""
_numbers = itertools.count()

Items = list[dict[str, Any]]


class Lost:
    """A service that ran one saga to its end, with a copy of both tables every three seconds."""

    def __init__(self, steps: tuple[str, ...] = STEPS) -> None:
        self.bench = Bench(stack=HandmadeStack(Trip, prefix=f"lost-{next(_numbers)}"))
        self.saga_id = self.bench.start("trip", key="k")
        self.copies, self.times = [self._copy()], [self.bench.clock.now()]
        for name in steps:
            self.bench.clock.advance(3)
            self.bench.deliver("trip", name)
            self.copies.append(self._copy())
            self.times.append(self.bench.clock.now())
        self.done = list(LOG)

    def _copy(self) -> tuple[Items, Items]:
        dynamodb, stack = self.bench.stack.dynamodb, self.bench.stack
        sagas, audit = (
            dynamodb.scan(TableName=table, ConsistentRead=True)["Items"]
            for table in (stack.sagas_table, stack.audit_table)
        )
        return sagas, audit

    def restored(self, sagas: int, audit: int, *, trimmed: bool = False) -> Bench:
        """The service on new tables, each as in one of the copies; queues and bucket are what they were."""
        stack = copy(self.bench.stack)
        stack.sagas_table, stack.audit_table = create_tables(stack.dynamodb, f"restored-{next(_numbers)}")
        for table, items in ((stack.sagas_table, self.copies[sagas][0]), (stack.audit_table, self.copies[audit][1])):
            for item in items:
                stack.dynamodb.put_item(TableName=table, Item=item)
        if trimmed:
            trim(stack, self.times[sagas])
        LOG.clear()
        return Bench(stack=stack, clock=self.bench.clock)


def trim(stack: HandmadeStack, restored_to: float) -> int:
    """Remove the entries that the restored table of sagas does not know of; return how many there were."""
    return trim_audit(SharedConnection(region=REGION), stack.sagas_table, stack.audit_table, restored_to).removed


def trim_ends(stack: HandmadeStack, restored_to: float) -> int:
    """Remove the ends of children that are still to come; return how many there were."""
    return trim_joins(SharedConnection(region=REGION), stack.sagas_table, stack.joins_table, restored_to).removed


def live(b: Bench) -> None:
    """Let the service run for hours."""
    b.run()
    for _ in range(8):
        b.clock.advance(2_000)
        b.recover()
        b.run()


def verified(b: Bench, saga_id: str) -> str | None:
    """What is wrong with the trail, and where."""
    bad = b.engine.verifier.verify("trip", saga_id).finding.bad
    return None if bad is None else f"{bad.wrong.value} {bad.seq}"


@pytest.fixture(params=["memory", pytest.param("dynamodb_local", marks=pytest.mark.slow)])
def lost(request: pytest.FixtureRequest, credentials: None, clean: None) -> Iterator[Lost]:
    """The tables are on that engine, queues and bucket on moto."""
    with aws(request.param):
        yield Lost()


@pytest.mark.parametrize("moment", range(COPIES - 1))
def test_both_of_one_time_go_on_from_there(lost: Lost, moment: int) -> None:
    b = lost.restored(moment, moment)
    live(b)
    assert b.status(lost.saga_id) == "COMPLETED"
    assert lost.done[moment:] == LOG, "what was done after that time is done again"
    assert verified(b, lost.saga_id) is None


def test_a_message_from_after_that_time_does_not_skip_a_step(lost: Lost) -> None:
    """The queue of the second step has one, which the restored saga has not come to: the current one is sent."""
    midway = Lost(("book",))
    b = midway.restored(0, 0)
    live(b)
    assert (b.status(midway.saga_id), LOG) == ("COMPLETED", lost.done)
    assert verified(b, midway.saga_id) is None


@pytest.mark.parametrize(("sagas", "audit"), [(0, 1), (0, 3), (1, 2), (1, 3), (2, 3)])
def test_entries_without_a_pointer(lost: Lost, sagas: int, audit: int) -> None:
    b = lost.restored(sagas, audit)
    before = b.stack.entries(lost.saga_id)
    live(b)
    assert b.status(lost.saga_id) == ("PENDING", "RUNNING", "RUNNING")[sagas], "it stands still"
    assert LOG == []
    assert b.stack.entries(lost.saga_id) == before
    assert b.engine.reader.attention(None, 10, None)["sagas"] == []
    assert b.engine.recovery.run(60.0).recovered == []

    trimmed = trim(b.stack, lost.times[sagas])
    assert trimmed == audit - sagas
    live(b)
    assert b.status(lost.saga_id) == "COMPLETED"
    assert lost.done[sagas:] == LOG
    assert verified(b, lost.saga_id) is None


def test_trimmed_at_once_nothing_is_ever_missed(lost: Lost) -> None:
    b = lost.restored(1, 3, trimmed=True)
    live(b)
    assert b.status(lost.saga_id) == "COMPLETED"
    assert lost.done[1:] == LOG
    assert trim(b.stack, lost.times[1]) == 0, "nothing of what is right goes"


def test_a_saga_that_was_started_after_that_time_can_be_started_again(lost: Lost) -> None:
    lost.copies.insert(0, ([], []))
    b = lost.restored(0, 4)
    assert trim(b.stack, lost.times[0]) == 4
    assert b.start("trip", key="k") == lost.saga_id
    live(b)
    assert b.status(lost.saga_id) == "COMPLETED"
    assert lost.done == LOG


def test_a_pointer_without_an_entry_that_is_needed(lost: Lost) -> None:
    b = lost.restored(1, 0)
    live(b)
    assert b.status(lost.saga_id) == "COMPENSATION_FAILED"
    assert [one["saga_id"] for one in b.engine.reader.attention(None, 10, None)["sagas"]] == [lost.saga_id]
    assert LOG == [], "neither the step that takes the lost result nor the undo"
    assert verified(b, lost.saga_id) == "missing 2"


@pytest.mark.parametrize(("audit", "wrong"), [(0, "missing 2"), (1, "missing 3")])
def test_a_pointer_without_an_entry_that_no_step_needs(lost: Lost, audit: int, wrong: str) -> None:
    b = lost.restored(2, audit)
    live(b)
    assert b.status(lost.saga_id) == "COMPLETED"
    assert lost.done[2:] == LOG
    assert verified(b, lost.saga_id) == wrong


@pytest.mark.parametrize("audit", range(COPIES - 1))
def test_a_pointer_without_its_entries_of_a_saga_that_is_over(lost: Lost, audit: int) -> None:
    b = lost.restored(3, audit)
    live(b)
    shown = b.show(lost.saga_id)
    assert shown["status"] == "COMPLETED"
    assert [step["result"] is not None for step in shown["steps"]][:2] == [audit > 0, audit > 1]
    assert LOG == []
    assert (verified(b, lost.saga_id) or "").startswith("cut off")


class Family:
    """A service that ran a saga with three children to its end, with a copy of the three tables after each message.

    Args:
        fail: what one of the children fails with, so that the others are undone.
    """

    def __init__(self, fail: Exception | None = None) -> None:
        self.bench = Bench(stack=HandmadeStack(Basketful, Shipment, prefix=f"family-{next(_numbers)}"))
        if fail is not None:
            FAIL["close"] = fail
        self.saga_id = self.bench.start("basketful", {"parcels": 3})
        self.copies, self.times = [self._copy()], [self.bench.clock.now()]
        while self._step():
            self.copies.append(self._copy())
            self.times.append(self.bench.clock.now())
        self.end = self.bench.status(self.saga_id)

    def _step(self) -> bool:
        self.bench.clock.advance(1)
        if self.bench.end_waits():
            return True
        return any(self.bench.deliver(saga, step) is not None for saga, step in self.bench.stack.steps())

    def _copy(self) -> list[Items]:
        stack = self.bench.stack
        tables = (stack.sagas_table, stack.audit_table, stack.joins_table)
        return [stack.dynamodb.scan(TableName=table, ConsistentRead=True)["Items"] for table in tables]

    def restored(self, sagas: int, joins: int) -> Bench:
        """The service on new tables, sagas and audit of one time, joins of another."""
        stack, prefix = copy(self.bench.stack), f"family-restored-{next(_numbers)}"
        stack.sagas_table, stack.audit_table = create_tables(stack.dynamodb, prefix)
        stack.joins_table = create_joins_table(stack.dynamodb, prefix)
        moments = {stack.sagas_table: sagas, stack.audit_table: sagas, stack.joins_table: joins}
        for place, (table, moment) in enumerate(moments.items()):
            for item in self.copies[moment][place]:
                stack.dynamodb.put_item(TableName=table, Item=item)
        return Bench(stack=stack, clock=self.bench.clock)


@pytest.mark.slow
@pytest.mark.parametrize("fail", [None, RuntimeError("no courier")])
@pytest.mark.parametrize("later", [0, 100])
def test_a_parent_whose_children_are_restored_ends_as_it_did(
    credentials: None, clean: None, fail: Exception | None, later: int
) -> None:
    with aws():
        family = Family(fail)
        last = len(family.copies) - 1
        assert family.end == ("COMPENSATED" if fail else "COMPLETED")
        for moment in range(later % 3, last, 5):
            b = family.restored(moment, min(moment + later, last))
            trim_ends(b.stack, family.times[moment])
            assert trim_ends(b.stack, family.times[moment]) == 0
            live(b)
            shown, children = b.show(family.saga_id), b.engine.reader.children(family.saga_id, 10, None)["sagas"]
            ended = (shown["status"], {child["status"] for child in children})
            assert ended == (family.end, {family.end}), f"restored to moment {moment} of {last}"
            if fail is None:
                assert shown["steps"][1]["result"] == ["label 0", "label 1", "label 2"]


def test_ends_that_are_still_to_come_leave_a_parent_without_results(credentials: None, clean: None) -> None:
    with aws():
        family = Family()
        b = family.restored(3, len(family.copies) - 1)
        live(b)
        shown = b.show(family.saga_id)
        assert (shown["status"], shown["error"]["type"]) == ("DEAD_LETTERED", "TypeChanged")


def test_without_the_ends_that_were_a_parent_waits_for_good(credentials: None, clean: None) -> None:
    with aws():
        family = Family()
        b = family.restored(len(family.copies) - 3, 0)
        live(b)
        assert b.status(family.saga_id) == "WAITING"
        assert b.engine.reader.attention(None, 10, None)["sagas"] == []
