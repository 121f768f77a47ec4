"""Finding what is due, and handing it out: the supervisor's tick looks at no saga itself.

Many ids go into each message of the queue ``bulk``, or of ``now`` where waits end, which are worked off in parallel. A
saga stays in the index until it was looked after; so that it is not handed out each minute while its message waits, the
tick notes how far it has gone over each shard. Such a round lasts a quarter of an hour, five minutes of waits, and its
messages are void when it is over: then what is still due is handed out anew. That is so at once when the queue holds
nothing: all that was handed out has been looked at, or was lost. So no saga gets lost with a message, none waits behind
a message that was lost for longer than a round, and there is a write for each thousand sagas, none for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sagas.core.text import epoch, iso
from sagas.engine.clock import Clock
from sagas.engine.ports import WorkSender
from sagas.messaging.limits import LONGEST_DELAY
from sagas.messaging.work import BULK, NOW, DueSagas
from sagas.store.index.listing import IndexPosition, Listing
from sagas.store.schedule.hand_outs import HandOut, HandOuts

LOOK_AHEAD = 150.0
"""Seconds before the end of a long wait from which on its message is sent, with the rest as its delay: two and a half
of the supervisor's minutes."""
_PERIODS = 2
"""Of the supervisor's visits there are so many at least while it looks ahead."""
_WAITS_ROUND = 300.0
"""Seconds of a round over waits: the queue ``now`` mostly holds what is delayed, so that no round is cut short."""
ROUND = 900.0
"""Seconds after which what was handed out and is still due is handed out again."""
_AT_THE_END = 60.0
"""Seconds before the end of a round in which the next one begins: a message sent then would be void on arrival."""
_SETTLING = 30.0
"""Seconds after which the count of the queue's messages is believed to have those that were sent."""
_PAGE = 1_000
_TOGETHER = 25
"""Sagas in a message: some seconds of work, so that a few messages keep all that work at it busy to the end."""
_AT_ONCE = 10
"""Messages that are sent with one request."""


def look_ahead(every: float) -> float:
    """Return how many seconds ahead of its end a long wait is looked at: SQS's longest delay at most. ``every``:
    seconds from one visit of the supervisor to the next."""
    return min(max(_PERIODS * every, LOOK_AHEAD), float(LONGEST_DELAY))


@dataclass(slots=True)
class FindReport:
    """What a run found.

    Args:
        found: how many sagas it handed out.
        messages: in how many messages.
        finished: whether it went over all that is due.
        overdue: seconds that the longest due saga had been due when the run began; 0 when none was.
        stranded_shards: shards over which sagas are spread beyond the deployed number, which was lowered. They are
            gone over all the same.
    """

    found: int = 0
    messages: int = 0
    finished: bool = True
    overdue: float = 0.0
    stranded_shards: int = 0


@dataclass(slots=True)
class _Stretch:
    """What is to be handed out of a shard by a queue: what lies behind ``after``, and is due by ``horizon``."""

    shard: str
    queue: str
    seen: HandOut
    after: IndexPosition | None
    until: float
    horizon: float


@dataclass(slots=True)
class _Run:
    """One run: what it found, and what of it was not sent yet, by when it is void."""

    end: float
    report: FindReport = field(default_factory=FindReport)
    held: dict[tuple[str, float], list[IndexPosition]] = field(
        default_factory=dict[tuple[str, float], list[IndexPosition]]
    )
    idle: dict[str, bool] = field(default_factory=dict[str, bool])


@dataclass(frozen=True, slots=True)
class Finder:
    """Hands out what is due. Two runs at once do no harm: of each page, one of them hands it out.

    ``parked`` tells where in the index sagas of paused types are, and by when they are to be looked at.
    """

    listing: Listing
    hand_outs: HandOuts
    queues: WorkSender
    clock: Clock
    parked: Callable[[float], dict[str, float]] = lambda now: {}
    look_ahead: float = LOOK_AHEAD

    def run(self, task: Literal["recover", "purge"], budget: float) -> FindReport:
        """Hand out what is due for a task, longest due first in each shard. ``budget``: seconds the run may take; what
        is left is for the next."""
        now = self.clock.now()
        run = _Run(now + budget)
        run.report.stranded_shards = self.listing.shards.note() - self.listing.shards.deployed
        shards = self.listing.due_shards if task == "recover" else self.listing.purge_shards
        stretches = self._stretches(shards, BULK, now, ROUND, run)
        if task == "recover":  # the message of a long wait is sent before its end
            queue = NOW if self.queues.has_work(NOW) else BULK
            stretches += self._stretches(self.listing.wait_shards, queue, now + self.look_ahead, _WAITS_ROUND, run)
            for shard, horizon in self.parked(now).items():
                stretches += self._stretches([shard], BULK, horizon, ROUND, run)
        while stretches:
            left: list[_Stretch] = []
            for stretch in stretches:
                if self.clock.now() >= run.end:
                    run.report.finished = False
                    break
                found = self._page(stretch)
                run.report.found += len(found)
                run.held.setdefault((stretch.queue, stretch.until), []).extend(found)
                self._send(task, run, at_least=_TOGETHER * _AT_ONCE)
                if len(found) == _PAGE:
                    left.append(stretch)
            stretches = left if run.report.finished else []
        self._send(task, run, at_least=1)
        return run.report

    def _stretches(self, shards: Sequence[str], queue: str, horizon: float, length: float, run: _Run) -> list[_Stretch]:
        """Where to go on with those shards of which something is due; a new round has that length."""
        now, found = self.clock.now(), list[_Stretch]()
        for shard, first in zip(shards, self.listing.first_due(shards, horizon), strict=True):
            if first is None:
                continue
            run.report.overdue = max(run.report.overdue, now - epoch(first.sort))
            seen = self.hand_outs.get(shard)
            if seen.until - _AT_THE_END > now and not (seen.moved_at + _SETTLING <= now and self._idle(queue, run)):
                found.append(_Stretch(shard, queue, seen, seen.upto, seen.until, horizon))
            else:
                found.append(_Stretch(shard, queue, seen, None, now + length, horizon))
        return found

    def _idle(self, queue: str, run: _Run) -> bool:
        """Whether the queue holds nothing."""
        if queue not in run.idle:
            run.idle[queue] = self.queues.work_waiting(queue) == 0
        return run.idle[queue]

    def _page(self, stretch: _Stretch) -> Sequence[IndexPosition]:
        """Take the next page of a stretch; nothing when there is none, or another run took it."""
        if stretch.after is not None and stretch.after.sort > iso(stretch.horizon):
            return ()
        found = self.listing.due_page(stretch.shard, stretch.horizon, stretch.after, _PAGE)
        if not found:
            return ()
        # Rule 14: first noted, then sent. Two runs at once send nothing twice, and what is noted but not sent is found
        # again.
        after = HandOut(found[-1], stretch.until, self.clock.now(), self.clock.new_owner())
        if not self.hand_outs.move(stretch.shard, stretch.seen, after):
            return ()
        stretch.seen, stretch.after = after, after.upto
        return found

    def _send(self, task: str, run: _Run, at_least: int) -> None:
        """Send what is held, as soon as it is that much."""
        for (queue, until), held in run.held.items():
            if len(held) < at_least:
                continue
            parts = [held[start : start + _TOGETHER] for start in range(0, len(held), _TOGETHER)]
            work = [DueSagas([(one.sort, one.saga_id) for one in part], until).work(task) for part in parts]
            held.clear()
            self.queues.send_work(queue, work)
            run.report.messages += len(work)
