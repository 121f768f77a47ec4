"""Find due sagas in each run of the supervisor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec.structs import asdict

from sagas.engine.engine import Engine
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.tasks.due import LATE, SPARE
from sagas.handlers.telemetry import telemetry


def find(task: Literal["recover", "purge"], event: Mapping[str, Any], context: Any, engine: Engine) -> dict[str, Any]:
    """Send the due sagas of a task to the queue ``bulk``, or to ``now`` if their wait ends soon. A purge also deletes
    leftovers. Returns ``{"found", "messages", "finished"}``: the numbers of sagas and messages, and whether all were
    sent."""
    if event["queue"] is not True:
        raise InvalidRequest("the event is invalid", [Problem("$.queue", "must be true or absent")])
    others = [name for name in event if name not in ("task", "queue")]
    if others:
        problems = [Problem(f"$.{name}", "is not supported with queue") for name in others]
        raise InvalidRequest("the event is invalid", problems)
    report = engine.finder.run(task, context.get_remaining_time_in_millis() / 1000 - SPARE)
    view = {"found": report.found, "messages": report.messages, "finished": report.finished}
    telemetry().logger.info("due sagas sent", extra={"of": task, **view})
    if report.stranded_shards:
        deployed = engine.finder.listing.shards.deployed
        telemetry().logger.error(
            "shards was reduced, but higher shards are still in use, and reading them is slow; raise it again",
            extra={"deployed": deployed, "in_use": deployed + report.stranded_shards},
        )
        telemetry().measure("ShardsReduced", report.stranded_shards)
    # Write the metric only when needed, because each hour in which a metric is written costs money.
    if task == "recover" and report.overdue:
        telemetry().measure("OldestOverdueSaga", round(report.overdue, 3))
        if report.overdue > LATE:
            telemetry().problem("a stalled saga waits for its recovery", seconds=round(report.overdue))
    if task == "purge":
        deleted = engine.leftover_finder.run(context.get_remaining_time_in_millis() / 1000 - SPARE)
        if deleted.pages:
            telemetry().logger.info("leftovers deleted", extra=asdict(deleted))
    return view
