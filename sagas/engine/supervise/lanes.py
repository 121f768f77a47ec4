"""Lanes: a step's queue with what works it off. What it shows of a message that no worker has claimed.

Such a message is lost, or it waits, or its function cannot run and it died for that. SQS does not tell which messages a
queue holds, and its counts are late and miss some. But queues are worked off roughly in order: once messages were
handled that had been sent a good while after this one, this one is lost. That alone is a stall. The counts only spare
a line messages sent anew: those would lose their places in it.
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
"""Seconds by which a message may be handled later than another that was sent at the same time: as the longest delayed
copy, after the longest backoff."""
_SETTLING = 300.0
"""Seconds after an outage of the store in which messages come back that its failures had put off."""
_WORKING = 3 * _BETWEEN_NOTES
"""Seconds for which a lane counts as being worked off after a note."""
_COUNTED = 60.0
"""Seconds after which SQS's counts of a queue's messages are right, mostly."""
_SHARE = 10
"""One in so many messages of a lane may be sent anew in a minute, in all: they must not crowd out the others."""
_AT_LEAST = 100
_RESERVED = 25
"""So many are reserved at a time."""


@dataclass(slots=True)
class _Seen:
    """What one environment has seen of a lane. Times in epoch seconds."""

    noted_at: float
    passed: float = 0.0
    failing: bool = False


class LaneNotes:
    """Notes how far this environment sees each lane to be: at most every 30 seconds, first when 30 are over.

    Args:
        watermarks: where it is noted.
        clock: tells the time.
        lane: the step that stands for all that share a step's queue.
    """

    def __init__(
        self, watermarks: Watermarks, clock: Clock, lane: Callable[[str, str], str] = lambda saga, step: step
    ) -> None:
        self._watermarks = watermarks
        self._clock = clock
        self._lane = lane
        self._seen: dict[tuple[str, str], _Seen] = {}

    def handled(self, message: Message) -> None:
        """Take notice that a message was handled, whatever became of it."""
        now, step = self._clock.now(), self._lane(message.saga, message.step)
        seen = self._seen.setdefault((message.saga, step), _Seen(now))
        seen.passed = max(seen.passed, message.sent_at)
        if not seen.passed or (not seen.failing and now - seen.noted_at < _BETWEEN_NOTES):
            return
        seen.noted_at = now
        try:
            self._watermarks.note(message.saga, step, seen.passed, now, resumed=seen.failing)
        except SagaError:
            return  # the next one, or another environment, will tell
        seen.failing = False

    def failed(self, message: Message) -> None:
        """Take notice that a message could not be handled."""
        lane = message.saga, self._lane(message.saga, message.step)
        self._seen.setdefault(lane, _Seen(self._clock.now())).failing = True


@dataclass(slots=True)
class _Lane:
    """What a run knows of a lane. ``waiting``: messages in its queue; ``left``: of those reserved to be sent anew."""

    waiting: int
    watermark: Watermark
    left: int = 0


@dataclass(slots=True)
class Lanes:
    """What one run asks about lanes, each of them once. There may be many at the same time.

    It notes of a lane when it has handled nothing for a good while: what is sent into it may die of that, and is no
    stall. Nothing else would tell once it works again.

    Args:
        queues: counts their messages.
        watermarks: how far they got.
        clock: tells the time.
        tells: whether it notes for others that a queue holds nothing, before messages are sent into it: those would
            look like a line.
    """

    queues: Queues
    watermarks: Watermarks
    clock: Clock
    tells: bool = False
    _known: dict[tuple[str, str], _Lane] = field(default_factory=dict[tuple[str, str], _Lane])

    def backlog(self, state: SagaState) -> Backlog:
        """Return what the current step's lane says of a saga whose message no worker has claimed."""
        name = self.queues.lane(state.saga, (state.current or state.steps[-1]).name)
        lane = self._lane(state.saga, name)
        now, sent, mark = self.clock.now(), max(state.updated_at, state.not_before), lane.watermark
        passed, settled = mark.passed > sent + _GOOD_WHILE, mark.resumed_at + _SETTLING
        if mark.passed < sent and now < mark.noted_at + _WORKING:
            return Backlog.WAITING  # whatever the count is: it is the turn of those that were sent before
        if not lane.waiting or sent + _COUNTED < mark.empty_at:
            return Backlog.LOST if passed and settled < sent else Backlog.UNKNOWN
        if settled > now or not passed:
            return Backlog.WAITING
        if not lane.left:
            most = max(lane.waiting // _SHARE, _AT_LEAST)
            if not self.watermarks.reserve(state.saga, name, int(now // 60), _RESERVED, most):
                return Backlog.WAITING
            lane.left = _RESERVED
        lane.left -= 1
        return Backlog.UNKNOWN

    def _lane(self, saga: str, step: str) -> _Lane:
        if (saga, step) not in self._known:
            asked_at = self.clock.now()
            try:
                waiting = self.queues.waiting(saga, step)
            except NotFound:
                waiting = 0
            watermark = self.watermarks.get(saga, step)
            silent, empty = watermark.noted_at + _GOOD_WHILE < asked_at, self.tells and not waiting
            if silent or empty:
                self.watermarks.note_rest(saga, step, asked_at, empty=empty, silent=silent)
            self._known[saga, step] = _Lane(waiting, watermark)
        return self._known[saga, step]
