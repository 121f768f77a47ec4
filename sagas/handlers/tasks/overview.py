"""Write the overview at each tick of the supervisor, and the number of sagas of each type that wait for an operator."""

from __future__ import annotations

from typing import Any

from sagas.engine.engine import Engine
from sagas.handlers.telemetry import telemetry


def write_overview(engine: Engine) -> dict[str, Any]:
    """Count, and write the overview if it has changed. Returns ``{"needing", "written"}``: the number of sagas that
    need an operator, and whether the overview was written."""
    report = engine.overview.run()
    # Write the metric only when needed, because each hour in which a metric is written costs money. A last 0 clears the
    # alarm.
    for saga, count in report.needing.items():
        telemetry().measure("SagasNeedingAttention", count, saga)
    if report.leftover is not None:
        telemetry().measure("LeftoverMessages", report.leftover)
    return {"needing": sum(report.needing.values()), "written": report.written}
