"""The supervisor's task ``sweep``: orphaned objects."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sagas.authoring.shapes.scalars import has_surrogate
from sagas.engine.engine import Engine
from sagas.engine.orphans import SweepReport
from sagas.engine.sweep import SweepRequest, sweeper_of
from sagas.errors import InvalidRequest, NotFound, Problem
from sagas.handlers.telemetry import telemetry

_RESERVE = 20.0
"""Seconds kept back, of a long invocation, for the page at hand: it takes a second or two, with retries longer."""

_FLAGS = ("now", "dry_run", "force")
_TEXTS = ("saga", "start_after")
_LONGEST_TEXT = 1_024
"""Characters: no name is longer, nor a key of S3."""
_NOT_LOGGED = ("sample", "start_after")
"""Keys of objects: names that a caller's data may have chosen."""


def sweep(event: Mapping[str, Any], context: Any, engine: Engine) -> dict[str, Any]:
    """Sweep what is due, or what the event names.

    Args:
        event: ``{"task": "sweep"}``, and if need be ``saga`` (only this type), ``now`` (whatever the schedule says),
            ``dry_run``, ``force`` (however many orphans there are), ``start_after`` (a key) and ``seconds`` (to take at
            most).
        context: Lambda's context.
        engine: the parts at work.

    Returns:
        ``{"swept": [...]}``: a report for each saga type that was due.

    Raises:
        InvalidRequest: the event does not fit.
        NotFound: there is no such saga type, or it declares no ``orphans``.
    """
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
    request, sweeper = SweepRequest(**given), sweeper_of(engine, os.environ)
    if request.saga is not None:
        known = {definition.name: definition for definition in sweeper.definitions}
        if request.saga not in known:
            raise NotFound(f"there is no saga named {request.saga!r} here")
        if known[request.saga].orphans is None:
            raise NotFound(f"saga {request.saga!r} declares no orphans to sweep")
    reports = sweeper.run(request, engine.clock.now() + min(budget, seconds))
    for report in reports:
        _tell(report)
    return {"swept": [asdict(report) for report in reports]}


def continue_sweep(details: Mapping[str, Any], context: Any, engine: Engine) -> list[dict[str, Any]]:
    """Sweep what a message of the queue ``bulk`` asks for.

    Args:
        details: of the message: what :func:`sweep` takes, but for ``task``.
        context: Lambda's context.
        engine: the parts at work.

    Returns:
        The details of further messages, each of one more ``sweep``.

    Raises:
        InvalidRequest, NotFound: as :func:`sweep`.
    """
    sweep(details, context, engine)
    return []


def is_number(value: Any) -> bool:
    """Tell whether ``value``, of an event, is a number; NaN and the infinities, which some readers let in, are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or math.isfinite(value)


def _tell(report: SweepReport) -> None:
    """Log the counts; count in a metric what a person should see."""
    seen = telemetry()
    seen.logger.info("swept", extra={k: v for k, v in asdict(report).items() if k not in _NOT_LOGGED})
    if report.dry_run:
        return
    if report.stopped:
        seen.count("SweepStopped", report.saga)
    if report.error or report.errors:
        seen.count("SweepFailed", report.saga)
