"""The function behind the schedule: recovers what stalls, purges what was kept long enough, sweeps what was left
behind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from sagas.engine.answers import PurgeView, RecoveryView
from sagas.engine.engine import Engine, from_environment
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.sweeping import is_number, sweep
from sagas.handlers.telemetry import telemetry

_SPARE = 5.0
"""Seconds kept back at the end of an invocation: the saga at hand must not be left half recovered."""


_LONGEST_SILENCE = 366 * 86_400
"""Seconds of silence that may be asked for: no saga waits longer, and what is due by then is still a date."""


@lru_cache(maxsize=1)
def _engine() -> Engine:
    seen = telemetry()
    return from_environment(os.environ, seen, seen.plain_logger)


def recover(event: Mapping[str, Any], context: Any, engine: Engine) -> RecoveryView:
    """Recover the sagas that are due.

    Args:
        event: ``{"task": "recover"}``, optionally with ``stale_after`` in seconds.
        context: Lambda's context.
        engine: the parts at work.

    Raises:
        InvalidRequest: the event does not fit.
    """
    stale_after: Any = event.get("stale_after")
    if stale_after is not None and not (is_number(stale_after) and 0 <= stale_after <= _LONGEST_SILENCE):
        problem = Problem("$.stale_after", f"must be a number from 0 to {_LONGEST_SILENCE}")
        raise InvalidRequest("stale_after must be seconds", [problem])
    budget = context.get_remaining_time_in_millis() / 1000 - _SPARE
    report = engine.recovery.run(budget, None if stale_after is None else float(stale_after))
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
        event: ``{"task": "recover"}``, optionally with ``stale_after`` in seconds; ``{"task": "purge"}``; or
            ``{"task": "sweep"}``, optionally with what :func:`sagas.handlers.sweeping.sweep` takes.
        context: Lambda's context.

    Returns:
        Counts of what was done.

    Raises:
        InvalidRequest: the task is unknown, or its arguments do not fit.
        NotFound: it names a saga type that is not deployed.
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
