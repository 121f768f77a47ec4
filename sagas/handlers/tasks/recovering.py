"""Recovering and purging: what the supervisor's function is asked for by hand, and what comes by its queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from sagas.engine.engine import Engine
from sagas.engine.read.answers import PurgeView, RecoveryView
from sagas.engine.supervise.purge import PurgeReport
from sagas.engine.supervise.recovery import RecoveryReport, Wanted
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.http.bodies import LONGEST_SILENCE, MOST_RECOVERED, MOST_RECOVERY_ATTEMPTS
from sagas.handlers.http.inputs import checked_id
from sagas.handlers.observability.telemetry import telemetry
from sagas.handlers.tasks.sweeping import is_number
from sagas.messaging.work import DueSagas, Work
from sagas.store.index.listing import IndexPosition

_SPARE = 5.0
"""Seconds kept back at the end of an invocation: the saga at hand must not be left half recovered."""


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


_RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "stale_after": (lambda it: is_number(it) and 0 <= it <= LONGEST_SILENCE, f"a number from 0 to {LONGEST_SILENCE}"),
    "name": (lambda it: isinstance(it, str), "text"),
    "saga_id": (lambda it: isinstance(it, str), "text"),
    "limit": (lambda it: _whole(it, 1, MOST_RECOVERED), f"a whole number from 1 to {MOST_RECOVERED}"),
    "max_attempts": (
        lambda it: _whole(it, 0, MOST_RECOVERY_ATTEMPTS),
        f"a whole number from 0 to {MOST_RECOVERY_ATTEMPTS}",
    ),
}
"""Of each field of a ``recover`` event: when a value of it is right, and what is right."""


def recover(event: Mapping[str, Any], context: Any, engine: Engine) -> RecoveryView:
    """Recover the sagas that are due. ``event``: ``{"task": "recover"}``, optionally with ``stale_after`` in seconds,
    ``name`` (only this type), ``saga_id`` (only this saga), ``max_attempts`` (only those that stalled less often)
    and ``limit`` (how many at most)."""
    given = {field: event[field] for field in _RULES if event.get(field) is not None}
    wrong = {field: _RULES[field][1] for field, value in given.items() if not _RULES[field][0](value)}
    if wrong:
        problems = [Problem(f"$.{field}", f"must be {what}") for field, what in wrong.items()]
        raise InvalidRequest("what is to be recovered does not fit", problems)
    saga_id = checked_id(given["saga_id"]) if "saga_id" in given else None
    wanted = Wanted(given.get("name"), saga_id, given.get("max_attempts"))
    if wanted.name is not None:
        engine.registry.get(wanted.name)
    budget = context.get_remaining_time_in_millis() / 1000 - _SPARE
    patience = float(given["stale_after"]) if "stale_after" in given else None
    limit = given.get("limit", MOST_RECOVERED)
    report = engine.recovery.run(budget, patience, limit, None if wanted == Wanted() else wanted)
    shown = _shown(report)
    _tell(report, shown)
    # Written only when there is something to see: a metric costs by the hours in which it is.
    if report.overdue:
        telemetry().measure("OldestOverdueSaga", round(report.overdue, 3))
    return shown


def find(task: Literal["recover", "purge"], event: Mapping[str, Any], context: Any, engine: Engine) -> dict[str, Any]:
    """Hand out what is due for a task, by the queue ``bulk``; by ``now``, where waits end soon. Returns ``{"found",
    "messages", "finished"}``: how many sagas, in how many messages, and whether that is all."""
    if event["queue"] is not True:
        raise InvalidRequest("the event does not fit", [Problem("$.queue", "must be true, or not there")])
    others = [name for name in event if name not in ("task", "queue")]
    if others:
        raise InvalidRequest("the event does not fit", [Problem(f"$.{name}", "has no meaning here") for name in others])
    report = engine.finder.run(task, context.get_remaining_time_in_millis() / 1000 - _SPARE)
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


def look_after(work: Work, context: Any, engine: Engine) -> None:
    """Recover the sagas that a message of the queue ``bulk`` names, if it is not void."""
    due, budget = DueSagas.of(work), context.get_remaining_time_in_millis() / 1000 - _SPARE
    if _void(due, engine):
        return
    report = engine.recovery.look_after([IndexPosition(*one) for one in due.sagas], budget)
    _tell(report, _shown(report))


def purge_due(work: Work, context: Any, engine: Engine) -> None:
    """Purge the sagas that a message of the queue ``bulk`` names, if it is not void."""
    due, budget = DueSagas.of(work), context.get_remaining_time_in_millis() / 1000 - _SPARE
    if not _void(due, engine):
        report = engine.purger.work_off([IndexPosition(*one) for one in due.sagas], budget)
        telemetry().logger.info("purge", extra=dict(_counts(report)))


def _void(due: DueSagas, engine: Engine) -> bool:
    """Whether a message came too late: what is still due of it is handed out anew, and would be looked at twice."""
    if engine.clock.now() < due.until:
        return False
    telemetry().logger.info("a message came too late: what is still due of it is found again", sagas=len(due.sagas))
    return True


def purge(context: Any, engine: Engine) -> PurgeView:
    """Purge the sagas whose retention is over."""
    report = engine.purger.run(context.get_remaining_time_in_millis() / 1000 - _SPARE)
    shown = _counts(report)
    telemetry().logger.info("purge", extra=dict(shown))
    return shown


def _shown(report: RecoveryReport) -> RecoveryView:
    return {
        "recovered": len(report.recovered),
        "untouched": report.untouched,
        "failed": len(report.failed),
        "left": report.left,
        "saga_ids": report.recovered[:100],
    }


def _counts(report: PurgeReport) -> PurgeView:
    return {
        "purged": len(report.purged),
        "untouched": report.untouched,
        "failed": len(report.failed),
        "left": report.left,
    }


def _tell(report: RecoveryReport, shown: RecoveryView) -> None:
    """Log the counts; count in metrics what a person should see."""
    telemetry().logger.info("recovery", extra={name: count for name, count in shown.items() if name != "saga_ids"})
    for saga, overdue in report.overdue_by_type.items():
        telemetry().measure("OldestOverdueSaga", round(overdue, 3), saga)
    for saga, times in report.by_type.items():
        telemetry().count("SagaRecovered", saga, times)
    if len(report.failed) > report.undeployed:
        telemetry().measure("RecoveryFailed", len(report.failed) - report.undeployed)
    if report.undeployed:
        telemetry().measure("SagaWithoutCode", report.undeployed)
