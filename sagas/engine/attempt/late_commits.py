"""Outcomes that could not be committed: they wait in their step's queue until the store is reachable again.

A message with a pending commit replaces the message of its attempt, with the same dispatch number, as another copy.
Once the outcome is committed, or the lease was taken over, it is an ordinary message again.
"""

from __future__ import annotations

from dataclasses import replace

from sagas.core import events as ev
from sagas.core.commands import Postpone
from sagas.core.states import SagaState
from sagas.engine.clock import Clock
from sagas.messaging.limits import backoff
from sagas.messaging.message.message import Message
from sagas.messaging.message.pending_commit import PendingCommit
from sagas.store.journal.entries import Entry, fact_of

LARGEST_BODY = 1_000_000
"""Bytes of a message's body. SQS accepts 1 MiB with the attributes."""
_LONGEST_PAUSE = 30.0
"""Seconds between two tries: less than the supervisor needs to find the expired lease."""


def with_pending(message: Message, pending: PendingCommit) -> Message | None:
    """Return the message that replaces ``message``; ``None`` if it is too large to be sent."""
    copy = replace(message, pending_commit=pending, hops=message.hops + 1)
    return copy if len(copy.body.encode()) <= LARGEST_BODY else None


def comes_back(message: Message, clock: Clock) -> Postpone:
    """Postpone a message with a pending commit, longer each time, with jitter."""
    tries = message.receives + message.hops
    return Postpone(clock.now() + backoff(tries, clock.chance(), _LONGEST_PAUSE))


def pending_fact(state: SagaState, message: Message, pending: PendingCommit) -> ev.Fact | None:
    """Return the fact to commit, if it still counts: its claim holds, expired or not, and no entry followed."""
    step, lease = state.current, state.lease
    if step is None or lease is None or lease.owner != pending.owner:
        return None
    attempt = step.undo_attempts.made if message.undo else step.attempts.made
    claimed = (state.token, state.seq, state.cursor, step.name, state.undoing, attempt)
    if claimed != (pending.token, pending.seq, message.index, message.step, message.undo, pending.attempt):
        return None
    entry = Entry(
        saga_id=state.saga_id,
        seq=pending.seq + 1,
        at=state.updated_at,
        saga=state.saga,
        action=pending.action,
        status=state.status.value,
        token=pending.token,
        attempt=pending.attempt,
        details=pending.details,
    )
    return fact_of(entry, message.index)
