"""Sweep orphaned objects, in the supervisor or, for a scheduled round, in a worker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import asdict, replace

from sagas.engine.engine import Engine
from sagas.engine.sweep.orphans import SweepReport
from sagas.engine.sweep.sweep import Sweeper, SweepRequest, sweeper_of
from sagas.handlers.tasks.events import read_event
from sagas.handlers.telemetry import telemetry
from sagas.messaging.work import BULK, SweepRound, Work
from sagas.store.schedule.sweep_rounds import Round

_RESERVE = 20.0
"""Seconds reserved in a long invocation for the current page. A page takes a second or two, or longer with retries."""

_NOT_LOGGED = ("sample", "start_after", "type")
"""Fields that are not logged: keys, which may contain a caller's data, and ``type``, which log lines call ``saga``."""


class SweepEvent(SweepRequest, frozen=True):
    """A sweep, and the maximum number of seconds for it. Default: the time that the function has."""

    seconds: Annotated[float, Meta(gt=0)] | None = None


def sweep(event: Mapping[str, Any], context: Any, engine: Engine) -> dict[str, Any]:
    """Sweep the due saga types, or the type that the event names. ``event`` has the fields of :class:`SweepEvent`.
    Returns ``{"swept": [...]}``: a report per type."""
    request = read_event(event, SweepEvent)
    remaining = context.get_remaining_time_in_millis() / 1000
    budget = max(remaining - _RESERVE, remaining / 2)
    seconds = budget if request.seconds is None else min(budget, request.seconds)
    sweeper = _sweeper(engine)
    if request.type is not None:
        sweeper.declared(request.type)
    reports = sweeper.run(request, engine.clock.now() + seconds)
    for report in reports:
        if report.bucket or report.error:  # otherwise the round was only sent to the queue
            _log_report(report)
    return {"swept": [asdict(report) for report in reports]}


def sweeps(engine: Engine) -> dict[str, Any]:
    """Return ``{"sweeps": [...]}``: the state of the scheduled sweep of each saga type that declares ``orphans``."""
    return {"sweeps": _sweeper(engine).standing()}


def continue_sweep(work: Work, context: Any, engine: Engine) -> list[dict[str, Any]]:
    """Sweep the round that a message names. If there is more to do, returns the same details, for the next message."""
    round_ = SweepRound.of(work)
    remaining = context.get_remaining_time_in_millis() / 1000
    budget = max(remaining - _RESERVE, remaining / 2)
    report, again = _sweeper(engine).work(round_.saga, round_.round, engine.clock.now() + budget)
    if report.bucket or report.error:  # otherwise there was nothing to do
        _log_report(report)
    return [work.details] if again else []


def _sweeper(engine: Engine) -> Sweeper:
    """Return the sweeper. It sends rounds to the queue ``bulk`` if there is one."""
    queues = engine.queues

    def send(saga: str, number: int) -> None:
        queues.send_work(BULK, [SweepRound(saga, number).work()])

    return replace(
        sweeper_of(engine, os.environ), on_round_ended=_log_end, send=send if queues.has_work(BULK) else None
    )


def _log_report(report: SweepReport) -> None:
    """Log the counts, and write the metrics."""
    observer = telemetry()
    counts = {k: v for k, v in asdict(report).items() if k not in _NOT_LOGGED}
    log = observer.logger.warning if report.orphans else observer.logger.info
    log("swept", extra={"saga": report.type, **counts})
    if report.dry_run:
        return
    if report.stopped:
        observer.count("SweepStopped", report.type)
    if report.error or report.errors:
        observer.count("SweepFailed", report.type)


def _log_end(ended: Round) -> None:
    """Log the counts of a whole round, and write its metrics."""
    observer = telemetry()
    counts = ended.sums
    seconds = round(ended.finished_at - ended.began_at, 3)
    fields = {"saga": ended.saga, "round": ended.number, "seconds": seconds}
    observer.logger.info("sweep round ended", extra={**fields, **counts})
    observer.measure("SweepListed", counts["listed"], saga=ended.saga)
    observer.measure("SweepOrphans", counts["orphans"] + counts["unreferenced"], saga=ended.saga)
    observer.measure("SweepDuration", seconds, ended.saga)
