"""The function of the schedule: recovers stalled sagas, purges old ones, sweeps orphans, and verifies a sample of audit
trails."""

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
    """Run a task once. Returns its counts."""
    if not isinstance(event, dict):  # pyright: ignore[reportUnnecessaryIsInstance] -- a function can receive anything
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
    expected = "must be recover, purge, sweep, sweeps, verify or replay"
    raise InvalidRequest(f"the task {expected}", [Problem("$.task", expected)])


def reset() -> None:
    """Forget the engine, so that the next invocation reads the environment again."""
    _engine.cache_clear()
    tracer.cache_clear()
