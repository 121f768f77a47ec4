"""How far the queue of each step got: one item for each, beside the sagas, under a key no saga can have."""

from __future__ import annotations

from dataclasses import dataclass

from sagas.core.text import iso
from sagas.store.control.mapping import time_of
from sagas.store.outcomes import Refused
from sagas.store.tables import Tables


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a queue got. Times in epoch seconds, 0 for never.

    Args:
        passed: a message that was sent then has been handled; another environment may know of a later one.
        noted_at: when that was noted.
        resumed_at: when messages could be handled again after failures of the store, or until when at least none was
            handled.
        empty_at: when the queue was last seen to hold nothing.
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
        model = self._tables.lane
        try:
            item = model.get(_key(saga, step), consistent_read=True)
        except model.DoesNotExist:
            return Watermark()
        times = (item.passed, item.noted_at, item.resumed_at, item.empty_at)
        return Watermark(*map(time_of, times))

    def note(self, saga: str, step: str, passed: float, at: float, *, resumed: bool = False) -> None:
        """Write how far an environment has seen the queue to be; the last one to write wins. ``at``: epoch seconds."""
        model = self._tables.lane
        actions = [model.passed.set(iso(passed)), model.noted_at.set(iso(at))]
        if resumed:
            actions.append(model.resumed_at.set(iso(at)))
        model(_key(saga, step)).update(actions=actions)

    def note_rest(self, saga: str, step: str, at: float, *, empty: bool, silent: bool) -> None:
        """Write that a queue was seen to be at rest; the last one to write wins. ``at``: epoch seconds."""
        model = self._tables.lane
        actions = [
            *([model.empty_at.set(iso(at))] if empty else ()),
            *([model.resumed_at.set(iso(at))] if silent else ()),
        ]
        model(_key(saga, step)).update(actions=actions)

    def reserve(self, saga: str, step: str, minute: int, count: int, most: int) -> bool:
        """Reserve messages that may be sent anew into a step's queue within a minute, by all together. ``minute``: its
        number since the epoch. Returns whether there was room for all of them."""
        model = self._tables.lane
        more, anew = [model.resent.set(model.resent + count)], [model.resent.set(count), model.resent_in.set(minute)]
        room = (model.resent_in == minute) & (model.resent <= most - count)
        over = model.resent_in.does_not_exist() | (model.resent_in < minute)
        for actions, condition in ((more, room), (anew, over)):
            try:
                model(_key(saga, step)).update(actions=actions, condition=condition)
            except Refused:
                continue
            return True
        return False


def _key(saga: str, step: str) -> str:
    return f"lane#{saga}#{step}"
