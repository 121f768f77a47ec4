"""What becomes of children, and how it is counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sagas.core.states import SagaState, SagaStatus

FORWARD = "f"
"""The phase in which children end first."""
COMPLETED, FAILED, STUCK, UNDONE, NEVER, CARRIED = "completed", "failed", "stuck", "undone", "never", "carried"
"""What may become of a child: COMPLETED; FAILED; COMPENSATION_FAILED; COMPENSATED or CANCELLED; it was not started; or
it is COMPLETED since an earlier round."""
STANDING = (COMPLETED, FAILED, STUCK)
"""Outcomes of which something is left to undo."""

_HOW = {
    SagaStatus.COMPLETED: COMPLETED,
    SagaStatus.FAILED: FAILED,
    SagaStatus.COMPENSATION_FAILED: STUCK,
    SagaStatus.COMPENSATED: UNDONE,
    SagaStatus.CANCELLED: UNDONE,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one child in one phase.

    Args:
        position: which child of its step.
        how: one of the names above.
        seq: its journal entry of the error that ended its forward way; 0 for none.
        round: in which it was started.
        at: epoch seconds.
    """

    position: int
    how: str
    seq: int = 0
    round: int = 0
    at: float = 0.0


class Tally(Counter[tuple[str, str]]):
    """How many children of a step there are, by phase and what became of them."""

    @property
    def ended(self) -> int:
        """How many are over in the forward phase."""
        return sum(count for (phase, _), count in self.items() if phase == FORWARD)

    @property
    def completed(self) -> int:
        """How many are COMPLETED, in whatever round."""
        return self[FORWARD, COMPLETED] + self[FORWARD, CARRIED]

    @property
    def standing(self) -> int:
        """Of how many something is left to undo."""
        return sum(self[FORWARD, how] for how in STANDING)

    def undone(self, number: int) -> int:
        """How many are over in an undoing."""
        return self[undoing(number), UNDONE] + self[undoing(number), STUCK]


def undoing(number: int) -> str:
    """Return the phase of an undoing of the parent's step, from 1."""
    return f"u{number}"


def phase_of(child: SagaState) -> str:
    """Return the phase in which a child ends."""
    return undoing(child.order.number) if child.order else FORWARD


def outcome_of(before: SagaState, after: SagaState) -> tuple[str, Outcome] | None:
    """Return what a commit makes of a child, and in which phase; ``None`` if it does not end one."""
    turned = before.status is not after.status or before.order != after.order
    if after.parent is None or not after.over or not turned:
        return None
    parent, how = after.parent, _HOW[after.status]
    return phase_of(after), Outcome(parent.position, how, after.error_seq, parent.round, after.updated_at)
