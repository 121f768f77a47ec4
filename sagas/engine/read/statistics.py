"""How many sagas there are, by type and status, and how fast they come and go: counted in indexes, never by a scan.

Every count ends somewhere: what it does not get to is told, as *at least*. A function environment keeps an answer for
half a minute.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from sagas.core.gates import NO_PAUSE, Scope
from sagas.core.states import OVER, SagaStatus
from sagas.core.text import iso
from sagas.engine.clock import Clock
from sagas.engine.operate.breaker_operations import BreakerOperations
from sagas.engine.read.overviews import QueueStats, StatsView, TypeStats
from sagas.engine.read.reader import readable
from sagas.engine.registry import Registry
from sagas.errors import SagaError
from sagas.messaging.queues import Queues
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import ended_shard
from sagas.store.index.listing import Listing, Span
from sagas.store.types.pauses import Pauses

DAY = 86_400.0
_RATE = 300.0
"""Seconds over which starts and ends a minute are averaged."""
_MOST = 1_000
"""To which a shard is counted, and how many sagas in flight, and how many that need a person, are looked at."""
_GOOD_FOR = 30.0
"""Seconds for which an answer is kept."""
_ABOUT_QUEUES = "messages in queues, which SQS counts approximately, those in flight and delayed included"
_ABOUT_FLIGHT = f"what is in flight: only the {_MOST} sagas that the supervisor would look at first were looked at"
_ABOUT_ATTENTION = f"what needs a person: only the {_MOST} that wait longest were looked at"
_ABOUT_COUNTS = f"what ended or was started: a type has more than {_MOST} in one shard of the index"
_ABOUT_INDEX = "indexes, which show a write about a second later"


@dataclass(slots=True)
class _Counted:
    """Counts of one type, and whether one of them was ended before its time."""

    statuses: Counter[str] = field(default_factory=Counter[str])
    at_least: set[str] = field(default_factory=set[str])
    started: int = 0
    ended: int = 0
    attention: int = 0
    oldest: float = 0.0


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts sagas."""

    registry: Registry
    control: ControlItems
    listing: Listing
    queues: Queues
    pauses: Pauses
    breakers: BreakerOperations
    clock: Clock
    _known: dict[tuple[str, ...], tuple[float, StatsView]] = field(
        default_factory=dict[tuple[str, ...], tuple[float, StatsView]]
    )

    def of(self, names: Sequence[str], since: float = 0.0) -> StatsView:
        """Return how many sagas of some types there are. ``since``: epoch seconds from which on those that ended are
        counted; a day ago if 0."""
        now, key = self.clock.now(), (*names, str(since))
        known = self._known.get(key)
        if known is not None and now - known[0] < _GOOD_FOR:
            return known[1]
        since = since or now - DAY
        counted, about = self._indexed(names, since, now), [_ABOUT_INDEX]
        about += [_ABOUT_COUNTS] if any(one.at_least for one in counted.values()) else []
        about += self._in_flight(names, counted)
        queues, pauses = self._queues(names), self.pauses.all()
        types: list[TypeStats] = [
            {
                "type": name,
                "paused": pauses.get(Scope(name), NO_PAUSE).holds(undo=False),
                "statuses": {status.value: one.statuses[status] for status in SagaStatus},
                "in_flight": sum(one.statuses[status] for status in SagaStatus if status not in OVER),
                "attention": one.attention,
                "started_per_minute": round(one.started * 60 / _RATE, 2),
                "ended_per_minute": round(one.ended * 60 / _RATE, 2),
                "oldest_in_flight": iso(one.oldest) if one.oldest else None,
                "at_least": sorted(one.at_least),
            }
            for name, one in counted.items()
        ]
        view: StatsView = {
            "at": iso(now),
            "since": iso(since),
            "types": types,
            "queues": queues,
            "breakers": [one for one in self.breakers.list() if one["type"] in names],
            "approximate": [*about, _ABOUT_QUEUES],
        }
        self._known.clear()
        self._known[key] = now, view
        return view

    def _indexed(self, names: Sequence[str], since: float, now: float) -> dict[str, _Counted]:
        """What is counted in indexes: starts, and ends by status."""
        shards, found = range(self.listing.shards.number()), {name: _Counted() for name in names}
        lately, day = Span(now - _RATE, now + 1), Span(since, now + 1)
        starts = [(name, f"{name}#{shard}") for name in names for shard in shards]
        ends = [(name, status, shard) for name in names for status in sorted(OVER) for shard in shards]
        count = self.listing.counted
        calls = [partial(count, "by_name", key, "created_at", lately, _MOST) for _, key in starts]
        calls += [partial(count, "ended", ended_shard(*end), "ended_at", day, _MOST) for end in ends]
        counts = self.listing.together(calls)
        for (name, _), number in zip(starts, counts, strict=False):
            found[name].started += number
            found[name].at_least |= {"started_per_minute"} if number == _MOST else set()
        some = list[tuple[str, SagaStatus, int]]()
        for (name, status, shard), number in zip(ends, counts[len(starts) :], strict=True):
            found[name].statuses[status] += number
            found[name].at_least |= {status.value} if number == _MOST else set()
            some += [(name, status, shard)] if number else []
        # Only where something ended at all.
        calls = [partial(count, "ended", ended_shard(*end), "ended_at", lately, _MOST) for end in some]
        for (name, _, _), number in zip(some, self.listing.together(calls), strict=True):
            found[name].ended += number
            found[name].at_least |= {"ended_per_minute"} if number == _MOST else set()
        return found

    def _in_flight(self, names: Sequence[str], counted: dict[str, _Counted]) -> list[str]:
        """Count what is in flight by its items, and what needs a person; return what of it is approximate."""
        ids = self.listing.in_flight(SagaStatus.RUNNING, names, _MOST)
        needing = self.listing.attention(_MOST, None)
        attention = set(needing.saga_ids)
        for state in readable(self.control, list(dict.fromkeys([*ids, *needing.saga_ids]))):
            one = counted.get(state.saga)
            if one is None:
                continue
            one.attention += state.saga_id in attention and bool(state.attention)
            if not state.over:
                one.statuses[state.status] += 1
                one.oldest = min(one.oldest or state.created_at, state.created_at)
        about = list[str]()
        if len(ids) == _MOST:
            about.append(_ABOUT_FLIGHT)
        if needing.cursor is not None:
            about.append(_ABOUT_ATTENTION)
        for one in counted.values() if about else ():
            one.at_least |= {status.value for status in SagaStatus if status not in OVER} | {"attention"}
        return about

    def _queues(self, names: Sequence[str]) -> list[QueueStats]:
        """How many messages the queues of steps hold; ``None`` where that cannot be told."""
        lanes: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for name in names:
            for step in self.registry.get(name).definition.steps:
                lanes[name, self.queues.lane(name, step.name)].append(step.name)

        def depth(saga: str, step: str) -> int:
            try:
                return self.queues.waiting(saga, step)
            except SagaError:
                return -1

        counts = self.listing.together([partial(depth, *lane) for lane in lanes])
        return [
            {"type": saga, "steps": steps, "messages": None if count < 0 else count}
            for ((saga, _), steps), count in zip(lanes.items(), counts, strict=True)
        ]
