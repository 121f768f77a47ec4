"""The rules of the commit protocol for parents and children, each to be switched off as those in ``rules.py``."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast
from unittest.mock import patch

from msgspec.structs import replace

from sagas.core import undoing
from sagas.core.events import ChildrenStarted, SagaResolved
from sagas.core.ids import child_id, parent_of
from sagas.core.states import FanOut, SagaState, StepState
from sagas.engine.children import Children
from sagas.engine.operate.operations import Operations
from sagas.engine.supervise import purge
from sagas.engine.supervise.purge import Purger
from sagas.engine.supervise.recovery import RecoveryRun
from sagas.store import joins
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import purge_at
from sagas.store.joins import FORWARD, NEVER, ChildOutcome, Tally
from sagas.store.tables import StoreSettings
from sagas.testing.faults import Fault, Point
from tests.faults.rules import Life, Orders, Rules, within

FAMILY_RULES = Rules()
_rule = FAMILY_RULES.rule
_children, _purger = cast("Any", Children), cast("Any", Purger)


def _nothing(*given: Any, **more: Any) -> None:
    return None


@_rule("the outcome of a children step waits out an outage", Life("two_children", Point(17, Fault.OUTAGE)))
def _children_cannot_be_committed_late() -> Generator[None]:
    with patch.object(ChildrenStarted, "reports", None):
        yield


@_rule("a child whose parent waits for its end is not settled", Life("a_child_that_waits_for_an_operator"))
def _any_child_is_settled() -> Generator[None]:
    def settle(
        self: Any, name: str, saga_id: str, reason: str, action: str, steps: tuple[str, ...], actor: str
    ) -> SagaState:
        return self._resolve(self.reader.state(name, saga_id), SagaResolved(reason, action, steps), actor, None)

    with patch.object(Operations, "resolve", settle):
        yield


@_rule("a child's end and its join are one transaction", Life("two_children, chained", Point(37, Fault.DIES_AFTER)))
def _joins_apart_from_the_end() -> Generator[None]:
    def apart(self: Any, writes: list[Any], joins: list[Any]) -> None:
        for transaction in (writes, joins):
            if transaction:
                self._tables.connection.dispatch("TransactWriteItems", {"TransactItems": transaction})

    with patch.object(ControlItems, "_joined", apart):
        yield


@_rule("whatever commit ends a child, it joins", Life("a_failed_child_is_tolerated"))
def _plain_commits_do_not_join() -> Generator[None]:
    def no_writes(*given: Any) -> list[Any]:
        return []

    with within((ControlItems, "commit"), (joins, "join_writes"), no_writes):
        yield


@_rule("an outcome is written once", Life("cancelled_before_the_children_are_started", Point(41, Fault.REPEATED)))
def _outcomes_counted_again() -> Generator[None]:
    writes = cast("Any", joins)._writes

    def unminding(*given: Any) -> list[Any]:
        put, add = writes(*given)
        put["Put"]["ConditionExpression"] = "attribute_exists(part) OR attribute_not_exists(part)"
        return [put, add]

    with patch.object(joins, "_writes", unminding):
        yield


@_rule("an interrupted start is continued", Life("cancelled_before_the_children_are_started", Point(27, Fault.LATE, 7)))
def _starts_are_not_continued() -> Generator[None]:
    with patch.object(Children, "_continue", _nothing):
        yield


@_rule(
    "what may still be started is decided never to start",
    Life("children_one_after_the_other", Point(21, Fault.LATE, 3)),
)
def _closing_fences_no_start() -> Generator[None]:
    closed = _children._closed

    def unfenced(self: Any, state: SagaState, step: StepState, position: int) -> Any:
        saga_id = child_id(state.saga_id, step.name, position, step.round)
        if self.advancer.services.journal.entries(saga_id, [1]):
            return closed(self, state, step, position)
        self.joins.record(parent_of(state, step, position), FORWARD, ChildOutcome(position, NEVER))
        return None

    with patch.object(Children, "_closed", unfenced):
        yield


@_rule("a parent goes on when all its children are undone", Life("children_undone_one_after_the_other"))
def _undoing_ends_early() -> Generator[None]:
    def all_of_them(self: Tally, number: int) -> int:
        return self.standing

    with patch.object(Tally, "undone", all_of_them):
        yield


@_rule("an order is obeyed once", Life("a_child_settled_by_hand"))
def _orders_are_obeyed_again() -> Generator[None]:
    def kept(state: SagaState) -> Any:
        return state.order

    with patch.object(undoing, "_closed_order", kept):
        yield


@_rule(
    "the supervisor looks after those that wait for children",
    Life("cancelled_before_the_children_are_started", Point(30, Fault.DIES_AFTER)),
)
def _nobody_looks_after_parents() -> Generator[None]:
    def left_alone(self: Any, state: SagaState, found: Any) -> bool:
        return state.joins

    with patch.object(RecoveryRun, "_waits_for_children", left_alone):
        yield


@_rule("a tree is purged as one", Life("a_cancelled_family_is_purged_by_an_operator"))
def _purges_leave_the_children() -> Generator[None]:
    with patch.object(Purger, "_end_children", _nothing):
        yield


@_rule(
    "the purge of a tree ends when no start of it can be at work",
    Life("a_cancelled_family_is_purged_by_an_operator", Point(78, Fault.PAUSES, 8)),
)
def _purges_ignore_starts_of_children() -> Generator[None]:
    def hasty(state: SagaState, settings: StoreSettings) -> float:
        steps = tuple(replace(step, fan_out=FanOut()) for step in state.steps)
        return purge_at(replace(state, steps=steps), settings)

    with patch.object(purge, "purge_at", hasty):
        yield


@_rule(
    "what needs a person is kept, and so is its parent",
    Life("a_cancelled_family_is_purged_by_an_operator", Point(93, Fault.DIES_AFTER)),
)
def _purges_take_the_needy() -> Generator[None]:
    with patch.object(Purger, "_needy", _nothing):
        yield


@_rule(
    "of those that see that all are over, one takes the lease",
    Life("two_children, chained", Point(55, Fault.PAUSES, 1)),
)
def _two_looks_end_the_children() -> Generator[None]:
    claim = ControlItems.claim

    def unleased(self: Any, before: SagaState, after: SagaState, stale_after: float) -> bool:
        if not before.joins:
            return claim(self, before, after, stale_after)
        self.claim_unseen(before, after, stale_after)
        return True

    def unseen(self: Any, before: SagaState, after: SagaState, stale_after: float) -> None:
        update = self._move(before, after, "attribute_exists(saga_id)", stale_after)
        self._tables.connection.dispatch("UpdateItem", update)

    with patch.object(ControlItems, "claim", unleased), patch.object(ControlItems, "claim_unseen", unseen, create=True):
        yield


@_rule("a step is undone when all that was handed out is over", Orders("chained: two children and a cancel"))
def _closing_ends_early() -> Generator[None]:
    tally = cast("Any", joins.Joins).tally

    def hasty(self: Any, parent: str, step: str, rounds: Any, children: int) -> Tally:
        found = tally(self, parent, step, rounds, children)
        found[FORWARD, NEVER] += max(0, children - found.ended)
        return found

    with within((Children, "_undone"), (joins.Joins, "tally"), hasty):
        yield
