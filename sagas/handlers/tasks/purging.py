"""Purge sagas on request, and those that messages of the queue ``bulk`` name."""

from __future__ import annotations

from typing import Any

from sagas.engine.engine import Engine
from sagas.engine.read.reports import PurgeView
from sagas.engine.supervise.purge import PurgeReport
from sagas.handlers.tasks.due import SPARE, is_void
from sagas.handlers.telemetry import telemetry
from sagas.messaging.work import DueSagas, Work
from sagas.store.index.listing import IndexPosition


def purge_due(work: Work, context: Any, engine: Engine) -> None:
    """Purge the sagas that a message of the queue ``bulk`` names, unless the message has expired."""
    due = DueSagas.of(work)
    budget = context.get_remaining_time_in_millis() / 1000 - SPARE
    if not is_void(due, engine):
        report = engine.purger.purge_due([IndexPosition(*position) for position in due.sagas], budget)
        telemetry().logger.info("purge", extra=dict(_counts(report)))


def purge(context: Any, engine: Engine) -> PurgeView:
    """Purge the sagas whose retention has expired."""
    report = engine.purger.run(context.get_remaining_time_in_millis() / 1000 - SPARE)
    view = _counts(report)
    telemetry().logger.info("purge", extra=dict(view))
    return view


def _counts(report: PurgeReport) -> PurgeView:
    return {
        "purged": len(report.purged),
        "untouched": report.untouched,
        "failed": len(report.failed),
        "remaining": report.remaining,
    }
