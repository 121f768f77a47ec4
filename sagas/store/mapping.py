"""Control items as states and back. Only what differs from its default is stored, and only what changed is written."""

from __future__ import annotations

import hashlib
import math
from typing import Any

from sagas.core.rules import patient_until
from sagas.core.states import OVER, DeadLetter, Lease, Progress, SagaState, SagaStatus, StepState, StepStatus
from sagas.core.times import epoch, iso
from sagas.store.settings import StoreSettings
from sagas.store.tables import DeadAttribute, StepAttribute

_TIMES = ("not_before", "lost_until", "cancel_requested_at", "attention")
_PLAIN = (
    "rejected",
    "failed",
    "cause",
    "cancelling",
    "cancel_requested_by",
    "recovery_attempts",
    "recovery_exhausted",
    "error_seq",
    "resolution_seq",
)
ATTENTION = "attention"
"""The shard of the index ``open`` that holds the sagas which need a person."""


def shard_of(saga_id: str, shards: int) -> int:
    """Return the shard of a saga: index partitions take a thousand writes a second each."""
    return int.from_bytes(hashlib.sha256(saga_id.encode()).digest()[:4]) % shards


def due_at(state: SagaState, stale_after: float) -> float:
    """When the supervisor should look at the saga.

    Rounded up to a multiple of ``stale_after``, so that a short saga writes the index at its start and its end only.
    """
    lease = state.lease.expires_at if state.lease else 0.0
    return math.ceil(max(patient_until(state, stale_after), lease + stale_after) / stale_after) * stale_after


def step_of(step: StepState) -> StepAttribute:
    """Return the stored form of one step."""
    return StepAttribute(
        name=step.name,
        status=step.status.value,
        attempts=step.attempts,
        granted=step.attempts_at_grant or None,
        undo_attempts=step.undo_attempts or None,
        undo_granted=step.undo_attempts_at_grant or None,
        seq=step.result_seq or None,
        lost=step.outcome_unknown or None,
        undo=step.undo or None,
    )


def _index_keys(state: SagaState, settings: StoreSettings, stale_after: float) -> dict[str, Any]:
    waiting = state.status is SagaStatus.DEAD_LETTERED and not state.cancel_requested_at
    if state.attention and (state.over or waiting):
        return {"open_shard": ATTENTION, "due": iso(state.attention)}
    if state.over:
        return {"open_shard": None, "due": None}
    shard = shard_of(state.saga_id, settings.shards)
    return {"open_shard": str(shard), "due": iso(due_at(state, stale_after))}


def _lease(state: SagaState) -> dict[str, Any]:
    lease = state.lease
    if lease is None:
        return {"lease_owner": None, "lease_expires_at": None, "act_until": None}
    return {
        "lease_owner": lease.owner,
        "lease_expires_at": iso(lease.expires_at),
        "act_until": iso(lease.act_until),
    }


def _expiry(state: SagaState, settings: StoreSettings) -> int | None:
    finished = state.status in OVER and not state.attention and state.saga not in settings.never_expiring
    return math.ceil(state.updated_at + settings.retention) if finished and settings.retention else None


def attributes_of(state: SagaState, settings: StoreSettings, stale_after: float) -> dict[str, Any]:
    """Return every attribute of a control item but its key; ``None`` for those it does not have."""
    values: dict[str, Any] = {
        "saga": state.saga,
        "version": state.version,
        "correlation_id": state.correlation_id if state.correlation_id != state.saga_id else None,
        "status": state.status.value,
        "steps": state.steps,
        "cursor": state.cursor,
        "seq": state.seq,
        "token": state.token,
        "dispatch": state.dispatch,
        "dead": _dead_of(state.dead),
        "created_at": iso(state.created_at),
        "updated_at": iso(state.updated_at),
        "name_shard": f"{state.saga}#{shard_of(state.saga_id, settings.shards)}",
        "expires_at": _expiry(state, settings),
    }
    values |= {name: getattr(state, name) or None for name in _PLAIN}
    values |= {name: iso(getattr(state, name)) if getattr(state, name) else None for name in _TIMES}
    return values | _lease(state) | _index_keys(state, settings, stale_after)


def _dead_of(dead: DeadLetter | None) -> DeadAttribute | None:
    if dead is None:
        return None
    return DeadAttribute(dispatch=dead.dispatch, hops=dead.hops, message_id=dead.message_id)


def _time(text: str | None) -> float:
    return epoch(text) if text else 0.0


def _step_state(item: Any) -> StepState:
    return StepState(
        name=item.name,
        status=StepStatus(item.status),
        attempts=int(item.attempts or 0),
        attempts_at_grant=int(item.granted or 0),
        undo_attempts=int(item.undo_attempts or 0),
        undo_attempts_at_grant=int(item.undo_granted or 0),
        result_seq=int(item.seq or 0),
        outcome_unknown=bool(item.lost),
        undo=bool(item.undo),
    )


def _lease_of(item: Any) -> Lease | None:
    if not item.lease_owner:
        return None
    return Lease(item.lease_owner, epoch(item.lease_expires_at), epoch(item.act_until))


def progress_of(progress: Progress) -> dict[str, Any]:
    """Return the stored form of a progress."""
    return {"fraction": progress.fraction, "message": progress.message, "at": iso(progress.at)}


def _progress(stored: dict[str, Any] | None) -> Progress | None:
    return Progress(float(stored["fraction"]), stored["message"], epoch(stored["at"])) if stored else None


def state_of(item: Any) -> SagaState:
    """Return the state that a control item holds."""
    dead = item.dead
    return SagaState(
        saga_id=item.saga_id,
        saga=item.saga,
        version=item.version,
        correlation_id=item.correlation_id or item.saga_id,
        status=SagaStatus(item.status),
        steps=tuple(_step_state(step) for step in item.steps),
        cursor=int(item.cursor),
        seq=int(item.seq),
        token=int(item.token),
        dispatch=int(item.dispatch),
        lease=_lease_of(item),
        cancelling=bool(item.cancelling),
        cancel_requested_by=item.cancel_requested_by or "",
        rejected=bool(item.rejected),
        failed=bool(item.failed),
        cause=item.cause or "",
        recovery_attempts=int(item.recovery_attempts or 0),
        recovery_exhausted=bool(item.recovery_exhausted),
        dead=DeadLetter(int(dead.dispatch), int(dead.hops), dead.message_id) if dead else None,
        error_seq=int(item.error_seq or 0),
        resolution_seq=int(item.resolution_seq or 0),
        created_at=epoch(item.created_at),
        updated_at=epoch(item.updated_at),
        not_before=_time(item.not_before),
        lost_until=_time(item.lost_until),
        cancel_requested_at=_time(item.cancel_requested_at),
        attention=_time(item.attention),
        progress=_progress(item.progress),
    )
