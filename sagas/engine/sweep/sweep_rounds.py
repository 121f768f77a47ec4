"""Sweeps a saga type's prefix in scheduled rounds. A round consists of parts.

Each part is a range of keys. A round begins with one part that contains all keys. Every few pages, a part's worker
splits the remaining range in two, unless too many parts are open. So many workers soon share the round, however the
keys are spread. Parts are sent as messages. A worker that runs out of time sends its part again. If a message is lost,
the next tick sends another, because the part is neither done nor claimed. If a message is delivered twice, the second
worker sees the claim. Without a queue, the tick itself sweeps one part after the other, and splits no part.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.policies import OrphanSweep
from sagas.engine.sweep.key_ranges import middle
from sagas.engine.sweep.orphans import COUNTS, SweepReport
from sagas.engine.sweep.sweep_pages import PageSweep, SweepServices
from sagas.errors import SagaError, Unavailable, text_of
from sagas.store.schedule.sweep_rounds import RoundPart, SweepRounds

MOST_OPEN = 16
"""Maximum number of open parts. More would slow down other users of S3 and of the tables."""
_MOST_PARTS = 256
"""Maximum parts per round. The items of parts are stored for good, and the next round reuses them."""
_SPLIT_AFTER = 4
"""Pages after which the remaining range of a part is split. A smaller part is not worth a message."""
_SLACK = 300.0
"""Seconds by which a round may begin early. Otherwise a sweep every six hours would often begin a tick too late."""
_SKEW = 1.0
"""Seconds by which clocks of different machines may differ."""
_TRIES, _PAUSE = 5, 0.2
"""Tries to write the end of a part while others write the same round, and seconds between them."""


class PartName(Struct, frozen=True):
    """The part that a message names."""

    saga: str
    round: int
    number: int


class EndedRound(Struct, frozen=True):
    """Result of a round.

    Args:
        saga: the saga type.
        round: the number of the round, from 1.
        parts: the number of its parts.
        seconds: the duration of the round in seconds.
        counts: the counters of ``SweepReport``, by name.
    """

    saga: str
    round: int
    parts: int
    seconds: float
    counts: dict[str, int]


class RoundSweep(Struct, frozen=True):
    """Sweeps one saga type in rounds.

    Args:
        services: the services that the sweep uses.
        rounds: the stored progress of rounds.
        definition: the saga type's definition.
        policy: its ``orphans``.
        send: the function that sends a part to a worker; ``None`` if there is no queue for parts.
        on_round_ended: called once for each ended round.
    """

    services: SweepServices
    rounds: SweepRounds
    definition: SagaDefinition
    policy: OrphanSweep
    send: Callable[[PartName], None] | None = None
    on_round_ended: Callable[[EndedRound], None] = lambda ended: None

    def tick(self, deadline: float, report: SweepReport) -> bool:
        """Begin a round if a round is due, and send or sweep the parts that nobody holds. ``deadline``: epoch seconds
        at which to stop. Returns whether a round was due or in progress."""
        now, current = self.services.clock.now(), self.rounds.get(self.definition.name)
        if not current.under_way:
            if now < current.began_at + self.policy.every.total_seconds() - _SLACK:
                return False
            begun = self.rounds.begin(current, now)
            if begun is None:
                return False  # another supervisor has begun the round
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
        """Sweep a part until the deadline. Do nothing if another worker holds the part, or if the part or its round has
        ended. ``deadline``: epoch seconds at which to stop. ``ends_at``: epoch seconds after which this process can no
        longer act. Returns whether to continue with the part at once."""
        clock = self.services.clock
        claim = RoundPart(name.saga, name.round, name.number, owner=clock.new_owner(), held_until=ends_at + _SKEW)
        claimed = self.rounds.claim(claim, clock.now())
        if claimed is None:
            self._end(name.round)  # the worker on the last part may have died before it ended the round
            return False
        work = _PartWork(self, claimed, report)
        again = False
        try:
            again = work.pages(deadline)
        except Exception as error:  # noqa: BLE001 - after any failure the part is released for the next visit
            report.error = text_of(error) if isinstance(error, SagaError) else type(error).__name__
            again = isinstance(error, Unavailable)  # after any other error, only the next tick tries again
        if report.finished:
            self._end(name.round)
            return False
        with suppress(Unavailable):  # the claim expires
            return self.rounds.release(replace(work.part, stopped=report.stopped)) and again
        return False

    def _end(self, number: int) -> bool:
        """End a round if all its parts are done. Return whether it has ended."""
        current = self.rounds.get(self.definition.name)
        if current.number != number or not current.under_way:
            return True
        if current.open:
            return False
        parts, now = self.rounds.parts(current), self.services.clock.now()
        totals = {name: sum(part.sums.get(name, 0) for part in parts) for name in COUNTS}
        if self.rounds.end(current, totals, now):
            seconds = round(now - current.began_at, 3)
            self.on_round_ended(EndedRound(current.saga, number, len(parts), seconds, totals))
        return True


class _PartWork:
    """One visit to a part. ``part`` is the state that was written last."""

    def __init__(self, sweep: RoundSweep, part: RoundPart, report: SweepReport) -> None:
        self.part = part
        self._sweep = sweep
        self._report = report
        counted = report.counts()  # of other parts
        self._before = {name: part.sums.get(name, 0) - counted[name] for name in COUNTS}

    def pages(self, deadline: float) -> bool:
        """Sweep page after page, from the part's last key on. Return whether to continue with the part.

        The counts of a page are written together with its last key. If this write is refused, another worker has the
        part.
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

    def _finished(self, part: RoundPart) -> bool:
        """Record that the part is done. Return whether that succeeded. Retries while others write the round."""
        clock = self._sweep.services.clock
        for _ in range(_TRIES):
            with suppress(Unavailable):
                return self._sweep.rounds.finish(part)
            clock.sleep(_PAUSE * (1 + clock.chance()))
        return self._sweep.rounds.finish(part)

    def _split(self, pages: PageSweep, send: Callable[[PartName], None]) -> None:
        """Make half of the remaining range a new part, unless the limits of parts are reached."""
        rounds, prefix, part = self._sweep.rounds, self._sweep.definition.prefix, self.part
        seen = rounds.get(part.saga)
        if seen.open >= MOST_OPEN or seen.parts >= _MOST_PARTS:
            return
        at = middle(lambda key: pages.objects.first_after(prefix, key), prefix, part.after, part.until)
        if at is None:
            return
        with suppress(Unavailable):  # another worker writes the round just now
            other = rounds.split(part, at, seen, MOST_OPEN)
            if other is not None:
                self.part = replace(part, until=at)
                send(PartName(other.saga, other.round, other.number))
