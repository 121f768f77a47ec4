"""The task ``sweep``: orphaned objects; of the supervisor, and of a worker on a part of a round."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, cast

from sagas.authoring.shapes.scalars import has_surrogate
from sagas.engine.composition.core import Core
from sagas.engine.sweep.orphans import SweepReport
from sagas.engine.sweep.sweep import Sweeper, SweepRequest, sweeper_of
from sagas.engine.sweep.sweep_rounds import EndedRound, PartName
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.observability.telemetry import telemetry
from sagas.handlers.tasks.numbers import is_number
from sagas.messaging.work import BULK, Work

_RESERVE = 20.0
"""Seconds kept back, of a long invocation, for the page at hand: it takes a second or two, with retries longer."""

_MOST_NUMBER = 2**53
"""More than there are rounds, or parts."""
_FLAGS = ("now", "dry_run", "force")
_TEXTS = ("type", "start_after")
_LONGEST_TEXT = 1_024
"""Characters: no name is longer, nor a key of S3."""
_NOT_LOGGED = ("sample", "start_after", "type")
"""Keys of objects, which a caller's data may have chosen; log lines call the type ``saga``."""


def sweep(event: Mapping[str, Any], context: Any, engine: Core) -> dict[str, Any]:
    """Sweep what is due, or what the event names. ``event``: ``{"task": "sweep"}``, and if need be ``type`` (only this
    type), ``now`` (whatever the schedule says), ``dry_run``, ``force`` (however many orphans there are),
    ``start_after`` (a key) and ``seconds`` (to take at most). Returns ``{"swept": [...]}``: a report for each saga
    type that was due."""
    given = {name: event[name] for name in (*_FLAGS, *_TEXTS) if event.get(name) is not None}
    kinds = {name: "true or false" for name in _FLAGS if not isinstance(given.get(name, False), bool)}
    for name in _TEXTS:
        text = given.get(name, "")
        if not isinstance(text, str) or len(text) > _LONGEST_TEXT or has_surrogate(text):
            kinds[name] = "text"
    if kinds:
        problems = [Problem(f"$.{name}", f"must be {kind}") for name, kind in kinds.items()]
        raise InvalidRequest("the event does not fit", problems)
    remaining = context.get_remaining_time_in_millis() / 1000
    budget = max(remaining - _RESERVE, remaining / 2)
    seconds: Any = event.get("seconds", budget)
    if not is_number(seconds) or seconds <= 0:
        raise InvalidRequest("the event does not fit", [Problem("$.seconds", "must be a number above 0")])
    request, sweeper = SweepRequest(**given), _sweeper(engine)
    if request.type is not None:
        sweeper.declared(request.type)
    reports = sweeper.run(request, engine.clock.now() + min(budget, seconds))
    for report in reports:
        if report.bucket or report.error:  # else its parts were but sent out
            _tell(report)
    return {"swept": [asdict(report) for report in reports]}


def stand(engine: Core) -> dict[str, Any]:
    """Tell how the sweeps by schedule stand; nothing is swept. Returns ``{"sweeps": [...]}``: one for each saga type
    that declares ``orphans``."""
    return {"sweeps": _sweeper(engine).standing()}


def continue_sweep(details: Mapping[str, Any], context: Any, engine: Core) -> list[dict[str, Any]]:
    """Work on a part of a round that a message names. Returns the details of the message to send next: the same ones,
    when there is more to do; nothing else."""
    saga, numbers = details.get("saga"), [details.get("round"), details.get("part")]
    wrong = [] if isinstance(saga, str) else [Problem("$.saga", "must be text")]
    for field, number in zip(("round", "part"), numbers, strict=True):
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < _MOST_NUMBER:
            wrong.append(Problem(f"$.{field}", "must be a whole number"))
    if wrong:
        raise InvalidRequest("the message does not fit", wrong)
    remaining = context.get_remaining_time_in_millis() / 1000
    now, budget = engine.clock.now(), max(remaining - _RESERVE, remaining / 2)
    name = PartName(cast("str", saga), *cast("list[int]", numbers))
    report, again = _sweeper(engine).work(name, now + budget, now + remaining)
    if report.bucket or report.error:  # else there was nothing to do
        _tell(report)
    return [dict(details)] if again else []


def _sweeper(engine: Core) -> Sweeper:
    """The sweeper, whose parts go through the queue ``bulk`` where there is one."""
    queues = engine.queues

    def send(part: PartName) -> None:
        queues.send_work(BULK, [Work("sweep", {"saga": part.saga, "round": part.round, "part": part.number})])

    return replace(sweeper_of(engine, os.environ), tell=_tell_end, send=send if queues.has_work(BULK) else None)


def _tell(report: SweepReport) -> None:
    """Log the counts; count in a metric what a person should see."""
    seen = telemetry()
    told = {k: v for k, v in asdict(report).items() if k not in _NOT_LOGGED}
    seen.logger.info("swept", extra={"saga": report.type, **told})
    if report.dry_run:
        return
    if report.stopped:
        seen.count("SweepStopped", report.type)
    if report.error or report.errors:
        seen.count("SweepFailed", report.type)


def _tell_end(ended: EndedRound) -> None:
    """Log what a whole round saw and did, and put what is to be watched over weeks into metrics."""
    seen, counts = telemetry(), ended.counts
    known = {"saga": ended.saga, "round": ended.round, "parts": ended.parts, "seconds": ended.seconds}
    seen.logger.info("sweep round ended", extra={**known, **counts})
    seen.measure("SweepListed", counts["listed"], saga=ended.saga)
    seen.measure("SweepOrphans", counts["orphans"] + counts["unreferenced"], saga=ended.saga)
    seen.measure("SweepDuration", ended.seconds, ended.saga)
