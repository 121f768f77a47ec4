"""What is left of sagas that have no control item any more: they were purged, or somebody deleted it, or a restore lost
it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise, takewhile
from typing import Any

from msgspec import structs

from sagas.core.events import FACTS, DeadLetterCause
from sagas.core.states import OVER, Attempts, Cancel, Purge, SagaState, SagaStatus, StepState, StepStatus
from sagas.core.text import iso
from sagas.engine.registry import Registry
from sagas.errors import TypeChanged
from sagas.store.journal.entries import RESULTS, Entry
from sagas.store.journal.journal import Journal

PURGED = "SagaPurged"
"""The last action in the audit trail of a purged saga. It is in no entry of its own: the tombstone tells it."""

_ENDS = {name: kind.leaves for name, kind in FACTS.items() if kind.leaves is not None}
_GIVEN_UP = ("CompensationStarted", "SagaFailed", "StepDeadLettered")
_SETTLING = ("SagaResolved", "SagaRetried", "CompensationStarted")
_BACKWARD = (StepStatus.COMPENSATED, StepStatus.COMPENSATION_FAILED)


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a saga.

    Args:
        state: the saga, as it was in the end.
        entries: its audit trail; of a purged saga without payloads and details, and ending with its purge.
        purge: when and why it was purged; ``None`` when only its control item is gone.
        objects: bucket and key of the first objects in S3 that the results of a purged saga named.
        more_objects: how many more they named.
    """

    state: SagaState
    entries: tuple[Entry, ...]
    purge: Purge | None
    objects: tuple[tuple[str, str], ...] = ()
    more_objects: int = 0


@dataclass(frozen=True, slots=True)
class Remains:
    """Finds what the journal still has of sagas without a control item."""

    registry: Registry
    journal: Journal

    def of(self, saga_id: str) -> Left | None:
        """Return what is left of a saga; ``None`` when nothing is, or when its start was never finished."""
        first = self.journal.entries(saga_id, [1]).get(1)
        return None if first is None else self.behind(first)

    def behind(self, first: Entry) -> Left | None:
        """Likewise, given the saga's first entry.

        A saga that has a second entry was claimed once, so it had a control item. Where that is missing, the saga can
        be read, and must not run again: what its steps did is known by its journal only.
        """
        if first.tombstone is None:
            entries = self.journal.history(first.saga_id)
            if len(entries) < 2:
                return None
            steps = self.registry.get(first.saga).steps_recorded(first.details)
            return Left(_folded(entries, steps), tuple(entries), None)
        state, purge = first.tombstone.state, first.tombstone.purge
        plain = replace(first, tombstone=None, details={})
        left = [
            replace(
                plain,
                seq=one.seq,
                at=one.at,
                action=one.action,
                step=one.step,
                attempt=one.attempt,
                status=one.status,
                actor=one.actor,
            )
            for one in first.tombstone.actions
        ]
        last = replace(
            plain,
            seq=left[-1].seq + 1,
            at=purge.at,
            action=PURGED,
            status=state.status.value,
            actor=purge.by,
            details={"reason": purge.reason},
        )
        return Left(state, (*left, last), purge, first.tombstone.objects, first.tombstone.more_objects)


def _folded(entries: Sequence[Entry], steps: Sequence[StepState]) -> SagaState:
    """The saga that a whole journal tells of, as far as readers ask."""
    first, last = entries[0], entries[-1]
    known = {step.name: step for step in steps}
    settling = next((entry for entry in reversed(entries) if entry.action in _SETTLING), None)
    over = [*takewhile(lambda entry: entry.status in OVER, reversed(entries))]
    state = SagaState(
        saga_id=first.saga_id,
        saga=first.saga,
        version=str(first.details.get("version", "")),
        steps=(),
        correlation_id=first.correlation_id,
        status=SagaStatus(last.status),
        seq=last.seq,
        head=reduce(lambda head, entry: entry.hash_after(head), entries, b""),
        created_at=first.at,
        updated_at=last.at,
        ended_at=over[-1].at if over else 0.0,
        resolution_seq=settling.seq if settling and settling.action == "SagaResolved" else 0,
    )
    moves = [entry for entry in entries if entry.action != "SagaRecovered"]  # a message that is sent anew says nothing
    followed = {entry.seq: following.action for entry, following in pairwise(moves)}
    for entry in entries:
        again = _runs_again(entry, followed.get(entry.seq))
        _fold_steps(known, entry, again=again)
        if entry.action in ("CancelRequested", "SagaTimedOut") and "pivot" not in entry.details:
            state = structs.replace(state, cancel=Cancel(entry.at, entry.actor))
        if entry.action == "CompensationStarted":
            state = structs.replace(state, cause=str(entry.details.get("cause", "")))
        error = entry.details.get("error", {}).get("type", "")
        if error and _ENDS.get(entry.action) not in _BACKWARD and not again and not _keeps_forward(entry):
            state = structs.replace(state, error_seq=entry.seq)
        elif entry.action in RESULTS:
            state = structs.replace(state, error_seq=0)
    return structs.replace(state, steps=tuple(known.values()))


def _keeps_forward(entry: Entry) -> bool:
    """Whether an error leaves the way forward open: a deadline past the pivot, or a step that has not failed by it."""
    if entry.action == "SagaTimedOut":
        return "pivot" in entry.details
    return entry.action == "StepDeadLettered" and not DeadLetterCause(entry.details["cause"]).fails_step


def _runs_again(entry: Entry, following: str | None) -> bool:
    """Whether an execution that failed was to be followed by another. ``following``: the action after the entry."""
    if entry.action == "StepLost":
        return following not in _GIVEN_UP
    return entry.action == "StepFailed" and bool(entry.details.get("next_attempt_at"))


def _fold_steps(known: dict[str, StepState], entry: Entry, *, again: bool) -> None:
    """Bring the steps to where they are after an entry. ``again``: another execution follows the one that failed."""
    if entry.step is not None and entry.action in _ENDS:
        known[entry.step] = _after(known.get(entry.step, StepState(entry.step)), entry, again=again)
    if looked := entry.details.get("looked"):  # looks that said the same have no entries of their own
        step = known[looked["step"]]
        known[step.name] = structs.replace(step, attempts=_at_least(step.attempts, int(looked["attempts"])))
    if entry.action == "CompensationStarted":
        # A wait that brought nothing has failed.
        waiting = {name: step for name, step in known.items() if step.status is StepStatus.WAITING}
        known |= {name: structs.replace(step, status=StepStatus.FAILED) for name, step in waiting.items()}
    if entry.action == "SagaResolved":
        for name in entry.details.get("undone_by_hand", ()):
            by_hand = known.get(name, StepState(name))
            known[name] = structs.replace(by_hand, status=StepStatus.COMPENSATED, outcome_unknown=False)


def _after(step: StepState, entry: Entry, *, again: bool) -> StepState:
    """The step after an entry about it."""
    status, attempt = _ENDS[entry.action], entry.attempt or 0
    if entry.action == "SagaRecoveryExhausted" and entry.status != SagaStatus.COMPENSATION_FAILED:
        return step  # it gave up the forward way: what became of the step other entries say
    error: dict[str, Any] = entry.details.get("error") or {}
    if entry.action == "ChildrenEnded" and error:
        status = StepStatus.FAILED
    if error.get("type") == TypeChanged.__name__:
        attempt -= 1  # no code was called, and the attempt given back
    if status in _BACKWARD:
        unknown = step.outcome_unknown and status is not StepStatus.COMPENSATED
        undos = _at_least(step.undo_attempts, attempt)
        return structs.replace(step, status=status, undo_attempts=undos, outcome_unknown=unknown)
    doubt = entry.action == "StepLost" or bool(entry.details.get("outcome_unknown"))
    settled = status is StepStatus.COMPLETED or entry.action in ("WaitStarted", "ChildrenStarted")
    unknown = doubt or (step.outcome_unknown and not settled)
    return structs.replace(
        step,
        status=StepStatus.RETRYING if again else status,
        attempts=_at_least(step.attempts, attempt),
        result_seq=entry.seq if status is StepStatus.COMPLETED else step.result_seq,
        outcome_unknown=unknown,
    )


def _at_least(attempts: Attempts, made: int) -> Attempts:
    return Attempts(max(attempts.made, made), attempts.at_grant)


def told(state: SagaState, purge: Purge | None) -> str:
    """Say in a line why nothing can be done to a saga that was purged, or whose control item is missing."""
    if purge is None:
        return f"the saga is {state.status} and its control item is missing: it can only be read"
    why = f" ({purge.reason})" if purge.reason else ""
    return f"the saga is {state.status} and was purged at {iso(purge.at)}{why}: it can only be read"
