"""The function behind the schedule: recovers what stalls, purges what was kept long enough, sweeps what was left
behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from sagas.engine.answers import PurgeView, RecoveryView
from sagas.engine.engine import Engine, from_environment
from sagas.engine.recovery import Wanted
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.bodies import MOST_RECOVERY_ATTEMPTS
from sagas.handlers.inputs import checked_id
from sagas.handlers.sweeping import is_number, sweep
from sagas.handlers.telemetry import telemetry

_SPARE = 5.0
"""Seconds kept back at the end of an invocation: the saga at hand must not be left half recovered."""


_LONGEST_SILENCE = 366 * 86_400
"""Seconds of silence that may be asked for: no saga waits longer, and what is due by then is still a date."""
_MOST_SAGAS = 1_000
"""What one run takes: as many as it gets through in a minute."""


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


_RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "stale_after": (lambda it: is_number(it) and 0 <= it <= _LONGEST_SILENCE, f"a number from 0 to {_LONGEST_SILENCE}"),
    "name": (lambda it: isinstance(it, str), "text"),
    "saga_id": (lambda it: isinstance(it, str), "text"),
    "limit": (lambda it: _whole(it, 1, _MOST_SAGAS), f"a whole number from 1 to {_MOST_SAGAS}"),
    "max_attempts": (
        lambda it: _whole(it, 0, MOST_RECOVERY_ATTEMPTS),
        f"a whole number from 0 to {MOST_RECOVERY_ATTEMPTS}",
    ),
}
"""Of each field of a ``recover`` event: when a value of it is right, and what is right."""


@lru_cache(maxsize=1)
def _engine() -> Engine:
    seen = telemetry()
    return from_environment(os.environ, seen, seen.plain_logger)


def recover(event: Mapping[str, Any], context: Any, engine: Engine) -> RecoveryView:
    """Recover the sagas that are due.

    Args:
        event: ``{"task": "recover"}``, optionally with ``stale_after`` in seconds, ``name`` (only this type),
            ``saga_id`` (only this saga), ``max_attempts`` (only those that stalled less often) and ``limit`` (how many
            at most).
        context: Lambda's context.
        engine: the parts at work.

    Raises:
        InvalidRequest: the event does not fit.
        NotFound: it names a type or a saga that is not there.
    """
    given = {field: event[field] for field in _RULES if event.get(field) is not None}
    wrong = {field: _RULES[field][1] for field, value in given.items() if not _RULES[field][0](value)}
    if wrong:
        problems = [Problem(f"$.{field}", f"must be {what}") for field, what in wrong.items()]
        raise InvalidRequest("the event does not fit", problems)
    saga_id = checked_id(given["saga_id"]) if "saga_id" in given else None
    wanted = Wanted(given.get("name"), saga_id, given.get("max_attempts"))
    if wanted.name is not None:
        engine.registry.get(wanted.name)
    budget = context.get_remaining_time_in_millis() / 1000 - _SPARE
    patience = float(given["stale_after"]) if "stale_after" in given else None
    limit = given.get("limit", _MOST_SAGAS)
    report = engine.recovery.run(budget, patience, limit, None if wanted == Wanted() else wanted)
    shown: RecoveryView = {
        "recovered": len(report.recovered),
        "untouched": report.untouched,
        "failed": len(report.failed),
        "left": report.left,
        "saga_ids": report.recovered[:100],
    }
    telemetry().logger.info("recovery", extra={name: count for name, count in shown.items() if name != "saga_ids"})
    # Written only when there is something to see: a metric costs by the hours in which it is.
    if report.overdue:
        telemetry().measure("OldestDueSaga", round(report.overdue, 3), MetricUnit.Seconds)
    for saga, overdue in report.overdue_by_type.items():
        telemetry().measure("OldestDueSaga", round(overdue, 3), MetricUnit.Seconds, saga)
    for saga, times in report.by_type.items():
        telemetry().count("SagaRecovered", saga, times)
    if len(report.failed) > report.undeployed:
        telemetry().measure("RecoveryFailed", len(report.failed) - report.undeployed)
    if report.undeployed:
        telemetry().measure("SagaWithoutCode", report.undeployed)
    return shown


def purge(context: Any, engine: Engine) -> PurgeView:
    """Purge the sagas whose retention is over.

    Args:
        context: Lambda's context.
        engine: the parts at work.
    """
    report = engine.purger.run(context.get_remaining_time_in_millis() / 1000 - _SPARE)
    shown: PurgeView = {
        "purged": len(report.purged),
        "untouched": report.untouched,
        "failed": len(report.failed),
        "left": report.left,
    }
    telemetry().logger.info("purge", extra=dict(shown))
    return shown


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Do one run of a task.

    Args:
        event: ``{"task": "recover"}``, optionally with what :func:`recover` takes; ``{"task": "purge"}``; or
            ``{"task": "sweep"}``, optionally with what :func:`sagas.handlers.sweeping.sweep` takes.
        context: Lambda's context.

    Returns:
        Counts of what was done.

    Raises:
        InvalidRequest: the task is unknown, or its arguments do not fit.
        NotFound: it names a saga type that is not deployed, or a saga that does not exist.
    """
    if not isinstance(event, dict):  # pyright: ignore[reportUnnecessaryIsInstance] -- anything can be sent to a function
        raise InvalidRequest("the event must be an object", [Problem("$", "must be an object")])
    task = event.get("task")
    if task == "recover":
        return {**recover(event, context, _engine())}
    if task == "purge":
        return {**purge(context, _engine())}
    if task == "sweep":
        return sweep(event, context, _engine())
    known = "must be recover, purge or sweep"
    raise InvalidRequest(f"the task {known}", [Problem("$.task", known)])


def reset() -> None:
    """Forget the engine, so that the next invocation reads the environment anew."""
    _engine.cache_clear()
