"""Finds due sagas, and sends them to workers. The supervisor's tick does not process sagas itself.

It sends messages with many ids each: to the queue ``now`` for waits that end soon, else to ``bulk``. Workers handle the
messages in parallel. A saga stays in the index until it has been processed. The tick stores how far it has scanned each
shard, so no saga is sent again each minute while its message waits. Such a round lasts 15 minutes, or five for waits.
When it ends, its messages expire, and sagas that are still due are sent again. A round also ends once the queue is
empty, because every message was then handled or lost. So a lost message delays its sagas by one round at most. The scan
positions take one write per 1,000 sagas.

A search of paused sagas is one round of an hour, because most of them stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct, field

from sagas.core.text import epoch, iso
from sagas.engine.clock import Clock
from sagas.engine.operate.pausing import HOUR, Search
from sagas.engine.ports import WorkSender
from sagas.messaging.routes import LONGEST_DELAY
from sagas.messaging.work import BULK, NOW, DueSagas
from sagas.store.index.listing import IndexPosition, Listing
from sagas.store.schedule.scan_positions import ScanPosition, ScanPositions

LOOK_AHEAD = 150.0
"""The message of a long wait is sent this many seconds before the end, delayed by the remaining time."""
_PERIODS = 2
"""The supervisor looks at least this many of its periods ahead."""
_WAITS_ROUND = 300.0
"""Seconds of a round over waits. It rarely ends early, because the queue ``now`` mostly holds delayed messages."""
ROUND = 900.0
"""Seconds after which sagas that are still due are sent again."""
_AT_THE_END = 60.0
"""The next round begins this many seconds before a round ends. A message sent later would arrive too late."""
_SETTLING = 30.0
"""Seconds after which a queue's count includes all messages that were sent."""
_PAGE = 1_000
_TOGETHER = 25
"""Sagas per message. A message takes only a few seconds, so even the last messages keep all workers busy."""
_AT_ONCE = 10
"""Messages per send request."""


def look_ahead(every: float) -> float:
    """Return the number of seconds before the end of a long wait at which its message is sent: at most SQS's longest
    delay. ``every``: seconds from one visit of the supervisor to the next."""
    return min(max(_PERIODS * every, LOOK_AHEAD), float(LONGEST_DELAY))


class FindReport(Struct):
    """Result of one run.

    Args:
        found: the number of sagas that the run sent.
        messages: the number of messages that the run sent.
        finished: whether the run sent all due sagas.
        overdue: seconds since the longest overdue saga became due, at the beginning of the run; 0 if no saga was due.
        stranded_shards: shards above the deployed number, which was reduced. They are still in use, so they are
            scanned, too.
    """

    found: int = 0
    messages: int = 0
    finished: bool = True
    overdue: float = 0.0
    stranded_shards: int = 0


class _Stretch(Struct):
    """A part of a shard whose sagas are sent to a queue: sagas after ``after`` that are due by ``horizon``. ``name`` is
    that of its scan position."""

    name: str
    shard: str
    queue: str
    previous: ScanPosition
    after: IndexPosition | None
    until: float
    horizon: float


class _Run(Struct):
    """A run: its report, and the sagas that it has not sent yet, by queue and by expiry of their messages."""

    end: float
    report: FindReport = field(default_factory=FindReport)
    unsent: dict[tuple[str, float], list[IndexPosition]] = field(
        default_factory=dict[tuple[str, float], list[IndexPosition]]
    )
    idle: dict[str, bool] = field(default_factory=dict[str, bool])


class Finder(Struct, frozen=True):
    """Sends due sagas to workers. Concurrent runs do no harm, because only one of them sends each page.

    ``paused_shards`` returns which paused sagas to send.
    """

    listing: Listing
    scan_positions: ScanPositions
    queues: WorkSender
    clock: Clock
    paused_shards: Callable[[float], Sequence[Search]] = lambda now: ()
    look_ahead: float = LOOK_AHEAD

    def run(self, task: Literal["recover", "purge"], budget: float) -> FindReport:
        """Send the sagas due for a task. In each shard, the longest overdue come first. ``budget``: seconds the run may
        take. The next run handles the remaining sagas."""
        now = self.clock.now()
        run = _Run(now + budget)
        run.report.stranded_shards = self.listing.shards.note() - self.listing.shards.deployed
        shards = self.listing.due_shards if task == "recover" else self.listing.purge_shards
        stretches = self._stretches(shards, BULK, now, ROUND, run)
        if task == "recover":  # the message of a long wait is sent before its end
            queue = NOW if self.queues.has_work(NOW) else BULK
            stretches += self._stretches(self.listing.wait_shards, queue, now + self.look_ahead, _WAITS_ROUND, run)
        stretches = self._handed_out(task, stretches, run)
        if task == "recover" and run.report.finished:  # last, because the look at paused sagas takes time
            for search in self.paused_shards(now):
                length = HOUR if search.since else ROUND
                stretches += self._stretches(search.shards, BULK, search.horizon, length, run, since=search.since)
        while stretches:
            stretches = self._handed_out(task, stretches, run)
        self._send(task, run, at_least=1)
        return run.report

    def _handed_out(self, task: str, stretches: Sequence[_Stretch], run: _Run) -> list[_Stretch]:
        """Take a page of each stretch, and send what was collected. Return the stretches that have more; none at the
        end of the run."""
        remaining: list[_Stretch] = []
        for stretch in stretches:
            if self.clock.now() >= run.end:
                run.report.finished = False
                return []
            page = self._page(stretch)
            run.report.found += len(page)
            run.unsent.setdefault((stretch.queue, stretch.until), []).extend(page)
            self._send(task, run, at_least=_TOGETHER * _AT_ONCE)
            if len(page) == _PAGE:
                remaining.append(stretch)
        return remaining

    def _stretches(
        self, shards: Sequence[str], queue: str, horizon: float, length: float, run: _Run, *, since: float = 0.0
    ) -> list[_Stretch]:
        """Return the stretch to send of each shard with due sagas. A new round lasts ``length`` seconds. With ``since``
        (epoch seconds), there is one round that begins after that time, whenever the queue is empty."""
        now = self.clock.now()
        stretches = list[_Stretch]()
        for shard, first in zip(shards, self.listing.first_due(shards, horizon), strict=True):
            if first is None:
                continue
            run.report.overdue = max(run.report.overdue, now - epoch(first.sort))
            name = f"all#{shard}" if since else shard
            previous = self.scan_positions.get(name)
            if since:
                goes_on = previous.until >= since + length
            else:
                lost = previous.moved_at + _SETTLING <= now and self._idle(queue, run)
                goes_on = previous.until - _AT_THE_END > now and not lost
            after, until = (previous.upto, previous.until) if goes_on else (None, now + length)
            stretches.append(_Stretch(name, shard, queue, previous, after, until, horizon))
        return stretches

    def _idle(self, queue: str, run: _Run) -> bool:
        """Whether the queue is empty."""
        if queue not in run.idle:
            run.idle[queue] = self.queues.work_waiting(queue) == 0
        return run.idle[queue]

    def _page(self, stretch: _Stretch) -> Sequence[IndexPosition]:
        """Take the next page of a stretch. It is empty at the end of the stretch, or if another run has taken the
        page."""
        if stretch.after is not None and stretch.after.sort > iso(stretch.horizon):
            return ()
        page = self.listing.due_page(stretch.shard, stretch.horizon, stretch.after, _PAGE)
        if not page:
            return ()
        # Rule 14: note the position first, then send. So concurrent runs send nothing twice, and the next round finds
        # sagas that were noted but not sent.
        after = ScanPosition(page[-1], stretch.until, self.clock.now(), self.clock.new_owner())
        if not self.scan_positions.move(stretch.name, stretch.previous, after):
            return ()
        stretch.previous = after
        stretch.after = after.upto
        return page

    def _send(self, task: str, run: _Run, at_least: int) -> None:
        """Send the collected sagas of each queue for which at least ``at_least`` were collected."""
        for (queue, until), positions in run.unsent.items():
            if len(positions) < at_least:
                continue
            parts = [positions[start : start + _TOGETHER] for start in range(0, len(positions), _TOGETHER)]
            work = [DueSagas([(saga.sort, saga.saga_id) for saga in part], until).work(task) for part in parts]
            positions.clear()
            self.queues.send_work(queue, work)
            run.report.messages += len(work)
