"""The function behind the schedule: recovers what stalls, purges what was kept long enough, sweeps what was left
behind, verifies a sample of audit trails."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from sagas.engine.composition.supervisor import Supervisor
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.observability.telemetry import telemetry
from sagas.handlers.observability.tracing import traced, tracer
from sagas.handlers.tasks.finding import find
from sagas.handlers.tasks.publishing import replay
from sagas.handlers.tasks.purging import purge
from sagas.handlers.tasks.recovering import recover
from sagas.handlers.tasks.sweeping import stand, sweep
from sagas.handlers.tasks.verifying import verify


@lru_cache(maxsize=1)
def _engine() -> Supervisor:
    seen = telemetry()
    return Supervisor.from_environment(os.environ, seen, seen.plain_logger, tracer())


@traced("timer", "supervisor")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Do one run of a task. Returns counts of what was found or done."""
    if not isinstance(event, dict):  # pyright: ignore[reportUnnecessaryIsInstance] -- anything can be sent to a function
        raise InvalidRequest("the event must be an object", [Problem("$", "must be an object")])
    task = event.get("task")
    if task in ("recover", "purge") and event.get("queue") is not None:
        return find(task, event, context, _engine())
    if task == "recover":
        return {**recover(event, context, _engine())}
    if task == "purge":
        return {**purge(context, _engine())}
    if task == "sweep":
        return sweep(event, context, _engine())
    if task == "sweeps":
        return stand(_engine())
    if task == "verify":
        return {**verify(event, context, _engine())}
    if task == "replay":
        return replay(event, context, _engine())
    known = "must be recover, purge, sweep, sweeps, verify or replay"
    raise InvalidRequest(f"the task {known}", [Problem("$.task", known)])


def reset() -> None:
    """Forget the engine, so that the next invocation reads the environment anew."""
    _engine.cache_clear()
    tracer.cache_clear()
