"""Outcomes that could not be committed. They wait in their step's queue until the store is reachable again.

A message with a pending commit is a copy of the attempt's message, with the same dispatch number, and replaces it. Once
the outcome is committed, or the lease is taken over, it is an ordinary message again.
"""

from __future__ import annotations

from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.commands import Postpone
from sagas.core.states import SagaState
from sagas.engine.clock import Clock
from sagas.messaging.limits import backoff
from sagas.messaging.message.message import Message
from sagas.messaging.message.pending_commit import PendingCommit
from sagas.store.journal.entries import Entry, fact_of

LARGEST_BODY = 1_000_000
"""Maximum bytes of a message's body. SQS accepts 1 MiB, including the attributes."""
_LONGEST_PAUSE = 30.0
"""Maximum seconds between two tries. The supervisor needs longer to find an expired lease."""


def with_pending(message: Message, pending: PendingCommit) -> Message | None:
    """Return the message that replaces ``message``; ``None`` if that would be too large to send."""
    copy = replace(message, pending_commit=pending, hops=message.hops + 1)
    return copy if len(copy.body.encode()) <= LARGEST_BODY else None


def comes_back(message: Message, clock: Clock) -> Postpone:
    """Postpone a message with a pending commit, each time for longer, with jitter."""
    tries = message.receives + message.hops
    return Postpone(clock.now() + backoff(tries, clock.chance(), _LONGEST_PAUSE))


def pending_fact(state: SagaState, message: Message, pending: PendingCommit) -> ev.Fact | None:
    """Return the fact to commit; ``None`` if it no longer counts. The fact counts if nobody has taken over its lease,
    even an expired one, and the journal has no later entry."""
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
