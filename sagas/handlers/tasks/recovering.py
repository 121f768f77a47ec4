"""Recover sagas on request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Struct

from sagas.core.text import iso
from sagas.engine.engine import Engine
from sagas.engine.read.reports import DueSagaView, RecoveryView
from sagas.engine.supervise.recovery import RecoveryFilter, RecoveryReport
from sagas.handlers.http.bodies import MOST_RECOVERED, within
from sagas.handlers.http.inputs import checked_id
from sagas.handlers.tasks.due import SPARE, recovery_view, report_recovery
from sagas.handlers.tasks.events import read_event
from sagas.handlers.telemetry import telemetry
from sagas.store.control.mapping import due_at


class RecoverEvent(Struct, frozen=True):
    """The stalled sagas to recover now. Default: all.

    Args:
        type: only sagas of this type.
        saga_id: only this saga.
        stale_after: the seconds after which a silent saga has stalled. Default: those that its type declares.
        limit: the maximum number of sagas.
        max_attempts: only sagas that stalled less often.
        dry_run: whether only to list them.
    """

    type: str | None = None
    saga_id: str | None = None
    stale_after: Annotated[float, within("stale_after")] | None = None
    limit: Annotated[int, within("limit")] = MOST_RECOVERED
    max_attempts: Annotated[int, within("max_attempts")] | None = None
    dry_run: bool = False


def recover(event: Mapping[str, Any], context: Any, engine: Engine) -> RecoveryView:
    """Recover due sagas. ``event`` has the fields of :class:`RecoverEvent`."""
    chosen = read_event(event, RecoverEvent)
    saga_id = checked_id(chosen.saga_id) if chosen.saga_id is not None else None
    selection = RecoveryFilter(chosen.type, saga_id, chosen.max_attempts)
    if selection.name is not None:
        engine.registry.get(selection.name)
    if chosen.dry_run:
        return {**recovery_view(RecoveryReport()), "due": _due(engine, selection, chosen.stale_after, chosen.limit)}
    budget = context.get_remaining_time_in_millis() / 1000 - SPARE
    narrow = None if selection == RecoveryFilter() else selection
    report = engine.recovery.run(budget, chosen.stale_after, chosen.limit, narrow)
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
