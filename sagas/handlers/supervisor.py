"""The scheduled function. It recovers stalled sagas, purges old ones, sweeps orphans, verifies audit trails, and writes
the overview."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sagas.engine.engine import Engine
from sagas.errors import InvalidRequest, Problem, WrongTables
from sagas.handlers.invocation import warm
from sagas.handlers.tasks.finding import find
from sagas.handlers.tasks.overview import write_overview
from sagas.handlers.tasks.publishing import replay
from sagas.handlers.tasks.purging import purge
from sagas.handlers.tasks.recovering import RecoverEvent, recover
from sagas.handlers.tasks.sweeping import SweepEvent, sweep, sweeps
from sagas.handlers.tasks.ticking import Share, due_tasks
from sagas.handlers.tasks.verifying import verify
from sagas.handlers.telemetry import telemetry, traced, tracer

_FIELDS: Mapping[str, Sequence[str]] = {
    "tick": ("time", "sample"),
    "recover": ("queue", *RecoverEvent.__struct_fields__),
    "overview": (),
    "purge": ("queue",),
    "sweep": SweepEvent.__struct_fields__,
    "sweeps": (),
    "verify": ("sample",),
    "replay": ("since", "type", "cursor"),
}
"""The fields of each task's event. They are checked, because a misspelled field would widen a task to all types."""


@lru_cache(maxsize=1)
def _engine() -> Engine:
    observer = telemetry()
    return Engine.from_environment(os.environ, observer, observer.plain_logger, tracer())


@traced("timer", "supervisor")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run a task once, or at a tick all tasks that are due. Returns the counts of the task, or those of each task."""
    if not isinstance(event, dict):  # pyright: ignore[reportUnnecessaryIsInstance] -- a function can receive anything
        raise InvalidRequest("the event must be an object", [Problem("$", "must be an object")])
    task = event.get("task")
    if not isinstance(task, str) or task not in _FIELDS:
        expected = f"must be one of {', '.join(_FIELDS)}"
        raise InvalidRequest(f"the task {expected}", [Problem("$.task", expected)])
    if unknown := event.keys() - {"task", *_FIELDS[task]}:
        advice = f"expected one of {', '.join(_FIELDS[task])}" if _FIELDS[task] else "this task takes none"
        problems = [Problem(f"$.{field}", f"unknown; {advice}") for field in sorted(map(str, unknown))]
        raise InvalidRequest("the event is invalid", problems)
    return _tick(event, context) if task == "tick" else _run(task, event, context)


def _tick(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run the tasks that are due. If one fails, the others run, and then the invocation fails. Nothing runs on tables
    of another service, which are logged and counted: a failure would only repeat the call."""
    tasks = due_tasks(event, _engine().every)
    try:
        _engine().pauses.claim_tables()
    except WrongTables:
        return {}
    counts = dict[str, Any]()
    failures = list[Exception]()
    for number, due in enumerate(tasks, start=1):
        task = due["task"]
        try:
            counts[task] = _run(task, due, Share(context, others=len(tasks) - number))
        except Exception as error:  # noqa: BLE001 - a sweep that fails must not stop a purge
            failures.append(error)
    if failures:
        raise ExceptionGroup("scheduled tasks failed", failures)
    return counts


def _run(task: str, event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run one task. Returns its counts."""
    _engine().pauses.all()  # refuses the tables of another service
    if task in ("recover", "purge") and event.get("queue") is not None:
        return find(task, event, context, _engine())
    if task == "recover":
        return {**recover(event, context, _engine())}
    if task == "purge":
        return {**purge(context, _engine())}
    if task == "overview":
        return write_overview(_engine())
    if task == "sweep":
        return sweep(event, context, _engine())
    if task == "sweeps":
        return sweeps(_engine())
    if task == "verify":
        return {**verify(event, context, _engine())}
    return replay(event, context, _engine())


def reset() -> None:
    """Forget the engine, so the next invocation reads the environment again."""
    _engine.cache_clear()
    tracer.cache_clear()


warm(lambda: _engine().warm("finder", "recovery", "overview", "purger", "verifier"))
