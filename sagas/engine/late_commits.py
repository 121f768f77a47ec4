"""Outcomes that could not be committed: they wait in their step's queue until the store is within reach again."""

from __future__ import annotations

from dataclasses import replace

from sagas.core import events as ev
from sagas.core.states import DeadLetter, SagaState
from sagas.engine.attempt import Tools
from sagas.engine.committer import Committed, EntryContext
from sagas.engine.outcome import Later
from sagas.engine.ports import MessageSender
from sagas.engine.registry import SagaType, plan_for
from sagas.messaging.message import Message
from sagas.messaging.pending_commit import PendingCommit
from sagas.store.entries import Entry, fact_of

_LARGEST = 200_000
"""Bytes of a message's body; SQS takes a MiB, and every postponement is a receive."""
_LONGEST_PAUSE = 30.0
"""Seconds between two tries: less than the supervisor takes to find the lease expired."""


class LateCommits:
    """Sends outcomes back to their queue and commits them from there, without running anything again.

    A message with a report takes the place of the message whose attempt it is about: same dispatch number, one more
    copy. Once its report is committed, or somebody else took the lease over, it is that message and nothing more.
    """

    def __init__(self, tools: Tools, sender: MessageSender) -> None:
        self._tools = tools
        self._sender = sender

    def send(self, message: Message, pending: PendingCommit) -> bool:
        """Send a report in place of ``message``; ``False`` if it is too large to be sent.

        Raises:
            Unavailable: SQS is out of reach too.
        """
        copy = replace(message, pending_commit=pending, hops=message.hops + 1)
        known = {"saga_id": message.saga_id, "step": message.step}
        if len(copy.body) > _LARGEST:
            self._tools.logger.error("the outcome cannot be committed, and is too large to be kept", extra=known)
            return False
        self._sender.send(copy)
        self._tools.logger.warning("the outcome cannot be committed yet: it waits in its queue", extra=known)
        return True

    def commit(self, saga_type: SagaType, message: Message) -> Committed | None:
        """Commit what ``message`` reports; ``None`` if it reports nothing, or nothing that still counts.

        Raises:
            Fenced: somebody else took the lease over.
            Unavailable: the store is still out of reach.
        """
        pending = message.pending_commit
        state = self._tools.control.get(message.saga_id) if pending else None
        if pending is None or state is None or not _counts(state, message, pending):
            return None
        plan = plan_for(saga_type.definition, (step.name for step in state.steps))
        dying = DeadLetter(message.dispatch, message.hops, message.message_id)
        note = EntryContext(pending.payload, pending.details, trace_id=pending.trace_id, message=dying)
        return self._tools.committer.commit(plan, state, _fact(state, message, pending), note)

    def later(self, message: Message) -> Later:
        """Have the message come back, the later the more often it came."""
        doublings = min(message.receives + message.hops - 1, 10)
        return Later(self._tools.clock.now() + min(2.0**doublings, _LONGEST_PAUSE))


def _counts(state: SagaState, message: Message, pending: PendingCommit) -> bool:
    """Whether the claim it was made under still holds, expired or not, and nothing was committed since."""
    step, lease = state.current, state.lease
    if step is None or lease is None or lease.owner != pending.owner:
        return False
    attempt = step.undo_attempts if message.undo else step.attempts
    claimed = (state.token, state.seq, state.cursor, step.name, state.undoing, attempt)
    return claimed == (pending.token, pending.seq, message.index, message.step, message.undo, pending.attempt)


def _fact(state: SagaState, message: Message, pending: PendingCommit) -> ev.Fact:
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
