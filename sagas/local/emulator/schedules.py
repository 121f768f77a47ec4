"""Fires schedules by the clock of the local stack, which can be ahead of the machine's. ministack fires them by the
machine's."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sagas import threads

_POLL = 0.05
_EVERY = 1.0
"""Seconds between two looks at the schedules while the clock does not move."""
_QUEUE = ":sqs:"


class _Kind(NamedTuple):
    """The schedules of a module of ministack: the names of its function that fires what is due, of the schedules, of
    the times at which they fired last, and of the field with the time of their creation."""

    module: Any
    tick: str
    schedules: str
    fired: str
    created: str


class _At:
    """Replaces the module ``time``, at a constant time."""

    def __init__(self, now: float) -> None:
        self._now = now

    def time(self) -> float:
        return self._now

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class Schedules:
    """The enabled rules of EventBridge and schedules of Scheduler that send to a queue, as those do which start sagas.
    Others, such as the supervisor's, keep the machine's time: ``sagas local tick`` calls the supervisor itself."""

    def __init__(self, eventbridge: Any, scheduler: Any) -> None:
        self._eventbridge = eventbridge
        self._scheduler = scheduler
        self._kinds = (
            _Kind(eventbridge, "_tick_scheduled_rules", "_rules", "_rule_last_fired", "CreationTime"),
            _Kind(scheduler, "_tick_schedules", "_schedules", "_schedule_last_fired", "CreationDate"),
        )

    def fire(self, now: float) -> None:
        """Fire each occurrence until ``now`` (epoch seconds), in order and each at its own time."""
        fired_until = 0.0
        while fired_until < (due := self.next_due()) <= now:
            for kind in self._kinds:
                self._fire(kind, due)
            fired_until = due

    def next_due(self) -> float:
        """Return the epoch seconds of the next occurrence; infinite if there is none."""
        dues = (self._due(kind, key, schedule) for kind in self._kinds for key, schedule in self._own(kind))
        return min(dues, default=math.inf)

    def _own(self, kind: _Kind) -> Iterator[tuple[Any, dict[str, Any]]]:
        for key, schedule in list(getattr(kind.module, kind.schedules)._data.items()):
            targets: list[dict[str, Any]] = [*self._eventbridge._targets._data.get(key, ())]
            targets.append(schedule.get("Target") or {})
            if schedule.get("State") == "ENABLED" and any(_QUEUE in target.get("Arn", "") for target in targets):
                yield key, schedule

    def _due(self, kind: _Kind, key: Any, schedule: dict[str, Any]) -> float:
        expression: str = schedule.get("ScheduleExpression") or ""
        fired: dict[Any, float] = getattr(kind.module, kind.fired)
        since = fired.get(key, self._created(kind, schedule))
        once = self._scheduler._at_time_epoch(expression)
        interval = self._eventbridge._parse_rate_seconds(expression)
        fields = self._eventbridge._parse_cron_fields(expression)
        due = math.inf
        if once is not None:
            due = math.inf if key in fired else once
        elif interval is not None:
            due = since + interval
        elif fields is not None:
            occurrence = self._eventbridge._cron_next_fire(fields, datetime.fromtimestamp(since, UTC))
            due = math.inf if occurrence is None else occurrence.timestamp()
        start = self._scheduler._to_epoch(schedule.get("StartDate"))
        end = self._scheduler._to_epoch(schedule.get("EndDate"))
        due = max(due, start or 0.0)
        return math.inf if end is not None and due > end else due

    def _created(self, kind: _Kind, schedule: dict[str, Any]) -> float:
        """Return when a schedule was created; now, if ministack does not know that of a stack's schedule."""
        created = self._scheduler._to_epoch(schedule.setdefault(kind.created, self._eventbridge._now_ts()))
        return math.inf if created is None else created

    def _fire(self, kind: _Kind, now: float) -> None:
        """Have ministack fire those that are due at ``now``. It sees the others as fired at that time."""
        own = dict(self._own(kind))
        fired: dict[Any, float] = getattr(kind.module, kind.fired)
        for key, schedule in own.items():
            if self._scheduler._at_time_epoch(schedule.get("ScheduleExpression") or "") is None:
                fired.setdefault(key, self._created(kind, schedule))
        others = {key: fired.get(key) for key in getattr(kind.module, kind.schedules)._data if key not in own}
        fired.update(dict.fromkeys(others, now))
        kind.module.time = _At(now)
        try:
            getattr(kind.module, kind.tick)()
        finally:
            kind.module.time = time
            for key, last in others.items():
                fired.pop(key)
                fired.update({} if last is None else {key: last})


def follow(schedules: Schedules, clock: Any, report: Path) -> None:
    """Fire the schedules by ``clock`` while it is ahead, in a thread. ``report`` then has the seconds by which the
    clock was ahead, and the epoch seconds of the next occurrence."""
    seen = -1.0
    looks_at = 0.0

    def wait() -> bool:
        time.sleep(_POLL)
        return False

    def act() -> bool:
        nonlocal seen, looks_at
        ahead = clock.ahead()
        now = time.monotonic()
        if ahead == seen and now < looks_at:
            return True
        if ahead:
            schedules.fire(clock.time())
        seen = ahead
        looks_at = now + _EVERY
        draft = report.with_suffix(".draft")
        draft.write_text(f"{ahead:.3f} {schedules.next_due()}\n")
        draft.replace(report)
        return True

    threads.repeat("schedules", wait, act, logging.getLogger(__name__))
