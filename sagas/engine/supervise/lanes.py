"""Lanes: a step's queue and its workers. They show what happened to a message that no worker has claimed.

Such a message is lost, or it waits, or it was dead-lettered because its function cannot run. SQS does not report which
messages a queue holds, and its counts are late and incomplete. But queues are handled roughly in order: once much newer
messages have been handled, this one is lost. Only that is a stall. The counts only prevent messages from being sent
again while they wait in line, where they would lose their places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sagas.core.commands import Backlog
from sagas.core.states import SagaState
from sagas.engine.clock import Clock
from sagas.errors import NotFound, SagaError
from sagas.messaging.limits import LONGEST_BACKOFF, LONGEST_DELAY
from sagas.messaging.message.message import Message
from sagas.messaging.queues import Queues
from sagas.store.schedule.lanes import Watermark, Watermarks

_BETWEEN_NOTES = 30.0
"""Seconds between two notes of one environment about one lane."""
_GOOD_WHILE = LONGEST_DELAY + LONGEST_BACKOFF
"""Longest time in seconds between the handling of two messages that were sent together: the longest delay of a copy,
plus the longest backoff."""
_SETTLING = 300.0
"""After an outage of the store, wait this many seconds for postponed messages before judging the queue."""
_WORKING = 3 * _BETWEEN_NOTES
"""Seconds after a note for which a lane counts as running."""
_COUNTED = 60.0
"""Seconds after which SQS's counts of a queue's messages are mostly right."""
_SHARE = 10
"""At most one in this many messages of a lane is sent again per minute, so that they do not crowd out the others."""
_AT_LEAST = 100
_RESERVED = 25
"""How many are reserved at a time."""


@dataclass(slots=True)
class _Seen:
    """One environment's observations of a lane. Times in epoch seconds."""

    noted_at: float
    passed: float = 0.0
    failing: bool = False


class LaneNotes:
    """Stores how far each lane has got, as seen by this environment: at most every 30 seconds, first after 30.

    Args:
        watermarks: stores the notes.
        clock: the current time.
        lane: maps a step to the step that names its shared queue.
    """

    def __init__(
        self, watermarks: Watermarks, clock: Clock, lane: Callable[[str, str], str] = lambda saga, step: step
    ) -> None:
        self._watermarks = watermarks
        self._clock = clock
        self._lane = lane
        self._seen: dict[tuple[str, str], _Seen] = {}

    def handled(self, message: Message) -> None:
        """Note that a message was handled, with any outcome."""
        now, step = self._clock.now(), self._lane(message.saga, message.step)
        seen = self._seen.setdefault((message.saga, step), _Seen(now))
        seen.passed = max(seen.passed, message.sent_at)
        if not seen.passed or (not seen.failing and now - seen.noted_at < _BETWEEN_NOTES):
            return
        seen.noted_at = now
        try:
            self._watermarks.note(message.saga, step, seen.passed, now, resumed=seen.failing)
        except SagaError:
            return  # the next message, or another environment, will note it
        seen.failing = False

    def failed(self, message: Message) -> None:
        """Note that a message could not be handled."""
        lane = message.saga, self._lane(message.saga, message.step)
        self._seen.setdefault(lane, _Seen(self._clock.now())).failing = True


@dataclass(slots=True)
class _Lane:
    """A run's knowledge of a lane. ``waiting``: messages in its queue. ``reserved``: resends that the run may still
    make."""

    waiting: int
    watermark: Watermark
    reserved: int = 0


@dataclass(slots=True)
class Lanes:
    """The lanes that one run asks about, each read once. Runs may be concurrent.

    A run also notes when a lane has handled nothing for a long time. Messages sent into such a lane may be
    dead-lettered, which is not a stall, and nothing else would show it once the lane runs again.

    Args:
        queues: counts the lanes' messages.
        watermarks: how far the lanes have got.
        clock: the current time.
        notes_empty: whether to note for other runs that a queue is empty, before messages are sent into it. Later those
            would look like messages waiting in line.
    """

    queues: Queues
    watermarks: Watermarks
    clock: Clock
    notes_empty: bool = False
    _cached: dict[tuple[str, str], _Lane] = field(default_factory=dict[tuple[str, str], _Lane])

    def backlog(self, state: SagaState) -> Backlog:
        """Return what the current step's lane shows about a saga whose message no worker has claimed."""
        name = self.queues.lane(state.saga, (state.current or state.steps[-1]).name)
        lane = self._lane(state.saga, name)
        now, sent, mark = self.clock.now(), max(state.updated_at, state.not_before), lane.watermark
        passed, settled = mark.passed > sent + _GOOD_WHILE, mark.resumed_at + _SETTLING
        if mark.passed < sent and now < mark.noted_at + _WORKING:
            return Backlog.WAITING  # whatever the count: the lane is still handling older messages
        if not lane.waiting or sent + _COUNTED < mark.empty_at:
            return Backlog.LOST if passed and settled < sent else Backlog.UNKNOWN
        if settled > now or not passed:
            return Backlog.WAITING
        if not lane.reserved:
            most = max(lane.waiting // _SHARE, _AT_LEAST)
            if not self.watermarks.reserve(state.saga, name, int(now // 60), _RESERVED, most):
                return Backlog.WAITING
            lane.reserved = _RESERVED
        lane.reserved -= 1
        return Backlog.UNKNOWN

    def _lane(self, saga: str, step: str) -> _Lane:
        if (saga, step) not in self._cached:
            asked_at = self.clock.now()
            try:
                waiting = self.queues.waiting(saga, step)
            except NotFound:
                waiting = 0
            watermark = self.watermarks.get(saga, step)
            silent, empty = watermark.noted_at + _GOOD_WHILE < asked_at, self.notes_empty and not waiting
            if silent or empty:
                self.watermarks.note_rest(saga, step, asked_at, empty=empty, silent=silent)
            self._cached[saga, step] = _Lane(waiting, watermark)
        return self._cached[saga, step]
