"""The function behind the schedule: recovers what stalls, sweeps what was left behind."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

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


def _stale_after(event: dict[str, Any]) -> float | None:
    value: Any = event.get("stale_after")
    if value is None:
        return None
    if not is_number(value) or not 0 <= value <= _LONGEST_SILENCE:
        problem = Problem("$.stale_after", f"must be a number from 0 to {_LONGEST_SILENCE}")
        raise InvalidRequest("stale_after must be seconds", [problem])
    return float(value)


def _recover(event: dict[str, Any], context: Any) -> dict[str, Any]:
    budget = context.get_remaining_time_in_millis() / 1000 - _SPARE
    report = _engine().recovery.run(budget, _stale_after(event))
    counts = {
        "recovered": len(report.recovered),
        "untouched": report.untouched,
        "failed": len(report.failed),
        "left": report.left,
    }
    telemetry().logger.info("recovery", extra=counts)
    # Written only when there is something to see: a metric costs by the hours in which it is.
    if report.overdue:
        telemetry().measure("OldestDueSaga", round(report.overdue, 3), MetricUnit.Seconds)
    if report.undeployed:
        telemetry().measure("SagaWithoutCode", report.undeployed)
    return counts | {"saga_ids": report.recovered[:100]}


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Do one run of a task.

    Args:
        event: ``{"task": "recover"}``, optionally with ``stale_after`` in seconds; or ``{"task": "sweep"}``, optionally
            with what :func:`sagas.handlers.sweeping.sweep` takes.
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
        return _recover(event, context)
    if task == "sweep":
        return sweep(event, context, _engine())
    raise InvalidRequest("the task must be recover or sweep", [Problem("$.task", "must be recover or sweep")])


def reset() -> None:
    """Forget the engine, so that the next invocation reads the environment anew."""
    _engine.cache_clear()
