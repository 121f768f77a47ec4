"""Judges from a step's queue and its workers what has happened to a message that no worker has claimed.

Such a message waits, is lost, or was dead-lettered because its function cannot run. SQS does not report which messages
a queue holds, and its counts are late and incomplete. But workers handle a queue roughly in order. Once they have
handled much newer messages, the message is lost. Only a lost message is a stall. The counts keep messages from being
sent again while they wait in line, which would cost them their places.
"""

from __future__ import annotations

from msgspec import Struct, field

from sagas.core.commands import Backlog
from sagas.core.states import SagaState
from sagas.engine.clock import Clock
from sagas.engine.worker import BETWEEN_NOTES
from sagas.errors import NotFound
from sagas.messaging.queues import Queues
from sagas.messaging.routes import LONGEST_BACKOFF, LONGEST_DELAY
from sagas.store.watermarks import Watermark, Watermarks

_GOOD_WHILE = LONGEST_DELAY + LONGEST_BACKOFF
"""Maximum seconds between the handling of two messages that were sent together: a copy's delay, plus the backoff."""
_SETTLING = 300.0
"""Seconds to wait for postponed messages after an outage of the store, before judging a queue."""
_WORKING = 3 * BETWEEN_NOTES
"""Seconds for which a queue's workers count as running after a note."""
_COUNTED = 60.0
"""Seconds after which SQS's counts of a queue's messages are mostly right."""
_SHARE = 10
"""At most one in this many messages of a queue is sent again per minute, so resends do not crowd out other messages."""
_AT_LEAST = 100
_RESERVED = 25
"""A run reserves this many resends at a time."""


class _StepQueue(Struct):
    """What a run knows about a queue. ``waiting`` is the number of its messages, ``reserved`` the number that the run
    may resend."""

    waiting: int
    watermark: Watermark
    reserved: int = 0


class StepQueues(Struct):
    """The queues that one run needs, each read once. Runs may be concurrent.

    A run also notes if a queue's workers have handled nothing for a long time. Messages that were sent to such a queue
    may have been dead-lettered, which is not a stall. Once the workers run again, only this note shows that.

    Args:
        queues: the queues, whose messages are counted.
        watermarks: store how far the queues have got.
        clock: the current time.
        notes_empty: whether to record for other runs that a queue is empty, before this run's own messages fill it.
    """

    queues: Queues
    watermarks: Watermarks
    clock: Clock
    notes_empty: bool = False
    _cached: dict[tuple[str, str], _StepQueue] = field(default_factory=dict[tuple[str, str], _StepQueue])

    def backlog(self, state: SagaState) -> Backlog:
        """Return what the queue of a saga's current step shows about its message, which no worker has claimed."""
        name = self.queues.representative(state.saga, (state.current or state.steps[-1]).name)
        queue = self._step_queue(state.saga, name)
        now = self.clock.now()
        sent_at = max(state.updated_at, state.not_before)
        mark = queue.watermark
        passed = mark.passed > sent_at + _GOOD_WHILE
        settled = mark.resumed_at + _SETTLING
        if mark.passed < sent_at and now < mark.noted_at + _WORKING:
            return Backlog.WAITING  # the count does not matter, because the workers still handle older messages
        if not queue.waiting or sent_at + _COUNTED < mark.empty_at:
            return Backlog.LOST if passed and settled < sent_at else Backlog.UNKNOWN
        if settled > now or not passed:
            return Backlog.WAITING
        if not queue.reserved:
            most = max(queue.waiting // _SHARE, _AT_LEAST)
            if not self.watermarks.reserve(state.saga, name, int(now // 60), _RESERVED, most):
                return Backlog.WAITING
            queue.reserved = _RESERVED
        queue.reserved -= 1
        return Backlog.UNKNOWN

    def _step_queue(self, saga: str, step: str) -> _StepQueue:
        if (saga, step) not in self._cached:
            read_at = self.clock.now()
            try:
                waiting = self.queues.waiting(saga, step)
            except NotFound:
                waiting = 0
            watermark = self.watermarks.get(saga, step)
            silent = watermark.noted_at + _GOOD_WHILE < read_at
            empty = self.notes_empty and not waiting
            if silent or empty:
                self.watermarks.note_rest(saga, step, read_at, empty=empty, silent=silent)
            self._cached[saga, step] = _StepQueue(waiting, watermark)
        return self._cached[saga, step]
