"""Write the overview at each tick of the supervisor."""

from __future__ import annotations

from typing import Any

from sagas.engine.composition.recovering import Recovering


def write_overview(engine: Recovering) -> dict[str, Any]:
    """Count, and write the overview if it has changed. Returns ``{"needing", "written"}``: the number of sagas that
    need an operator, and whether the overview was written."""
    report = engine.overview.run()
    return {"needing": sum(report.needing.values()), "written": report.written}
