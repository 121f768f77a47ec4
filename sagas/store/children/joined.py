"""The outcomes of children, and their counts."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from sagas.core.states import SagaState, SagaStatus

FORWARD = "f"
"""The phase in which children first end."""
COMPLETED, FAILED, STUCK, UNDONE, NEVER, CARRIED = "completed", "failed", "stuck", "undone", "never", "carried"
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
    parent, how = after.parent, _HOW[after.status]
    return phase_of(after), ChildOutcome(parent.position, how, after.error_seq, parent.round, after.updated_at)
