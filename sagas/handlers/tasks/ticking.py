"""Decide what is due at a tick of the schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from sagas.core.text import epoch
from sagas.errors import InvalidRequest, Problem

_MINUTES: Mapping[str, int] = {"recover": 1, "overview": 1, "purge": 5, "sweep": 60, "verify": 24 * 60}
"""The scheduled tasks, with the minutes between their runs. The supervisor recovers, and writes the overview, at each
tick."""


class Share(Struct, frozen=True):
    """The context of a task that is followed by ``others``: it has an equal part of the remaining time."""

    context: Any
    others: int

    def get_remaining_time_in_millis(self) -> int:
        return self.context.get_remaining_time_in_millis() // (1 + self.others)


def due_tasks(event: Mapping[str, Any], every: float) -> list[dict[str, Any]]:
    """Return the events of the tasks that are due at a tick. A task is due at the first tick of its period. The
    ``event`` has ``time``, a whole minute, and ``sample``, the number of audit trails to verify each day; 0 for none.
    ``every``: seconds between two ticks."""
    time = event.get("time")
    sample = event.get("sample")
    try:
        minute = round(epoch(time if isinstance(time, str) else "") / 60)
    except (ValueError, OverflowError):
        problem = Problem("$.time", "must be a time such as 2026-11-27T00:00:00Z")
        raise InvalidRequest("the event is invalid", [problem]) from None
    if not isinstance(sample, int) or isinstance(sample, bool):
        raise InvalidRequest("the event is invalid", [Problem("$.sample", "must be a whole number")])
    fields: dict[str, dict[str, Any]] = {
        "recover": {"queue": True},
        "purge": {"queue": True},
        "verify": {"sample": sample},
    }
    ticks = every / 60
    due = [task for task, minutes in _MINUTES.items() if minute % minutes < ticks]
    return [{"task": task, **fields.get(task, {})} for task in due if task != "verify" or sample]
