"""Verify a random sample of audit trails, each day at 00:00 UTC or on request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagas.engine.engine import Engine
from sagas.engine.read.reports import SampleView
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.telemetry import telemetry

_SPARE = 10.0
"""Seconds reserved at the end of an invocation for finishing the current saga."""
_USUAL = 100
_MOST = 10_000


def verify(event: Mapping[str, Any], context: Any, engine: Engine) -> SampleView:
    """Verify a sample. ``event``: optionally with ``sample``, the number of sagas."""
    sample: object = event.get("sample", _USUAL)
    if not isinstance(sample, int) or isinstance(sample, bool) or not 1 <= sample <= _MOST:
        problem = Problem("$.sample", f"must be a whole number from 1 to {_MOST}")
        raise InvalidRequest("the event is invalid", [problem])
    report = engine.verifier.sample(sample, context.get_remaining_time_in_millis() / 1000 - _SPARE)
    for name, saga_id, bad in report.broken:
        fields = {"saga": name, "saga_id": saga_id, "seq": bad.seq, "what": bad.wrong.value}
        telemetry().logger.error("the audit trail differs from what was written", extra=fields)
    # Write the metric only when needed, because each hour in which a metric is written costs money.
    if report.broken:
        telemetry().measure("AuditMismatch", len(report.broken))
        telemetry().problem("audit trails differ from what was written", sagas=len(report.broken))
    view: SampleView = {
        "verified": report.verified,
        "failed": report.failed,
        "broken": [{"type": name, "saga_id": saga_id} for name, saga_id, _ in report.broken],
    }
    telemetry().logger.info("verified", extra={**view, "broken": len(report.broken)})
    return view
