"""Rounds by schedule: a saga type's prefix is swept in parts, each a range of keys.

A round begins with one part. A worker on a part leaves half of what is left of it to a new one every few pages, as
long as fewer are open than may be; so many workers are soon at it, however the keys are spread. Parts are sent out as
messages; a worker that has no more time for one sends it anew. A message that is lost is sent again by the next
tick, since its part is not done and nobody holds it; one that comes twice finds its part held. Without a queue the tick
itself works on the parts, one after the other, and makes no new ones.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.policies import OrphanSweep
from sagas.engine.sweep.key_ranges import middle
from sagas.engine.sweep.orphans import COUNTS, SweepReport
from sagas.engine.sweep.sweep_pages import PageSweep, SweepServices
from sagas.errors import SagaError, Unavailable, text_of
from sagas.store.schedule.sweep_rounds import Part, SweepRounds

MOST_OPEN = 16
"""Parts that are open at a time. More would take from S3 and from the tables what others need of them."""
_MOST_PARTS = 256
"""Parts of a round: their items stay, for the next one."""
_SPLIT_AFTER = 4
"""Pages after which what is left of a part is halved: what holds fewer is not worth a message."""
_SLACK = 300.0
"""Seconds. Ticks come a little early or late: without it, a sweep every six hours would wait for the seventh tick."""
_SKEW = 1.0
"""Seconds by which clocks of different machines may differ."""
_TRIES, _PAUSE = 5, 0.2
"""How often the end of a part is written while others write the same round, and seconds in between."""


@dataclass(frozen=True, slots=True)
class PartName:
    """Which part to work on: what a message says."""

    saga: str
    round: int
    number: int


@dataclass(frozen=True, slots=True)
class EndedRound:
    """What a whole round saw and did.

    Args:
        saga: the saga type.
        round: which round, from 1.
        parts: how many parts it had.
        seconds: how long it took.
        counts: by name, as in ``SweepReport``.
    """

    saga: str
    round: int
    parts: int
    seconds: float
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class RoundSweep:
    """Sweeps one saga type in rounds.

    Args:
        services: what it works with.
        rounds: where rounds stand.
        definition: the saga type's.
        policy: its ``orphans``.
        send: sends a part to be worked on; ``None`` where there is no queue for it.
        tell: told of a round that has ended, once.
    """

    services: SweepServices
    rounds: SweepRounds
    definition: SagaDefinition
    policy: OrphanSweep
    send: Callable[[PartName], None] | None = None
    tell: Callable[[EndedRound], None] = lambda ended: None

    def tick(self, deadline: float, report: SweepReport) -> bool:
        """Begin a round when it is time, and have what nobody is at be worked on. ``deadline``: epoch seconds at which
        to stop working on parts. Returns whether a round was due, or under way."""
        now, current = self.services.clock.now(), self.rounds.get(self.definition.name)
        if not current.under_way:
            if now < current.began_at + self.policy.every.total_seconds() - _SLACK:
                return False
            begun = self.rounds.begin(current, now)
            if begun is None:
                return False  # another supervisor was faster
            current = begun
        for part in self.rounds.parts(current):
            name = PartName(part.saga, part.round, part.number)
            if part.done or part.held_until > now:
                continue
            if self.send is not None:
                self.send(name)
            elif self.services.clock.now() < deadline:
                self.work(name, deadline, deadline, report)
        report.finished = self._end(current.number)
        return True

    def work(self, name: PartName, deadline: float, ends_at: float, report: SweepReport) -> bool:
        """Work on a part for a while. Nothing is done where another worker is at it, it is done, or its round is over.
        ``deadline``: epoch seconds at which to stop. ``ends_at``: epoch seconds after which this process cannot act
        any more. Returns whether to go on with it at once."""
        clock = self.services.clock
        wanted = Part(name.saga, name.round, name.number, owner=clock.new_owner(), held_until=ends_at + _SKEW)
        claimed = self.rounds.claim(wanted, clock.now())
        if claimed is None:
            self._end(name.round)  # the worker on the last part may have died before
            return False
        work = _PartWork(self, claimed, report)
        again = False
        try:
            again = work.pages(deadline)
        except Exception as error:  # noqa: BLE001 - whatever happens to a page, its part is let go for the next visit
            report.error = text_of(error) if isinstance(error, SagaError) else type(error).__name__
            again = isinstance(error, Unavailable)  # anything else will be the same, and waits for the next tick
        if report.finished:
            self._end(name.round)
            return False
        with suppress(Unavailable):  # the claim ends by itself
            return self.rounds.release(replace(work.part, stopped=report.stopped)) and again
        return False

    def _end(self, number: int) -> bool:
        """End a round whose parts are all done; return whether it has ended."""
        current = self.rounds.get(self.definition.name)
        if current.number != number or not current.under_way:
            return True
        if current.open:
            return False
        parts, now = self.rounds.parts(current), self.services.clock.now()
        totals = {name: sum(part.sums.get(name, 0) for part in parts) for name in COUNTS}
        if self.rounds.end(current, totals, now):
            seconds = round(now - current.began_at, 3)
            self.tell(EndedRound(current.saga, number, len(parts), seconds, totals))
        return True


class _PartWork:
    """One visit to a part. ``part`` is as it was written last."""

    def __init__(self, sweep: RoundSweep, part: Part, report: SweepReport) -> None:
        self.part = part
        self._sweep = sweep
        self._report = report
        counted = report.counts()  # of other parts
        self._before = {name: part.sums.get(name, 0) - counted[name] for name in COUNTS}

    def pages(self, deadline: float) -> bool:
        """Sweep page by page, from where the part was left; return whether to go on with it.

        The counts of a page are written together with its last key: they belong to the part from then on, and a page
        that is not written is another worker's.
        """
        sweep, report, rounds = self._sweep, self._report, self._sweep.rounds
        report.start_after, report.finished = self.part.after, False
        pages = PageSweep(sweep.services, sweep.definition, sweep.policy, report, deadline)
        since = 0
        while pages.in_time:
            reached = pages.page(self.part.after, self.part.until)
            if reached.held:
                return False
            counted = report.counts()
            sums = {name: self._before[name] + counted[name] for name in COUNTS}
            part = replace(self.part, after=reached.after, sums=sums, stopped=report.stopped)
            report.start_after = reached.after
            if reached.finished:
                report.start_after, report.finished = "", self._finished(part)
                return False
            if not rounds.advance(part):
                return False
            self.part, since = part, since + 1
            if since == _SPLIT_AFTER and sweep.send is not None:
                self._split(pages, sweep.send)
                since = 0
        return True

    def _finished(self, part: Part) -> bool:
        """Whether it could be written that the part is done. Others may be writing the same round at the moment."""
        clock = self._sweep.services.clock
        for _ in range(_TRIES):
            with suppress(Unavailable):
                return self._sweep.rounds.finish(part)
            clock.sleep(_PAUSE * (1 + clock.chance()))
        return self._sweep.rounds.finish(part)

    def _split(self, pages: PageSweep, send: Callable[[PartName], None]) -> None:
        """Leave half of what is left to a new part, if fewer are open than may be."""
        rounds, prefix, part = self._sweep.rounds, self._sweep.definition.prefix, self.part
        seen = rounds.get(part.saga)
        if seen.open >= MOST_OPEN or seen.parts >= _MOST_PARTS:
            return
        at = middle(lambda key: pages.objects.first_after(prefix, key), prefix, part.after, part.until)
        if at is None:
            return
        with suppress(Unavailable):  # another writes the round at the moment
            other = rounds.split(part, at, seen, MOST_OPEN)
            if other is not None:
                self.part = replace(part, until=at)
                send(PartName(other.saga, other.round, other.number))
