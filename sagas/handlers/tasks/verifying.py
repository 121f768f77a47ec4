"""A sample of audit trails, verified each night or by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagas.engine.composition.verifying import Verifying
from sagas.engine.read.reports import SampleView
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.observability.telemetry import telemetry

_SPARE = 10.0
"""Seconds kept back at the end of an invocation: the saga at hand is looked at to the end."""
_USUAL, _MOST = 100, 10_000


def verify(event: Mapping[str, Any], context: Any, engine: Verifying) -> SampleView:
    """Verify the audit trails of sagas taken at random."""
    sample: object = event.get("sample", _USUAL)
    if not isinstance(sample, int) or isinstance(sample, bool) or not 1 <= sample <= _MOST:
        problem = Problem("$.sample", f"must be a whole number from 1 to {_MOST}")
        raise InvalidRequest("the event does not fit", [problem])
    report = engine.verifier.sample(sample, context.get_remaining_time_in_millis() / 1000 - _SPARE)
    for name, saga_id, bad in report.broken:
        fields = {"saga": name, "saga_id": saga_id, "seq": bad.seq, "what": bad.wrong.value}
        telemetry().logger.error("the audit trail is broken", extra=fields)
    # Written only when there is something to see: a metric costs by the hours in which it is.
    if report.broken:
        telemetry().measure("AuditMismatch", len(report.broken))
    shown: SampleView = {
        "verified": report.verified,
        "failed": report.failed,
        "broken": [{"type": name, "saga_id": saga_id} for name, saga_id, _ in report.broken],
    }
    telemetry().logger.info("verified", extra={**shown, "broken": len(report.broken)})
    return shown
