"""What the console knows, asked of the service: several tabs at once are one call, and what rests is asked for once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from sagas.console.cache import Cache
from sagas.errors import Conflict, InvalidRequest, NotFound, SagaError

T = TypeVar("T")

_THREADS = 4
_MOST_SHOWN = 24
"""Sagas that one look at a list shows in full, to tell their errors: the next look tells of those that are left."""
_SHORTEST_ID = 4
"""Characters of an id from which on the service looks for what begins so."""
_PAGES_AT_WORK = 3
"""Lists of a hundred sagas at work that are looked through for dead workers."""
_MOST_NEEDING = 200
"""Sagas that need a person which are looked at."""


class Source:
    """The service as the console reads it.

    Args:
        client: of the service, a ``SagaClient``; what changes something goes to it directly.
        clock: seconds that only go up.
    """

    def __init__(self, client: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self.client = client
        self._pool = ThreadPoolExecutor(_THREADS, "sagas-console")
        self._cache = Cache(clock, self._pool.submit)

    def close(self) -> None:
        """End its threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def forget(self) -> None:
        """Ask anew for everything: something was changed."""
        self._cache.forget()

    def show(self, name: str, saga_id: str) -> Any:
        """Return a saga."""
        return self._cache.get(("show", name, saga_id), lambda: self.client.show(name, saga_id))

    def audit(self, saga: Mapping[str, Any]) -> list[Any]:
        """Return the whole audit trail of a saga. It is not read again before the saga has changed."""
        name, saga_id, seen = saga["type"], saga["saga_id"], (saga["updated_at"], saga.get("purged_at"))
        return self._cache.get(("audit", name, saga_id, seen), lambda: list(self.client.audit(name, saga_id)))

    def list(self, **wanted: Any) -> Any:
        """Return a page of the list."""
        return self._cache.get(("list", repr(sorted(wanted.items()))), lambda: self.client.list(**wanted))

    def since(self, name: str, status: str | None, since: str, most: int) -> list[Any]:
        """Return the latest sagas of a type, as lists tell of them, that were started since a time. ``since``: ISO
        8601."""

        def ask() -> list[Any]:
            found, _ = _gathered(
                lambda cursor: self.client.list(name, status, limit=100, cursor=cursor, since=since), most
            )
            return found[:most]

        return self._cache.get(("since", name, status, since), ask)

    def stats(self, name: str | None) -> Any:
        """Return what the service counts of a type, or of all; ``None`` where it does not."""
        return self._cache.get(("stats", name), lambda: _tolerant(lambda: self.client.stats(name), None))

    def stats_of_all(self) -> Any:
        """Return what the service counts of all types, as far as it was asked lately."""
        return self._cache.meanwhile(("stats", None), lambda: _tolerant(lambda: self.client.stats(None), None), None)

    def sweeps(self) -> list[Any]:
        """Return how sweeps stand, as far as it was asked lately."""
        nothing: list[Any] = []
        return self._cache.meanwhile(("sweeps",), lambda: _tolerant(lambda: self.client.sweeps(), nothing), nothing)

    def together(self, *asks: Callable[[], Any]) -> list[Any]:
        """Return the answers of several of these methods, asked at the same time."""
        return [future.result() for future in [self._pool.submit(ask) for ask in asks]]

    def dead_lettered(self, name: str) -> int | None:
        """Return how many sagas of a type are DEAD_LETTERED; ``None`` where that is not known."""
        stats = self.stats(name)
        if not stats or not stats["types"] or "DEAD_LETTERED" in stats["types"][0]["at_least"]:
            return None
        return stats["types"][0]["statuses"].get("DEAD_LETTERED", 0)

    def attention(self) -> tuple[list[Any], bool]:
        """Return the sagas that need a person, the longest waiting first, and whether there may be more of them."""
        return self._cache.get(("attention",), self._needing)

    def _needing(self) -> tuple[list[Any], bool]:
        return _gathered(lambda cursor: self.client.attention(limit=100, cursor=cursor), _MOST_NEEDING)

    def counts(self) -> dict[str, str]:
        """Return how much waits at the console's pages, by their paths, as far as it was asked lately."""
        needed, more = self._cache.meanwhile(("attention",), self._needing, (list[Any](), False))
        breakers = self._cache.meanwhile(("breakers",), self._breakers, list[Any]())
        letters = self._cache.meanwhile(("all letters",), self._all_letters, 0)
        counts = {
            "/": f"{len(needed)}{'+' * more}",
            "/letters": str(letters),
            "/breakers": str(sum(one["state"] != "closed" for one in breakers)),
        }
        return {place: count for place, count in counts.items() if count != "0"}

    def _all_letters(self) -> int:
        """About how many messages all dead-letter queues hold, asked for one after the other."""
        return sum(self.letters(one["type"]) or 0 for one in self.types())

    def caller(self) -> str:
        """Return as whom the console acts, as far as it was asked lately."""
        return self._cache.meanwhile(("caller",), lambda: _tolerant(lambda: self.client.caller(), ""), "")

    def leased(self) -> list[Any]:
        """Return the sagas that workers have, as lists tell of them: the newest few hundred of a status."""
        found = list[Any]()
        for status in ("RUNNING", "COMPENSATING"):
            cursor = None
            for _ in range(_PAGES_AT_WORK):
                page = self.list(status=status, limit=100, cursor=cursor)
                found += [saga for saga in page["sagas"] if saga.get("lease")]
                cursor = page["cursor"]
                if cursor is None:
                    break
        return found

    def types(self) -> list[Any]:
        """Return the saga types."""
        return self._cache.get(("types",), self.client.types)

    def breakers(self) -> list[Any]:
        """Return the circuit breakers; none where the caller may not ask."""
        return self._cache.get(("breakers",), self._breakers)

    def _breakers(self) -> list[Any]:
        return _tolerant(self.client.breakers, cast("list[Any]", []))

    def letters(self, name: str) -> int | None:
        """Return about how many messages are in a dead-letter queue; ``None`` if that is not to be known."""
        return self._cache.get(("letters", name), lambda: _tolerant(lambda: self.client.count_letters(name), None))

    def letters_of_all(self) -> dict[str, int | None]:
        """Return the same of all types."""
        names = [one["type"] for one in self.types()]
        return dict(zip(names, self._pool.map(self.letters, names), strict=True))

    def look_up(self, wanted: str) -> Any:
        """Return a saga by its id, how that begins, or the key that started it; ``None`` if it is not one saga."""

        def by_key() -> Any:
            found: list[Any] = self.client.list(idempotency_key=wanted)["sagas"] if wanted else []
            return found[0] if len(found) == 1 else None

        if len(wanted) >= _SHORTEST_ID:
            return _tolerant(lambda: self.client.look_up(wanted), None) or _tolerant(by_key, None)
        return _tolerant(by_key, None)

    def in_full(self, summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return those sagas of a list in full that are known, by id. A few that are not are asked for."""
        missing = [one for one in summaries if self._known(one) is None][:_MOST_SHOWN]

        def ask(one: Mapping[str, Any]) -> Any:
            return _tolerant(lambda: self.show(one["type"], one["saga_id"]), None)

        for _ in self._pool.map(ask, missing):
            pass
        known = ((one["saga_id"], self._known(one)) for one in summaries)
        return {saga_id: saga for saga_id, saga in known if saga is not None}

    def _known(self, summary: Mapping[str, Any]) -> Any:
        """The saga as it was shown last, unless the list has a later change of it."""
        saga = self._cache.last(("show", summary["type"], summary["saga_id"]), None)
        return saga if saga is not None and saga["updated_at"] >= summary["updated_at"] else None


def _gathered(page_after: Callable[[str | None], Any], most: int) -> tuple[list[Any], bool]:
    """Sagas of page after page, until there are that many, and whether there may be more."""
    found, cursor = list[Any](), None
    while len(found) < most:
        page = page_after(cursor)
        found += page["sagas"]
        cursor = page["cursor"]
        if cursor is None:
            break
    return found, cursor is not None


def _tolerant(ask: Callable[[], T], otherwise: T) -> T:
    """The answer, or something else where there is none, or the caller may not ask."""
    try:
        return ask()
    except (NotFound, Conflict, InvalidRequest):
        return otherwise
    except SagaError as error:
        if type(error) is SagaError:  # refused, or not known here; what is out of reach is told
            return otherwise
        raise
