"""Progress of each step's queue: one item per queue, in the table of sagas, under a key that no saga can have."""

from __future__ import annotations

from msgspec import Struct

from sagas.core.text import iso
from sagas.store.connection import Refused
from sagas.store.control.mapping import time_of
from sagas.store.tables import Tables


class Watermark(Struct, frozen=True):
    """Progress of a queue. Times are epoch seconds; 0 means never.

    Args:
        passed: the time at which a handled message was sent. Another environment may have handled a later message.
        noted_at: when ``passed`` was stored.
        resumed_at: the end of the last outage of the store, or of the last long time in which no message was handled.
        empty_at: when the queue was last seen empty.
    """

    passed: float = 0.0
    noted_at: float = 0.0
    resumed_at: float = 0.0
    empty_at: float = 0.0


class Watermarks:
    """Reads and writes the watermarks of queues, by saga type and step."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, saga: str, step: str) -> Watermark:
        """Return a step's watermark, by a consistent read; an empty one if it was never written."""
        model = self._tables.watermark
        try:
            item = model.get(_key(saga, step), consistent_read=True)
        except model.DoesNotExist:
            return Watermark()
        times = (item.passed, item.noted_at, item.resumed_at, item.empty_at)
        return Watermark(*map(time_of, times))

    def note(self, saga: str, step: str, passed: float, at: float, *, resumed: bool = False) -> None:
        """Write a queue's progress as an environment sees it. The last write wins. ``at``: epoch seconds."""
        model = self._tables.watermark
        actions = [model.passed.set(iso(passed)), model.noted_at.set(iso(at))]
        if resumed:
            actions.append(model.resumed_at.set(iso(at)))
        model(_key(saga, step)).update(actions=actions)

    def note_rest(self, saga: str, step: str, at: float, *, empty: bool, silent: bool) -> None:
        """Record that a queue is empty, or that its workers handle nothing. The last write wins. ``at``: epoch
        seconds."""
        model = self._tables.watermark
        actions = [
            *([model.empty_at.set(iso(at))] if empty else ()),
            *([model.resumed_at.set(iso(at))] if silent else ()),
        ]
        model(_key(saga, step)).update(actions=actions)

    def reserve(self, saga: str, step: str, minute: int, count: int, most: int) -> bool:
        """Reserve ``count`` messages to send again to a step's queue in a minute, for which all environments together
        can reserve ``most``. ``minute``: the minute's number since the epoch. Returns whether they were reserved."""
        model = self._tables.watermark
        more = [model.resent.set(model.resent + count)]
        first = [model.resent.set(count), model.resent_in.set(minute)]
        room = (model.resent_in == minute) & (model.resent <= most - count)
        new_minute = model.resent_in.does_not_exist() | (model.resent_in < minute)
        for actions, condition in ((more, room), (first, new_minute)):
            try:
                model(_key(saga, step)).update(actions=actions, condition=condition)
            except Refused:
                continue
            return True
        return False


def _key(saga: str, step: str) -> str:
    return f"lane#{saga}#{step}"
