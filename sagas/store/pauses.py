"""All pauses, in one item. So an environment reads only one item, however many pauses there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sagas.core.gates import NO_PAUSE, Pause, Scope
from sagas.core.states import SagaState
from sagas.core.text import iso
from sagas.store.control.mapping import Item, time_of
from sagas.store.tables import Tables, packed, unpacked

_KEY: Item = {"saga_id": {"S": "pauses"}}
"""The key of the item in the table of sagas, which no saga can have."""
_GOOD_FOR = 5.0
"""Seconds for which pauses are cached. After that time, a pause or its end takes effect everywhere."""
_OF = "of:"
"""Prefix of scopes in the item. It distinguishes them from the item's key."""
SETTLING = 86_400.0
"""Seconds for which an ended pause is kept, because the index of paused sagas lags."""


class Pauses:
    """All pauses, cached for a few seconds.

    Args:
        tables: the tables in which the pauses are stored.
        table: the name of the table of sagas.
        now: epoch seconds.
    """

    def __init__(self, tables: Tables, table: str, now: Callable[[], float]) -> None:
        self._tables = tables
        self._table = table
        self._now = now
        self._cached: tuple[float, dict[Scope, Pause]] | None = None

    def all(self, *, fresh: bool = False) -> dict[Scope, Pause]:
        """Return the pauses, including those that ended within the last day. Unless ``fresh``, they may come from the
        cache or an eventually consistent read, which costs half."""
        if not fresh and self._cached is not None and self._now() - self._cached[0] < _GOOD_FOR:
            return self._cached[1]
        request = {"TableName": self._table, "Key": _KEY, "ConsistentRead": fresh}
        item: Item = self._tables.connection.dispatch("GetItem", request).get("Item") or {}
        pauses = {
            Scope.parse(text.removeprefix(_OF)): _pause_of(unpacked(stored))
            for text, stored in item.items()
            if text.startswith(_OF)
        }
        self.cache(pauses)
        return pauses

    def cache(self, pauses: dict[Scope, Pause]) -> None:
        """Cache the pauses for a few seconds."""
        self._cached = self._now(), pauses

    def get(self, scope: Scope, *, fresh: bool = False) -> Pause:
        """Return the pause of a scope; :data:`NO_PAUSE` if there is none. Otherwise as :meth:`all`."""
        return self.all(fresh=fresh).get(scope, NO_PAUSE)

    def holding(self, name: str, step: str, saga_id: str, *, undo: bool, fresh: bool = False) -> Scope | None:
        """Return the widest scope whose pause blocks a step or its undo; ``None`` if none does."""
        pauses = self.all(fresh=fresh)
        scopes = (Scope(name), Scope(name, step), Scope(name, saga_id=saga_id)) if pauses else ()
        return next((scope for scope in scopes if pauses.get(scope, NO_PAUSE).holds(undo=undo)), None)

    def holding_back(self, state: SagaState, *, fresh: bool = False) -> Scope | None:
        """Return the widest scope whose pause blocks a saga's next step or undo; ``None`` if none does. See
        :meth:`holding`."""
        step = state.current.name if state.current else ""
        return self.holding(state.saga, step, state.saga_id, undo=state.undoing, fresh=fresh)

    def put(self, scope: Scope, pause: Pause) -> None:
        """Store a pause or its end. Pauses that ended more than a day ago are removed."""
        pauses = {**self.all(), scope: pause}
        old = [other for other, its in pauses.items() if not its.on and self._now() - its.resumed_at > SETTLING]
        names = {f"#old{number}": f"{_OF}{other.text}" for number, other in enumerate(old)}
        remove = f" REMOVE {', '.join(names)}" if names else ""
        request: dict[str, Any] = {
            "TableName": self._table,
            "Key": _KEY,
            "UpdateExpression": f"SET #scope = :pause{remove}",
            "ExpressionAttributeNames": {"#scope": f"{_OF}{scope.text}", **names},
            "ExpressionAttributeValues": {":pause": packed(_stored(pause))},
        }
        self._tables.connection.dispatch("UpdateItem", request)
        # Do not read the item again: an eventually consistent read may return the previous pauses.
        self.cache({other: its for other, its in pauses.items() if other not in old})


def _stored(pause: Pause) -> dict[str, Any]:
    return {
        "at": iso(pause.at),
        "by": pause.by,
        "reason": pause.reason,
        "starts_only": pause.starts_only,
        "starts": pause.starts,
        "undos": pause.undos,
        "resumed_at": iso(pause.resumed_at) if pause.resumed_at else None,
    }


def _pause_of(stored: dict[str, Any]) -> Pause:
    at, resumed_at = time_of(stored["at"]), time_of(stored["resumed_at"])
    kinds = stored["starts_only"], stored["starts"], stored["undos"]
    return Pause(at, stored["by"], stored["reason"], *kinds, resumed_at)
