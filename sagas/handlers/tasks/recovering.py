"""Recover sagas on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sagas.core.text import iso
from sagas.engine.engine import Engine
from sagas.engine.read.reports import DueSagaView, RecoveryView
from sagas.engine.supervise.recovery import RecoveryFilter, RecoveryReport
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.http.bodies import LONGEST_SILENCE, MOST_RECOVERED, MOST_RECOVERY_ATTEMPTS
from sagas.handlers.http.inputs import checked_id
from sagas.handlers.tasks.due import SPARE, recovery_view, report_recovery
from sagas.handlers.tasks.numbers import is_number
from sagas.handlers.telemetry import telemetry
from sagas.store.control.mapping import due_at


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "stale_after": (lambda it: is_number(it) and 0 <= it <= LONGEST_SILENCE, f"a number from 0 to {LONGEST_SILENCE}"),
    "type": (lambda it: isinstance(it, str), "text"),
    "saga_id": (lambda it: isinstance(it, str), "text"),
    "limit": (lambda it: _whole(it, 1, MOST_RECOVERED), f"a whole number from 1 to {MOST_RECOVERED}"),
    "dry_run": (lambda it: isinstance(it, bool), "true or false"),
    "max_attempts": (
        lambda it: _whole(it, 0, MOST_RECOVERY_ATTEMPTS),
        f"a whole number from 0 to {MOST_RECOVERY_ATTEMPTS}",
    ),
}
"""The fields of a ``recover`` event, each with a check of its value and a description of valid values."""


def recover(event: Mapping[str, Any], context: Any, engine: Engine) -> RecoveryView:
    """Recover due sagas. ``event``: ``{"task": "recover"}``, optionally with ``stale_after`` in seconds, ``type`` (only
    this type), ``saga_id`` (only this saga), ``max_attempts`` (only sagas that stalled less often), ``limit`` (the
    maximum number of sagas) and ``dry_run`` (only list them)."""
    options = {field: event[field] for field in RULES if event.get(field) is not None}
    wrong = {field: RULES[field][1] for field, value in options.items() if not RULES[field][0](value)}
    if wrong:
        problems = [Problem(f"$.{field}", f"must be {what}") for field, what in wrong.items()]
        raise InvalidRequest("the recovery is invalid", problems)
    saga_id = checked_id(options["saga_id"]) if "saga_id" in options else None
    selection = RecoveryFilter(options.get("type"), saga_id, options.get("max_attempts"))
    if selection.name is not None:
        engine.registry.get(selection.name)
    stale_after = float(options["stale_after"]) if "stale_after" in options else None
    limit = options.get("limit", MOST_RECOVERED)
    if options.get("dry_run"):
        return {**recovery_view(RecoveryReport()), "due": _due(engine, selection, stale_after, limit)}
    budget = context.get_remaining_time_in_millis() / 1000 - SPARE
    report = engine.recovery.run(budget, stale_after, limit, None if selection == RecoveryFilter() else selection)
    view = recovery_view(report)
    report_recovery(report, view)
    # Write the metric only when needed, because each hour in which a metric is written costs money.
    if report.overdue:
        telemetry().measure("OldestOverdueSaga", round(report.overdue, 3))
    return view


def _due(engine: Engine, selection: RecoveryFilter, stale_after: float | None, limit: int) -> list[DueSagaView]:
    """Return the sagas that a recovery would look at."""
    recovery = engine.recovery
    return [
        {
            "saga_id": state.saga_id,
            "type": state.saga,
            "status": state.status.value,
            "attempts": state.recovery.attempts,
            "due_since": iso(due_at(state, recovery.advancer.plan(state).stale_after)),
        }
        for state in recovery.get_sagas_for_recovery(
            limit, selection.max_attempts, stale_after, selection.name, selection.saga_id
        )
    ]
