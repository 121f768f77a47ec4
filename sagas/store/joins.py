"""Joins: the outcomes of a step's children, in a separate table.

Each child has one write-once outcome per phase: ``f`` when it first ends, and ``u1``, ``u2`` and so on when it is
undone for its parent. Counters next to them count the outcomes. First ends use only as many counters as the concurrency
of the children needs, because each end reads all counters. Undos use 16, because all children may end at once. The
transaction that ends a child writes both its outcome and its count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, cast

from msgspec import Struct
from pynamodb.pagination import ResultIterator

from sagas.core.ids import counters
from sagas.core.states import COUNTERS, Parent, SagaState, SagaStatus, StepState
from sagas.core.text import epoch, iso
from sagas.store.connection import Refused, placeholders
from sagas.store.control.mapping import Item, attributes_of, number_in
from sagas.store.tables import StoreSettings, Tables

FORWARD = "f"
"""The phase in which children first end."""
COMPLETED = "completed"
FAILED = "failed"
STUCK = "stuck"
UNDONE = "undone"
NEVER = "never"
CARRIED = "carried"
"""The possible outcomes of a child: COMPLETED; FAILED; COMPENSATION_FAILED; COMPENSATED or CANCELLED; never started; or
COMPLETED in an earlier round."""
STANDING = (COMPLETED, FAILED, STUCK)
"""Outcomes that leave something to undo."""

_HOW = {
    SagaStatus.COMPLETED: COMPLETED,
    SagaStatus.FAILED: FAILED,
    SagaStatus.COMPENSATION_FAILED: STUCK,
    SagaStatus.COMPENSATED: UNDONE,
    SagaStatus.CANCELLED: UNDONE,
}


class ChildOutcome(Struct, frozen=True):
    """The outcome of one child in one phase.

    Args:
        position: the child's position in its step.
        how: the outcome, one of those above.
        seq: the number of the journal entry with the error that ended its forward phase; 0 if there is none.
        round: the round in which the child was started.
        at: epoch seconds.
    """

    position: int
    how: str
    seq: int = 0
    round: int = 0
    at: float = 0.0


class Tally(Counter[tuple[str, str]]):
    """The numbers of a step's children that have ended, by phase and outcome."""

    @property
    def ended(self) -> int:
        """The number of children that have ended in the forward phase."""
        return sum(count for (phase, _), count in self.items() if phase == FORWARD)

    @property
    def completed(self) -> int:
        """The number of COMPLETED children, from any round."""
        return self[FORWARD, COMPLETED] + self[FORWARD, CARRIED]

    @property
    def standing(self) -> int:
        """The number of children that have something to undo."""
        return sum(self[FORWARD, how] for how in STANDING)

    def undone(self, number: int) -> int:
        """The number of children whose undo has ended, in an undo of the step."""
        return self[undoing(number), UNDONE] + self[undoing(number), STUCK]


def undoing(number: int) -> str:
    """Return the phase of an undo of the parent's step. ``number``: from 1."""
    return f"u{number}"


def phase_of(child: SagaState) -> str:
    """Return the phase in which a child ends."""
    return undoing(child.order.number) if child.order else FORWARD


def outcome_of(before: SagaState, after: SagaState) -> tuple[str, ChildOutcome] | None:
    """Return the phase and outcome of a child that a commit ends; ``None`` for any other commit."""
    changed = before.status is not after.status or before.order != after.order
    if after.parent is None or not after.ended or not changed:
        return None
    parent = after.parent
    how = _HOW[after.status]
    return phase_of(after), ChildOutcome(parent.position, how, after.error_seq, parent.round, after.updated_at)


def join_writes(table: str, before: SagaState, after: SagaState) -> list[Item]:
    """Return the writes to the join for a commit that ends a child; none for any other commit."""
    ended = outcome_of(before, after)
    parent = after.parent
    if not table or ended is None or parent is None:
        return []
    return _writes(table, parent, *ended)


def _writes(table: str, parent: Parent, phase: str, outcome: ChildOutcome) -> list[Item]:
    """Return the writes of an outcome and its count. They are refused if the child has an outcome."""
    join = parent.saga_id, parent.step, parent.round
    item = attributes_of(
        {
            "join": _join(*join),
            "part": f"{phase}#{outcome.position:05d}",
            "how": outcome.how,
            "seq": outcome.seq or None,
            "round": outcome.round or None,
            "at": iso(outcome.at),
        }
    )
    count = f"{phase}_{outcome.how}"
    put = {"TableName": table, "Item": item, "ConditionExpression": "attribute_not_exists(part)"}
    add = {
        "TableName": table,
        "Key": _key(*join, _counter(outcome.position % (parent.counters if phase == FORWARD else COUNTERS))),
        "UpdateExpression": f"ADD #{count} :one",
        "ExpressionAttributeNames": placeholders(f"#{count}")[0],
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    return [{"Put": put}, {"Update": add}]


class Joins:
    """The outcomes of children, by parent, step, round and phase."""

    def __init__(self, tables: Tables, settings: StoreSettings) -> None:
        self._tables = tables
        self._table = settings.joins_table

    def record(self, parent: Parent, phase: str, outcome: ChildOutcome) -> bool:
        """Write an outcome on behalf of a child. Return ``False`` if the child already has an outcome."""
        writes = _writes(self._table, parent, phase, outcome)
        try:
            self._tables.connection.dispatch("TransactWriteItems", {"TransactItems": writes})
        except Refused:
            return False
        return True

    def tally(self, parent: str, step: str, rounds: Iterable[int], children: int, counters: int = COUNTERS) -> Tally:
        """Count the outcomes of a step's children, by consistent reads."""
        parts = [_counter(number) for number in range(min(counters, children))]
        keys = [_key(parent, step, round_, part) for round_ in rounds for part in parts]
        tally = Tally()
        for item in self._tables.connection.get_many(self._table, keys, consistent=True):
            for name, value in item.items():
                phase, _, how = name.partition("_")
                if how:
                    tally[phase, how] += int(value["N"])
        return tally

    def first_ends(self, parent: str, step: StepState) -> Tally:
        """Count the first ends of a step's children in its current round, by consistent reads of the counters."""
        return self.tally(parent, step.name, [step.round], step.fan_out.children, counters(step))

    def outcomes(self, parent: str, step: str, round_: int, phase: str) -> dict[int, ChildOutcome]:
        """Return the outcomes of a step's children in one phase, by position, by a consistent read."""
        query = cast("Any", self._tables.connection).query
        part = self._tables.join.part.startswith(f"{phase}#")
        options = {"range_key_condition": part, "consistent_read": True}
        items: Sequence[Item] = list(ResultIterator(query, (self._table, _join(parent, step, round_)), options))
        outcomes = (
            ChildOutcome(
                int(item["part"]["S"].partition("#")[2]),
                item["how"]["S"],
                number_in(item, "seq"),
                number_in(item, "round"),
                epoch(item["at"]["S"]),
            )
            for item in items
        )
        return {outcome.position: outcome for outcome in outcomes}

    def delete(self, parent: str, step: str, round_: int) -> None:
        """Delete all outcomes and counts of a step's children. Missing items count as deleted."""
        query = cast("Any", self._tables.connection).query
        options = {"consistent_read": True}  # otherwise the latest items might stay for good
        items: list[Item] = list(ResultIterator(query, (self._table, _join(parent, step, round_)), options))
        keys = [{"join": item["join"], "part": item["part"]} for item in items]
        self._tables.connection.delete_many(self._table, keys)


def _join(parent: str, step: str, round_: int) -> str:
    return f"{parent}#{step}#{round_}"


def _counter(number: int) -> str:
    return f"sum#{number:02d}"


def _key(parent: str, step: str, round_: int, part: str) -> Item:
    return attributes_of({"join": _join(parent, step, round_), "part": part})
