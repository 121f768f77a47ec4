"""The function behind the schedule: recovers what stalls, purges what was kept long enough, sweeps what was left
behind."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from sagas.engine.engine import Engine, from_environment
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.recovering import purge, recover
from sagas.handlers.sweeping import sweep
from sagas.handlers.telemetry import telemetry


@lru_cache(maxsize=1)
def _engine() -> Engine:
    seen = telemetry()
    return from_environment(os.environ, seen, seen.plain_logger)


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
