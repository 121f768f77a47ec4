"""What an operator has to know first: which sagas need attention, what is overdue, and what is stopped.

The supervisor's run counts it from the indexes and writes it to one item. So pages and commands that show it read one
item, however many types and sagas there are. Its price while nothing happens does not depend on the number of types:
a run reads each shard of the indexes once, and only the types, breakers and pauses that it finds there.

Nothing that acts on sagas relies on it, because it is as old as the last run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any

from msgspec import Struct

from sagas.core.gates import Pause, Scope
from sagas.core.text import epoch, iso
from sagas.engine.clock import Clock
from sagas.engine.operate.auto_disable import AutoDisabler
from sagas.engine.operate.breaker import Breakers
from sagas.engine.operate.breaker_operations import breaker_view
from sagas.engine.read.answers import PauseView
from sagas.engine.read.overviews import (
    AttentionCountView,
    LeftoverView,
    OpenBreakerView,
    OpenCountView,
    OverdueSagaView,
    OverdueView,
    OverviewView,
    TypePauseView,
)
from sagas.engine.read.views import pause_view
from sagas.engine.registry import Registry
from sagas.errors import SagaError
from sagas.messaging.queues import Queues
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import NEVER_DUE, STOPPED
from sagas.store.index.listing import IndexPosition, Listing, Needing
from sagas.store.overview import OverviewItem, stored_form
from sagas.store.pauses import Pauses
from sagas.store.types.breakers import breaker_of
from sagas.store.types.streaks import FOREVER, Streak, streak_of

MOST = 1_000
"""The sagas of a type that need attention, and the open sagas, are counted up to this number in each shard."""
LATE = 120.0
"""A saga is overdue if it has been due for this many seconds."""
_MOST_OVERDUE = 100
"""At most this many overdue sagas are read."""
_LARGEST = 12_000
"""Maximum bytes of the overview, which so takes three read units, or half as many if the read may be a second old."""
_LASTS = 600.0
"""Seconds after which the overview is written although nothing has changed, so that it does not seem to be old."""


class OverviewReport(Struct):
    """Result of one run.

    Args:
        needing: by type, how many sagas wait for an operator. A type whose last one has gone since the run before has
            0, and one that had none then has no number.
        leftover: dead letters that no saga needs, of the types for which the run before found some, too, since a saga
            is listed a moment after its message is a dead letter; ``None`` if that run found none.
        written: whether the overview was written.
    """

    needing: dict[str, int]
    leftover: int | None
    written: bool


class Overview(Struct, frozen=True):
    """Counts, stores and reads the overview."""

    registry: Registry
    control: ControlItems
    listing: Listing
    breakers: Breakers
    pauses: Pauses
    auto_disabler: AutoDisabler
    item: OverviewItem
    queues: Queues
    clock: Clock
    every: float

    def current(self) -> OverviewView:
        """Return the overview of the last run or, if there is none yet, what a run would count now."""
        stored: OverviewView | None = self.item.get()
        return _fitted(self._counted(self.listing.needing(MOST), [])) if stored is None else stored

    def run(self) -> OverviewReport:
        """Count, and write the overview if something but its time has changed, or if it is ten minutes old."""
        before: OverviewView | None = self.item.get()
        suspected = {message["type"]: message["count"] for message in before["messages"]} if before else {}
        letters = self._letters(suspected)  # before the sagas that need them are counted
        needing = self.listing.needing(MOST)
        listed = needing[0]
        leftover = {
            name: count - listed.get(name, Needing()).count
            for name, count in letters.items()
            if not listed.get(name, Needing()).at_least
        }
        messages: list[LeftoverView] = [
            {"type": name, "count": count} for name, count in sorted(leftover.items()) if count > 0
        ]
        overview = _fitted(self._counted(needing, messages))
        written = before is None or _differs(before, overview)
        if written:
            self.item.put(overview)
        waiting = {name: counted.count - counted.continuing for name, counted in needing[0].items()}
        types = before["attention"]["types"] if before else ()
        earlier = {counted["type"]: 0 for counted in types if counted["count"] > counted["continuing"]}
        still = sum(min(count, suspected.get(name, 0)) for name, count in leftover.items() if count > 0)
        needy = earlier | {name: count for name, count in waiting.items() if count}
        return OverviewReport(needy, still if suspected else None, written)

    def _letters(self, suspected: Collection[str]) -> dict[str, int]:
        """Count the dead letters of the suspected types, and of another at each run, so that the number of types does
        not change the price. A type whose queue cannot be read is left out."""
        names = [saga.definition.name for saga in self.registry if saga.definition.has_code]
        turn = names[int(self.clock.now() // self.every) % len(names)] if names else ""
        counts = dict[str, int]()
        for name in {turn, *suspected} & {*names}:
            with suppress(SagaError):
                counts[name] = self.queues.dead_letters(name)
        return counts

    def _counted(
        self, needing: tuple[Mapping[str, Needing], Sequence[IndexPosition]], messages: list[LeftoverView]
    ) -> OverviewView:
        now = self.clock.now()
        shards = [*self.listing.due_shards, *self.listing.wait_shards]
        pauses = self.pauses.described(self.pauses.all())
        held = {scope.name: None for scope, pause in pauses.items() if not pause.starts_only}
        paused = [key for name in held for undo in (False, True) for key in self.listing.paused_shards(name, undo=undo)]
        keys = [*shards, *paused, STOPPED]
        read = self.listing.together([partial(self.listing.due_page, key, NEVER_DUE, None, MOST) for key in keys])
        due = read[: len(shards) // 2]
        waits = read[len(shards) // 2 : len(shards)]
        stopped = [position.saga_id for position in read[-1]]
        return {
            "at": iso(now),
            "attention": _attention(*needing, now),
            "open": _open(due, waits, read[len(shards) : -1]),
            "overdue": self._overdue(due, now),
            "breakers": self._open_breakers(stopped, now),
            "pauses": self._pauses(pauses, stopped, now),
            "messages": messages,
            "left_out": {"types": 0, "overdue": 0, "breakers": 0, "pauses": 0, "messages": 0},
        }

    def _overdue(self, due: Sequence[Sequence[IndexPosition]], now: float) -> OverdueView:
        """Return the sagas that have been due for two minutes, and read some of them."""
        latest = iso(now - LATE)
        late = sorted(position for shard in due for position in shard if position.sort <= latest)
        some = {position.saga_id: position.sort for position in late[:_MOST_OVERDUE]}
        sagas: list[OverdueSagaView] = [
            {
                "type": state.saga,
                "saga_id": state.saga_id,
                "seq": state.seq,
                "status": state.status.value,
                "due_since": some[state.saga_id],
                "lease_expires_at": iso(state.lease.expires_at) if state.lease else None,
            }
            for state in (self.control.readable([*some]) if some else ())
            if not state.ended
        ]
        cut = any(len(shard) == MOST and shard[-1].sort <= latest for shard in due)
        return {"count": len(late), "at_least": cut, "sagas": sagas}

    def _open_breakers(self, stopped: Sequence[str], now: float) -> list[OpenBreakerView]:
        """Return the breakers that are not closed. The index may be a second behind the items."""
        states = self.breakers.states_of([place for key in stopped if (place := breaker_of(key))])
        return [breaker_view(place, state, now) for place, state in states.items() if not state.closed]

    def _pauses(self, pauses: Mapping[Scope, Pause], stopped: Sequence[str], now: float) -> list[TypePauseView]:
        """Return the pauses of operators, and those that the library has set on starts."""
        views: list[TypePauseView] = [
            {**pause_view(scope, pause), "type": scope.name} for scope, pause in pauses.items()
        ]
        for name in filter(None, map(streak_of, stopped)):
            streak = self.auto_disabler.streak(name, now)
            if streak.paused_until > now:
                views.append({**automatic_view(name, streak), "type": name})
        return sorted(views, key=lambda view: (view["type"], view["step"] or "", view["saga_id"] or ""))


def _differs(before: OverviewView, after: OverviewView) -> bool:
    """Whether something but the time has changed, or the overview would seem to be old."""
    old = epoch(after["at"]) - epoch(before["at"]) >= _LASTS
    return old or before != {**after, "at": before["at"]}


def automatic_view(name: str, streak: Streak) -> PauseView:
    """Return the pause of a type's starts that the library has set because its sagas keep failing."""
    reason = f"{len(streak.failures) or 'too many'} sagas in a row failed"
    last = streak.failures[-1].at if streak.failures else 0.0  # the list can be emptied by hand
    pause = Pause(last, "auto_disable", reason, starts_only=True)
    return pause_view(Scope(name), pause, streak.paused_until if streak.paused_until < FOREVER else 0.0)


def _attention(needing: Mapping[str, Needing], positions: Sequence[IndexPosition], now: float) -> AttentionCountView:
    """Return the sagas that need attention, most first."""
    cut = any(counted.at_least for counted in needing.values())
    # If not all were read, others than those may have come or gone.
    tag = _tag(positions, iso(now) if cut else "")
    types = sorted(needing.items(), key=lambda each: (-each[1].count, each[0]))
    return {
        "count": sum(counted.count for counted in needing.values()),
        "at_least": cut,
        "types": [
            {
                "type": name,
                "count": counted.count,
                "continuing": counted.continuing,
                "at_least": counted.at_least,
            }
            for name, counted in types
        ],
        "tag": tag,
    }


def _open(
    due: Sequence[Sequence[IndexPosition]],
    waits: Sequence[Sequence[IndexPosition]],
    paused: Sequence[Sequence[IndexPosition]],
) -> OpenCountView:
    return {
        "due": sum(map(len, due)),
        "waiting": sum(map(len, waits)),
        "paused": sum(map(len, paused)),
        "at_least": any(len(shard) == MOST for shard in (*due, *waits, *paused)),
        "tag": _tag([position for shard in waits for position in shard]),
    }


def _tag(positions: Sequence[IndexPosition], more: str = "") -> str:
    """Return a text that differs for other positions."""
    text = "\n".join(f"{position.sort} {position.saga_id}" for position in positions)
    return sha256(f"{text}\n{more}".encode()).hexdigest()[:16]


def _fitted(overview: OverviewView) -> OverviewView:
    """Return the overview with as many entries of its lists as fit. The longest list loses its last entry first."""
    lists: dict[str, list[Any]] = {
        "types": overview["attention"]["types"],
        "overdue": overview["overdue"]["sagas"],
        "breakers": overview["breakers"],
        "pauses": overview["pauses"],
        "messages": overview["messages"],
    }
    sizes = {name: [len(stored_form(entry)) + 1 for entry in entries] for name, entries in lists.items()}
    size = len(stored_form(overview))
    while size > _LARGEST:
        longest = max(sizes, key=lambda name: sum(sizes[name]))
        size -= sizes[longest].pop()
        lists[longest].pop()
        overview["left_out"][longest] += 1
    return overview
