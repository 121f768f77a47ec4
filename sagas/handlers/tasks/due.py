"""Recover the due sagas that messages of the queues ``bulk`` and ``now`` name."""

from __future__ import annotations

from typing import Any

from sagas.engine.engine import Engine
from sagas.engine.read.reports import RecoveryView
from sagas.engine.supervise.recovery import RecoveryReport
from sagas.handlers.telemetry import telemetry
from sagas.messaging.work import DueSagas, Work
from sagas.store.index.listing import IndexPosition

LATE = 900.0
"""A saga or a message may be late by this many seconds before that is a problem of the service."""
SPARE = 5.0
"""Seconds reserved at the end of an invocation for finishing the current saga."""


def recover_due(work: Work, context: Any, engine: Engine) -> None:
    """Recover the sagas that a message of the queue ``bulk`` names, unless the message has expired."""
    due = DueSagas.of(work)
    budget = context.get_remaining_time_in_millis() / 1000 - SPARE
    if is_void(due, engine):
        return
    report = engine.recovery.recover_due([IndexPosition(*position) for position in due.sagas], budget)
    report_recovery(report, recovery_view(report))


def is_void(due: DueSagas, engine: Engine) -> bool:
    """Whether a message has expired. Sagas that are still due are found again, and would be handled twice."""
    if engine.clock.now() < due.until:
        return False
    telemetry().logger.info("a message came too late; sagas still due are found again", sagas=len(due.sagas))
    return True


def recovery_view(report: RecoveryReport) -> RecoveryView:
    """Return the counts of a run."""
    return {
        "recovered": len(report.recovered),
        "given_up": len(report.given_up),
        "untouched": report.untouched,
        "failed": len(report.failed),
        "remaining": report.remaining,
        "saga_ids": report.recovered[:100],
    }


def report_recovery(report: RecoveryReport, view: RecoveryView) -> None:
    """Log the counts, and write the metrics."""
    telemetry().logger.info("recovery", extra={name: count for name, count in view.items() if name != "saga_ids"})
    for saga, overdue in report.overdue_by_type.items():
        telemetry().measure("OldestOverdueSaga", round(overdue, 3), saga)
    if report.failed:
        telemetry().measure("RecoveryFailed", len(report.failed))
    if report.undeployed:
        telemetry().measure("SagaWithoutCode", report.undeployed)
        telemetry().problem("sagas are in flight whose type is not deployed", sagas=report.undeployed)
    if report.waiting > LATE:
        telemetry().problem("a message waits although nothing holds it back", seconds=round(report.waiting))
