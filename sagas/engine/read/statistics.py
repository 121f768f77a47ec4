"""Counts sagas by type and status, and their starts and ends per minute. The counts use indexes, never a scan. The
numbers of sagas that need an operator are those of the overview.

Every count has a limit. If a count reaches its limit, the figure is reported as *at least*. A function environment
caches an answer for half a minute.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial

from msgspec import Struct, field

from sagas.core.gates import NO_PAUSE, Scope
from sagas.core.states import ENDED, SagaStatus
from sagas.core.text import iso
from sagas.engine.clock import Clock
from sagas.engine.operate.breaker_operations import BreakerOperations
from sagas.engine.read.overview import Overview
from sagas.engine.read.overviews import QueueStats, StatsView, TypeStats
from sagas.engine.registry import Registry
from sagas.errors import SagaError
from sagas.messaging.queues import Queues
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import ended_shard
from sagas.store.index.listing import Listing, TimeRange
from sagas.store.pauses import Pauses

DAY = 86_400.0
_RATE = 300.0
"""Seconds over which starts and ends per minute are averaged."""
_MOST = 1_000
"""At most this many sagas are counted per shard. The same limit applies to reads of sagas in flight or in need of
help."""
_GOOD_FOR = 30.0
"""Seconds for which an answer is cached."""
_ABOUT_QUEUES = "messages in queues: SQS counts approximately, including those in flight and delayed"
_ABOUT_FLIGHT = f"sagas in flight: only the {_MOST} that are due first were counted"
_ABOUT_STOPPED = f"DEAD_LETTERED sagas: only {_MOST} sagas that need an operator were read"
_ABOUT_ATTENTION = "sagas that need an operator: as the supervisor counted them at {}"
_ABOUT_COUNTS = f"starts and ends: a type has more than {_MOST} in one shard of the index"
_ABOUT_INDEX = "indexes: they show a write about a second later"


class _Counted(Struct):
    """The counts of one type. ``at_least`` names those that reached their limit."""

    statuses: Counter[str] = field(default_factory=Counter[str])
    at_least: set[str] = field(default_factory=set[str])
    started: int = 0
    ended: int = 0
    attention: int = 0
    oldest: float = 0.0


class Statistics(Struct, frozen=True):
    """Counts sagas."""

    registry: Registry
    control: ControlItems
    listing: Listing
    queues: Queues
    pauses: Pauses
    breakers: BreakerOperations
    overview: Overview
    clock: Clock
    _cached: dict[tuple[str, ...], tuple[float, StatsView]] = field(
        default_factory=dict[tuple[str, ...], tuple[float, StatsView]]
    )

    def of(self, names: Sequence[str], since: float = 0.0) -> StatsView:
        """Count the sagas of some types. ``since``: epoch seconds from which ended sagas count; 0 for the last day."""
        now = self.clock.now()
        key = (*names, str(since))
        cached = self._cached.get(key)
        if cached is not None and now - cached[0] < _GOOD_FOR:
            return cached[1]
        since = since or now - DAY
        counted = self._indexed(names, since, now)
        about = [_ABOUT_INDEX]
        about += [_ABOUT_COUNTS] if any(counts.at_least for counts in counted.values()) else []
        about += self._in_flight(names, counted)
        needing = self.overview.current()
        about.append(_ABOUT_ATTENTION.format(needing["at"]))
        for each in needing["attention"]["types"]:
            if (counts := counted.get(each["type"])) is not None:
                counts.attention = each["count"] - each["continuing"]
                counts.at_least |= {"attention"} if each["at_least"] else set()
        queues = self._queues(names)
        pauses = self.pauses.all()
        types: list[TypeStats] = [
            {
                "type": name,
                "paused": pauses.get(Scope(name), NO_PAUSE).holds(undo=False),
                "statuses": {status.value: counts.statuses[status] for status in SagaStatus},
                "in_flight": sum(counts.statuses[status] for status in SagaStatus if status not in ENDED),
                "attention": counts.attention,
                "started_per_minute": round(counts.started * 60 / _RATE, 2),
                "ended_per_minute": round(counts.ended * 60 / _RATE, 2),
                "oldest_in_flight": iso(counts.oldest) if counts.oldest else None,
                "at_least": sorted(counts.at_least),
            }
            for name, counts in counted.items()
        ]
        view: StatsView = {
            "at": iso(now),
            "since": iso(since),
            "types": types,
            "queues": queues,
            "breakers": [breaker for breaker in self.breakers.list() if breaker["type"] in names],
            "approximate": [*about, _ABOUT_QUEUES],
        }
        self._cached.clear()
        self._cached[key] = now, view
        return view

    def _indexed(self, names: Sequence[str], since: float, now: float) -> dict[str, _Counted]:
        """Count starts, and ends by status, in indexes."""
        shards = range(self.listing.shards.number())
        counted = {name: _Counted() for name in names}
        lately = TimeRange(now - _RATE, now + 1)
        day = TimeRange(since, now + 1)
        starts = [(name, f"{name}#{shard}") for name in names for shard in shards]
        ends = [(name, status, shard) for name in names for status in sorted(ENDED) for shard in shards]
        count = self.listing.counted
        calls = [partial(count, "by_name", key, "created_at", lately, _MOST) for _, key in starts]
        calls += [partial(count, "ended", ended_shard(*end), "ended_at", day, _MOST) for end in ends]
        counts = self.listing.together(calls)
        for (name, _), number in zip(starts, counts, strict=False):
            counted[name].started += number
            counted[name].at_least |= {"started_per_minute"} if number == _MOST else set()
        filled = list[tuple[str, SagaStatus, int]]()
        for (name, status, shard), number in zip(ends, counts[len(starts) :], strict=True):
            counted[name].statuses[status] += number
            counted[name].at_least |= {status.value} if number == _MOST else set()
            filled += [(name, status, shard)] if number else []
        # Only shards that are not empty are counted again.
        calls = [partial(count, "ended", ended_shard(*end), "ended_at", lately, _MOST) for end in filled]
        for (name, _, _), number in zip(filled, self.listing.together(calls), strict=True):
            counted[name].ended += number
            counted[name].at_least |= {"ended_per_minute"} if number == _MOST else set()
        return counted

    def _in_flight(self, names: Sequence[str], counted: dict[str, _Counted]) -> list[str]:
        """Count the sagas in flight, including those that wait for an operator. Return notes about approximate
        figures."""
        ids = self.listing.in_flight(SagaStatus.RUNNING, names, _MOST)
        needing = self.listing.attention(_MOST, None)
        for state in self.control.readable(list(dict.fromkeys([*ids, *needing.saga_ids]))):
            counts = counted.get(state.saga)
            if counts is None:
                continue
            if not state.ended:
                counts.statuses[state.status] += 1
                counts.oldest = min(counts.oldest or state.created_at, state.created_at)
        about = list[str]()
        if len(ids) == _MOST:
            about.append(_ABOUT_FLIGHT)
        if needing.cursor is not None:
            about.append(_ABOUT_STOPPED)
        for counts in counted.values() if about else ():
            counts.at_least |= {status.value for status in SagaStatus if status not in ENDED}
        return about

    def _queues(self, names: Sequence[str]) -> list[QueueStats]:
        """Count the messages in the queues of steps; ``None`` if a queue cannot be read."""
        steps_by_queue: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for name in names:
            definition = self.registry.get(name).definition
            for step in definition.steps if definition.has_code else ():
                steps_by_queue[name, self.queues.representative(name, step.name)].append(step.name)

        def depth(saga: str, step: str) -> int:
            try:
                return self.queues.waiting(saga, step)
            except SagaError:
                return -1

        counts = self.listing.together([partial(depth, *queue) for queue in steps_by_queue])
        return [
            {"type": saga, "steps": steps, "messages": None if count < 0 else count}
            for ((saga, _), steps), count in zip(steps_by_queue.items(), counts, strict=True)
        ]
