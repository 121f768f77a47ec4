"""Which saga types are paused: one item for all of them, so that an environment reads one however many there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sagas.core.times import iso
from sagas.store.documents import packed, unpacked
from sagas.store.mapping import Item, time_of
from sagas.store.tables import Tables

_KEY: Item = {"saga_id": {"S": "pauses"}}
"""Beside the sagas, under a key no saga can have."""
_GOOD_FOR = 5.0
"""Seconds for which an answer is kept: by then everybody stops, or goes on."""
_OF = "of:"
"""What precedes a type's name in the item, so that none is taken for the item's key."""


@dataclass(frozen=True, slots=True)
class Pause:
    """That a saga type is paused, or was. Times are epoch seconds; 0 means never.

    Args:
        at: since when.
        by: who paused it.
        reason: why.
        starts: whether new sagas are accepted meanwhile; they wait, too.
        undos: whether undos wait, too.
        resumed_at: when it went on; 0 while it is paused.
    """

    at: float = 0.0
    by: str = ""
    reason: str = ""
    starts: bool = False
    undos: bool = False
    resumed_at: float = 0.0

    @property
    def on(self) -> bool:
        """Whether the type is paused."""
        return bool(self.at) and not self.resumed_at


NO_PAUSE = Pause()


class Pauses:
    """The pauses of all saga types, cached for a few seconds.

    Args:
        tables: where they are kept.
        table: the name of the table of sagas.
        now: epoch seconds.
    """

    def __init__(self, tables: Tables, table: str, now: Callable[[], float]) -> None:
        self._tables = tables
        self._table = table
        self._now = now
        self._known: tuple[float, dict[str, Pause]] | None = None

    def all(self, *, fresh: bool = False) -> dict[str, Pause]:
        """Return the pauses by saga type, those that are over included, as they were a moment ago: what is believed for
        seconds may as well be read where it costs half.

        Args:
            fresh: as they are, by a consistent read.

        Raises:
            Unavailable: the table is out of reach.
        """
        if fresh or self._known is None or self._now() - self._known[0] >= _GOOD_FOR:
            request = {"TableName": self._table, "Key": _KEY, "ConsistentRead": fresh}
            item: Item = self._tables.connection.dispatch("GetItem", request).get("Item") or {}
            found = dict[str, Pause]()
            for name, stored in item.items():
                if not name.startswith(_OF):
                    continue
                told: dict[str, Any] = unpacked(stored)
                at, resumed_at = time_of(told["at"]), time_of(told.get("resumed_at"))
                said = told.get("by", ""), told.get("reason", "")
                found[name.removeprefix(_OF)] = Pause(at, *said, told["starts"], told["undos"], resumed_at)
            self.believe(found)
            return found
        return self._known[1]

    def believe(self, pauses: dict[str, Pause]) -> None:
        """Keep an answer for a few seconds."""
        self._known = self._now(), pauses

    def get(self, name: str, *, fresh: bool = False) -> Pause:
        """Return the pause of a saga type; :data:`NO_PAUSE` if it never was paused. Otherwise as :meth:`all`."""
        return self.all(fresh=fresh).get(name, NO_PAUSE)

    def put(self, name: str, pause: Pause) -> None:
        """Store the pause of a saga type, or its end.

        Raises:
            Ambiguous, Unavailable: the table is out of reach.
        """
        stored = {
            "at": iso(pause.at),
            "by": pause.by,
            "reason": pause.reason,
            "starts": pause.starts,
            "undos": pause.undos,
            "resumed_at": iso(pause.resumed_at) if pause.resumed_at else None,
        }
        request: dict[str, Any] = {
            "TableName": self._table,
            "Key": _KEY,
            "UpdateExpression": "SET #type = :pause",
            "ExpressionAttributeNames": {"#type": f"{_OF}{name}"},
            "ExpressionAttributeValues": {":pause": packed(stored)},
        }
        self._tables.connection.dispatch("UpdateItem", request)
        if self._known is not None:  # reading it back could find what was there before
            self.believe({**self._known[1], name: pause})
