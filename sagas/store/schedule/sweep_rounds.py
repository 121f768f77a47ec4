"""Progress of sweeps: one item per saga type, ``sweep#{saga type}``, in the table of sagas, whose ids never look so.

Each page that is swept is one write, whose condition is that nobody has written since. It stores the page's last key
together with the sums. So each object is in the sums once, even if a message is delivered twice or a worker dies.
"""

from __future__ import annotations

from msgspec import Struct, field

from sagas.store.connection import Refused, update_of
from sagas.store.control.mapping import attributes_of, number_in, text_in, text_of, time_of
from sagas.store.tables import StoreSettings, Tables, packed, unpacked


class Round(Struct, frozen=True):
    """The current or last round over all objects of a saga type. Times are epoch seconds; 0 means never.

    Args:
        saga: the saga type.
        number: the round's number, from 1; 0 if there is none.
        began_at: when the round began.
        finished_at: when a round last ended.
        moved_at: when the last page was swept, or the round began.
        after: the key after which to continue; empty at the beginning of the prefix.
        sums: the counters so far, by name.
        stopped: why the sweep has stopped; empty while it runs.
        by: a nonce of the last write, by which its writer recognizes it.
    """

    saga: str
    number: int = 0
    began_at: float = 0.0
    finished_at: float = 0.0
    moved_at: float = 0.0
    after: str = ""
    sums: dict[str, int] = field(default_factory=dict[str, int])
    stopped: str = ""
    by: str = ""

    @property
    def under_way(self) -> bool:
        """Whether the round has begun and not ended."""
        return self.began_at > self.finished_at


class SweepRounds:
    """Reads and writes rounds.

    Args:
        tables: the connections.
        settings: the settings, which name the table.
    """

    def __init__(self, tables: Tables, settings: StoreSettings) -> None:
        self._tables = tables
        self._table = settings.sagas_table

    def get(self, saga: str) -> Round:
        """Return a saga type's round, by a consistent read."""
        request = {"TableName": self._table, "Key": _key(saga), "ConsistentRead": True}
        item = self._tables.connection.dispatch("GetItem", request).get("Item", {})
        return Round(
            saga,
            number_in(item, "round"),
            time_of(text_in(item, "began_at")),
            time_of(text_in(item, "finished_at")),
            time_of(text_in(item, "moved_at")),
            text_in(item, "after"),
            unpacked(item["sums"]) if "sums" in item else {},
            text_in(item, "stopped"),
            text_in(item, "by"),
        )

    def move(self, before: Round, after: Round) -> bool:
        """Replace ``before`` with ``after``, which has a nonce of its own; return ``False`` if another worker has
        written since ``before`` was read."""
        values = {
            "round": after.number,
            "began_at": text_of(after.began_at),
            "finished_at": text_of(after.finished_at),
            "moved_at": text_of(after.moved_at),
            "after": after.after or None,
            "stopped": after.stopped or None,
            "by": after.by,
        }
        written = attributes_of({f":{name}": value for name, value in values.items()}) | {":sums": packed(after.sums)}
        change = "SET " + ", ".join(f"#{name[1:]} = {name}" for name in written)
        removed = [f"#{name}" for name, value in values.items() if value is None]
        change += f" REMOVE {', '.join(removed)}" if removed else ""
        unchanged = "#by = :before" if before.by else "attribute_not_exists(#by)"
        values_used = written | attributes_of({":before": before.by})
        try:
            request = update_of(self._table, _key(after.saga), unchanged, change, values_used)
            self._tables.connection.dispatch("UpdateItem", request)
        except Refused:
            return self.get(after.saga).by == after.by  # an earlier try may have succeeded without a response
        return True


def _key(saga: str) -> dict[str, dict[str, str]]:
    return attributes_of({"saga_id": f"sweep#{saga}"})
