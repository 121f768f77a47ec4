"""The service as the console reads it. Several tabs share a call, and a saga at rest is read only once."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from sagas.client.endpoints import COMMANDS
from sagas.client.transport import pages
from sagas.console.blocks import Blocks
from sagas.console.cache import Cache
from sagas.errors import Conflict, InvalidRequest, NotFound, SagaError

T = TypeVar("T")

_THREADS = 5
_MOST_IN_FULL = 24
"""A list reads at most this many full sagas, for their errors. The next refresh reads the others."""
_SHORTEST_ID = 4
"""The service accepts the start of an id if it has at least this many characters."""
_SETTLES = 120.0
"""Seconds after an action for which the overview may not show what has become of it."""
_WAITING = 50
"""The console shows at most this many sagas that wait for an operator's signal."""
_CROWDED = 1_000
"""With this many sagas in flight, the service finds those that wait only among the newest."""
_SWEEPS = 600.0
"""Lifetime in seconds of the state of sweeps, which run every hour."""
_MOST_INCIDENTS = 24
"""The console reads the sagas of at most this many incidents."""
_MOST_NEEDING = 100
"""The console reads at most this many sagas of an incident, and of a type."""


class Source:
    """Reads the service, and caches its answers. Actions call its ``client`` directly. ``clock``: monotonic seconds.
    ``live``: have the supervisor count for each overview, as on this machine, where that costs nothing."""

    def __init__(self, client: Any, clock: Callable[[], float] = time.monotonic, *, live: bool = False) -> None:
        self.client = client
        self._clock = clock
        self._live = live
        self._acted = -_SETTLES
        self._pool = ThreadPoolExecutor(_THREADS, "sagas-console")
        self._cache = Cache(clock, self._pool.submit)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def forget(self) -> None:
        self._acted = self._clock()
        self._cache.forget()

    def show(self, name: str, saga_id: str) -> Any:
        return self._cache.get(("show", name, saga_id), lambda: self.client.show(name, saga_id))

    def audit(self, saga: Mapping[str, Any]) -> list[Any]:
        """Return the whole audit trail of a saga. The trail is read again only after the saga has changed."""
        name = saga["type"]
        saga_id = saga["saga_id"]
        seen = (saga["updated_at"], saga.get("purged_at"))
        return self._cache.get(("audit", name, saga_id, seen), lambda: list(self.client.audit(name, saga_id)))

    def list(self, **options: Any) -> Any:
        return self._cache.get(("list", repr(sorted(options.items()))), lambda: self.client.list(**options))

    def since(self, name: str, status: str | None, since: str, most: int) -> list[Any]:
        """Return summaries of the latest sagas of a type that started since a time. ``since`` is ISO 8601."""

        def ask() -> list[Any]:
            asked = {"limit": 100, "since": since}
            return _gathered(lambda cursor: self.client.list(name, status, cursor=cursor, **asked), most)[:most]

        return self._cache.get(("since", name, status, since), ask)

    def stats(self, name: str | None) -> Any:
        """Return the counts of a type, or of all types; ``None`` if the service has no counts."""
        return self._cache.get(("stats", name), lambda: _tolerant(lambda: self.client.stats(name), None))

    def stats_of_all(self) -> Any:
        """Return the counts of all types, at most a minute old; ``None`` at first."""
        return self._cache.in_background(
            ("stats", None), lambda: _tolerant(lambda: self.client.stats(None), None), None
        )

    def sweeps(self) -> list[Any]:
        """Return the state of the sweeps, at most ten minutes old; empty at first."""
        nothing: list[Any] = []
        ask = partial(_tolerant, self.client.sweeps, nothing)
        return self._cache.in_background(("sweeps",), ask, nothing, _SWEEPS)

    def together(self, *asks: Callable[[], Any]) -> list[Any]:
        return [future.result() for future in [self._pool.submit(ask) for ask in asks]]

    def overview(self) -> Any:
        """Return what the supervisor found last."""
        ask = partial(self.client.overview, now=True) if self._live else self.client.overview
        return self._cache.get(("overview",), ask, 1.0 if self._live else None)

    def _known(self, kind: str, seen: Hashable, ask: Callable[[], T]) -> T:
        """Return an answer, which is read again only if the overview has changed. ``seen`` is the part of the overview
        that differs if this answer does; ``None`` if there is none. For a while after an action, the overview may not
        show its effect."""
        settling = self._clock() - self._acted < _SETTLES
        return self._cache.get((kind, seen), ask, 1.0 if settling or seen is None else None)

    def _overview_if_read(self) -> Any:
        """Return the overview; ``None`` if it cannot be read, which keeps no other part of a page from being read."""
        try:
            return self.overview()
        except InvalidRequest:
            raise
        except SagaError:
            return None

    def incidents(self, letters: Mapping[str, int | None] | None = None) -> Any:
        """Return the incidents for which sagas need an operator, with counts. ``letters``: numbers of dead letters that
        the answer must not be older than."""
        overview = self._overview_if_read()
        seen = overview and (overview["attention"]["tag"], tuple((letters or {}).items()))
        return self._known("incidents", seen, self.client.incidents)

    def waiting(self) -> list[Any] | None:
        """Return some sagas that wait; ``None`` if too many are in flight to find them."""

        def ask() -> list[Any]:
            return self.client.list(status="WAITING", limit=_WAITING)["sagas"]

        overview = self._overview_if_read()
        if overview is None:
            return self._known("waiting", None, ask)
        in_flight = overview["open"]
        number = in_flight["due"] + in_flight["waiting"] + in_flight["paused"]
        if not 0 < number < _CROWDED:
            return None if number else []
        return self._known("waiting", in_flight["tag"], ask)

    def needing(self, name: str) -> list[Any]:
        """Return sagas of a type that need an operator, at most a hundred."""
        return self._cache.get(("attention", name), lambda: self.client.attention(name, limit=_MOST_NEEDING)["sagas"])

    def of_incidents(self, incidents: Sequence[Mapping[str, Any]], blocks: Blocks) -> list[list[Any]]:
        """Return of each incident the sagas that have waited longest; none of those after the first few incidents."""
        nothing = list[Any]()
        asks = [
            partial(blocks.read, f"the sagas of {incident['type']}", partial(self._of_incident, incident), nothing)
            for incident in incidents[:_MOST_INCIDENTS]
        ]
        return [*self.together(*asks), *([] for _ in incidents[_MOST_INCIDENTS:])]

    def _of_incident(self, incident: Mapping[str, Any]) -> list[Any]:
        kind = {"step": incident["step"], "code": incident["code"], "error": incident["error_type"] or ""}

        def ask() -> list[Any]:
            return self.client.attention(incident["type"], **kind, limit=_MOST_NEEDING)["sagas"]

        seen = incident["type"], *kind.values(), incident["count"], incident["first_seen"], incident["last_seen"]
        return self._known("incident", seen, ask)

    def counts(self) -> dict[str, str]:
        """Return the numbers in the console's menu, by path, at most a minute old."""
        overview = self._cache.in_background(("overview",), self.client.overview, None)
        letters = self._cache.in_background(("all letters",), self._all_letters, 0)
        counts = {"/letters": str(letters)}
        if overview is not None:
            attention = overview["attention"]
            counts["/"] = f"{attention['count']}{'+' * attention['at_least']}"
            counts["/breakers"] = str(len(overview["breakers"]) + overview["left_out"]["breakers"])
        return {place: count for place, count in counts.items() if count != "0"}

    def _all_letters(self) -> int:
        return sum(self.letters(name) or 0 for name in self._letter_queues())

    def _letter_queues(self) -> list[str]:
        names = self._cache.get(("names",), lambda: [saga_type["type"] for saga_type in self.client.types()])
        return [*names, COMMANDS]

    def caller(self) -> str:
        """Return the caller's identity, at most a minute old; empty at first."""
        return self._cache.in_background(("caller",), lambda: _tolerant(lambda: self.client.caller(), ""), "")

    def types(self) -> list[Any]:
        return self._cache.get(("types",), self.client.types)

    def in_flight(self, name: str) -> Any:
        """Return the sagas in flight of a type, grouped by blueprint and position. The service reads each of them."""
        return self._cache.get(("in flight", name), lambda: self.client.in_flight(name))

    def breakers(self) -> list[Any]:
        """Return the circuit breakers."""
        return self._cache.get(("breakers",), self.client.breakers)

    def letters(self, name: str) -> int | None:
        """Return the approximate number of messages in a dead-letter queue; ``None`` if unknown."""
        return self._cache.get(("letters", name), lambda: _tolerant(lambda: self.client.count_letters(name), None))

    def letters_of_all(self) -> dict[str, int | None]:
        """Return :meth:`letters` of all types, and the number of rejected commands if the service takes any."""
        names = self._letter_queues()
        counts = dict(zip(names, self._pool.map(self.letters, names), strict=True))
        return {name: count for name, count in counts.items() if name != COMMANDS or count is not None}

    def look_up(self, text: str) -> Any:
        """Return a saga by its id, the start of its id, or its idempotency key; ``None`` unless exactly one matches."""

        def by_key() -> Any:
            found: list[Any] = self.client.list(idempotency_key=text)["sagas"] if text else []
            return found[0] if len(found) == 1 else None

        if len(text) >= _SHORTEST_ID:
            return _tolerant(lambda: self.client.look_up(text), None) or _tolerant(by_key, None)
        return _tolerant(by_key, None)

    def in_full(self, summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return full sagas of a list, by id. Sagas that are not in the cache are read, but only a few of them."""
        missing = [each for each in summaries if self._cached(each) is None][:_MOST_IN_FULL]

        def ask(one: Mapping[str, Any]) -> None:
            with suppress(SagaError):  # the list is shown without it, and the next refresh reads it
                self.show(one["type"], one["saga_id"])

        for _ in self._pool.map(ask, missing):
            pass
        cached = ((summary["saga_id"], self._cached(summary)) for summary in summaries)
        return {saga_id: saga for saga_id, saga in cached if saga is not None}

    def _cached(self, summary: Mapping[str, Any]) -> Any:
        """Return the saga from the cache, unless the list shows a later change."""
        saga = self._cache.last(("show", summary["type"], summary["saga_id"]), None)
        return saga if saga is not None and saga["updated_at"] >= summary["updated_at"] else None


def counted_short(found: Mapping[str, Any]) -> bool:
    """Whether more sagas may need an operator than incidents have in all."""
    return found["at_least"] or any(incident["at_least"] for incident in found["incidents"])


def _gathered(ask: Callable[[str | None], Any], most: int) -> list[Any]:
    """Read page after page until there are ``most`` sagas or more."""
    found = list[Any]()
    for page in pages(ask):
        found += page["sagas"]
        if len(found) >= most:
            break
    return found


def _tolerant(ask: Callable[[], T], otherwise: T) -> T:
    """Return the answer. If there is none, or if the caller has no permission, return ``otherwise``."""
    try:
        return ask()
    except (NotFound, Conflict, InvalidRequest):
        return otherwise
    except SagaError as error:
        if type(error) is SagaError:  # the call was refused; an unreachable service is still an error
            return otherwise
        raise
