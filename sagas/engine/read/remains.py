"""Sagas that can only be read: they were purged, or their control item was deleted or lost in a restore."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise, takewhile
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import replace

from sagas.core.events import FACTS, NOT_OWED, DeadLetterCause, Fact, MessageResent
from sagas.core.states import ENDED, Attempts, Cancel, Purge, SagaState, SagaStatus, StepState, StepStatus
from sagas.core.text import iso
from sagas.engine.registry import SagaType
from sagas.errors import TypeChanged
from sagas.store.journal.entries import RESULTS, Entry
from sagas.store.journal.journal import Journal

PURGED = "SagaPurged"
"""The last action in the audit trail of a purged saga. The tombstone records it, so it has no separate entry."""

_ENDS = {name: kind.leaves for name, kind in FACTS.items() if kind.leaves is not None}
_GIVEN_UP = ("CompensationStarted", "SagaFailed", "StepDeadLettered")
_SETTLING = ("SagaResolved", "SagaRetried", "CompensationStarted")
_FORWARD = (SagaStatus.RUNNING, SagaStatus.WAITING)
_BACKWARD = (StepStatus.COMPENSATED, StepStatus.COMPENSATION_FAILED)


class ReadOnlySaga(Struct, frozen=True):
    """A saga without a control item, as its journal shows it.

    Args:
        state: the saga's last state.
        entries: the saga's audit trail. If the saga was purged, the entries lack payloads and details, and the last one
            is the purge.
        purge: the time and the reason of the purge; ``None`` if only the control item is missing.
        objects: bucket and key of the first S3 objects that the results of a purged saga named.
        more_objects: the number of further objects that the results named.
        hidden: for a purged saga, ``request`` and the steps whose values had hidden parts.
    """

    state: SagaState
    entries: tuple[Entry, ...]
    purge: Purge | None
    objects: tuple[tuple[str, str], ...] = ()
    more_objects: int = 0
    hidden: tuple[str, ...] = ()


class Remains(Struct, frozen=True):
    """Reads sagas without a control item from the journal."""

    journal: Journal

    def of(self, saga_id: str) -> ReadOnlySaga | None:
        """Return a saga; ``None`` if it has no entries, or its start was never completed."""
        first = self.journal.entries(saga_id, [1]).get(1)
        return None if first is None else self.behind(first)

    def behind(self, first: Entry) -> ReadOnlySaga | None:
        """Return the saga that a first entry belongs to; ``None`` as for :meth:`of`.

        A saga with a second entry was claimed, so it had a control item. If the item is missing, the saga can be read
        but must not run again, because only the journal says what its steps have done.
        """
        if first.tombstone is None:
            entries = self.journal.history(first.saga_id)
            if len(entries) < 2:
                return None
            steps = SagaType.steps_recorded(first.details)
            return ReadOnlySaga(_folded(entries, steps), tuple(entries), None)
        state = first.tombstone.state
        purge = first.tombstone.purge
        plain = replace(first, tombstone=None, details={})
        entries = [
            replace(
                plain,
                seq=action.seq,
                at=action.at,
                action=action.action,
                step=action.step,
                attempt=action.attempt,
                status=action.status,
                actor=action.actor,
            )
            for action in first.tombstone.actions
        ]
        last = replace(
            plain,
            seq=entries[-1].seq + 1,
            at=purge.at,
            action=PURGED,
            status=state.status.value,
            actor=purge.by,
            details={"reason": purge.reason},
        )
        kept = first.tombstone
        return ReadOnlySaga(state, (*entries, last), purge, kept.objects, kept.more_objects, kept.hidden)


def _folded(entries: Sequence[Entry], steps: Sequence[StepState]) -> SagaState:
    """Compute from a saga's whole journal as much of its state as readers need."""
    first = entries[0]
    last = entries[-1]
    by_name = {step.name: step for step in steps}
    settling = next((entry for entry in reversed(entries) if entry.action in _SETTLING), None)
    ended = [*takewhile(lambda entry: entry.status in ENDED, reversed(entries))]
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
        ended_at=ended[-1].at if ended else 0.0,
        resolution_seq=settling.seq if settling and settling.action == "SagaResolved" else 0,
    )
    # A message that was sent again does not show what became of the attempt before it.
    moves = [entry for entry in entries if not issubclass(FACTS.get(entry.action, Fact), MessageResent)]
    followed = {entry.seq: following.action for entry, following in pairwise(moves)}
    for entry in entries:
        again = _runs_again(entry, followed.get(entry.seq))
        _fold_steps(by_name, entry, again=again)
        if entry.action in ("CancelRequested", "SagaTimedOut") and "pivot" not in entry.details:
            state = structs.replace(state, cancel=Cancel(entry.at, entry.actor))
        if entry.action == "CompensationStarted":
            state = structs.replace(state, cause=str(entry.details.get("cause", "")))
        error = entry.details.get("error", {}).get("type", "")
        if error and _ENDS.get(entry.action) not in _BACKWARD and not again and not _keeps_forward(entry):
            state = structs.replace(state, error_seq=entry.seq)
        elif _settles_error(entry):
            state = structs.replace(state, error_seq=0)
    return structs.replace(state, steps=tuple(by_name.values()))


def _settles_error(entry: Entry) -> bool:
    """Whether an earlier error is of no account any more: a step has a result, or is retried."""
    return entry.action in RESULTS or (entry.action == "SagaRetried" and entry.status in _FORWARD)


def _keeps_forward(entry: Entry) -> bool:
    """Whether a saga still goes forward after an error: a deadline after the pivot, or a step that has not failed."""
    if entry.action == "SagaTimedOut":
        return "pivot" in entry.details
    return entry.action == "StepDeadLettered" and not DeadLetterCause(entry.details["cause"]).fails_step


def _runs_again(entry: Entry, following: str | None) -> bool:
    """Whether the failed attempt of an entry was going to be retried. ``following`` is the action after the entry."""
    if entry.action == "StepLost":
        return following not in _GIVEN_UP
    return entry.action == "StepFailed" and bool(entry.details.get("next_attempt_at"))


def _fold_steps(by_name: dict[str, StepState], entry: Entry, *, again: bool) -> None:
    """Apply an entry to the steps. ``again``: another attempt follows the failed one."""
    if entry.step is not None and entry.action in _ENDS:
        by_name[entry.step] = _after(by_name.get(entry.step, StepState(entry.step)), entry, again=again)
    if looked := entry.details.get("looked"):  # polls with equal answers share one entry
        step = by_name[looked["step"]]
        by_name[step.name] = structs.replace(step, attempts=_at_least(step.attempts, int(looked["attempts"])))
    if entry.action == "CompensationStarted":
        # A step that was still waiting has failed.
        waiting = {name: step for name, step in by_name.items() if step.status is StepStatus.WAITING}
        by_name |= {name: structs.replace(step, status=StepStatus.FAILED) for name, step in waiting.items()}
    for name in entry.details.get("in_doubt", ()):
        by_name[name] = structs.replace(by_name[name], outcome_unknown=True)
    if entry.action == "SagaResolved":
        for name in entry.details.get("undone_by_hand", ()):
            by_hand = by_name.get(name, StepState(name))
            by_name[name] = structs.replace(by_hand, status=StepStatus.COMPENSATED, outcome_unknown=False)


def _after(step: StepState, entry: Entry, *, again: bool) -> StepState:
    """Return a step as ``entry``, which ended an attempt or a wait of it, left it."""
    status = _ENDS[entry.action]
    attempt = entry.attempt or 0
    if entry.action == "SagaRecoveryExhausted" and entry.status != SagaStatus.COMPENSATION_FAILED:
        return step  # only going forward was given up: other entries have the step's outcome
    error: dict[str, Any] = entry.details.get("error") or {}
    if entry.action == "ChildrenEnded" and error:
        status = StepStatus.FAILED
    if error.get("type") == TypeChanged.__name__ or not_called(entry):
        attempt -= 1  # no code was called, so the attempt does not count
    if entry.action == "StepSkipped" and attempt > 0:
        status = StepStatus.FAILED  # an earlier attempt has begun
    if entry.details.get("because") == NOT_OWED:
        return structs.replace(step, status=StepStatus.FAILED)  # its undo is not owed
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


def not_called(entry: Entry) -> bool:
    """Whether an entry says that a step or an undo was claimed, and its code was not called."""
    skipped = entry.action == "StepSkipped"
    return skipped or bool(entry.details.get("because") or entry.details.get("settling"))


def _at_least(attempts: Attempts, made: int) -> Attempts:
    return Attempts(max(attempts.made, made), attempts.at_grant)


def why_read_only(state: SagaState, purge: Purge | None) -> str:
    """Return why a saga that was purged, or whose control item is missing, can only be read."""
    if purge is None:
        return f"the saga is {state.status} and its control item is missing; it can only be read"
    why = f" ({purge.reason})" if purge.reason else ""
    return f"the saga is {state.status} and was purged at {iso(purge.at)}{why}; it can only be read"
