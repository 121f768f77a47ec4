"""Finding what is due, at each of the supervisor's ticks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sagas.engine.composition.supervisor import Supervisor
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.observability.telemetry import telemetry
from sagas.handlers.tasks.due import SPARE


def find(
    task: Literal["recover", "purge"], event: Mapping[str, Any], context: Any, engine: Supervisor
) -> dict[str, Any]:
    """Hand out what is due for a task, by the queue ``bulk``; by ``now``, where waits end soon. Returns ``{"found",
    "messages", "finished"}``: how many sagas, in how many messages, and whether that is all."""
    if event["queue"] is not True:
        raise InvalidRequest("the event does not fit", [Problem("$.queue", "must be true, or not there")])
    others = [name for name in event if name not in ("task", "queue")]
    if others:
        raise InvalidRequest("the event does not fit", [Problem(f"$.{name}", "has no meaning here") for name in others])
    report = engine.finder.run(task, context.get_remaining_time_in_millis() / 1000 - SPARE)
    shown = {"found": report.found, "messages": report.messages, "finished": report.finished}
    telemetry().logger.info("handed out", extra={"of": task, **shown})
    if report.stranded_shards:
        deployed = engine.finder.listing.shards.deployed
        telemetry().logger.error(
            "shards was lowered: sagas are in higher ones, which are slower to go over; raise it again",
            extra={"deployed": deployed, "in_use": deployed + report.stranded_shards},
        )
        telemetry().measure("ShardsReduced", report.stranded_shards)
    # Written only when there is something to see: a metric costs by the hours in which it is.
    if task == "recover" and report.overdue:
        telemetry().measure("OldestOverdueSaga", round(report.overdue, 3))
    return shown
