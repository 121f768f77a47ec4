"""The function that tells a service's events: from the stream of the control table, and once more from the journals."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from sagas.core.times import epoch
from sagas.engine.engine import Engine, from_environment
from sagas.engine.telling import Told, moved_past, told_of_change, told_of_entries, told_of_step
from sagas.errors import InvalidRequest, NotFound, Problem
from sagas.handlers.telemetry import frames, telemetry
from sagas.handlers.tracing import traced, tracer
from sagas.handlers.warming import warm
from sagas.messaging.bus import LARGEST, EventBus

_PAGE = 100
_RESERVE = 20_000
"""Milliseconds of an invocation that must be left to begin with a page of a replay."""


@lru_cache(maxsize=1)
def _engine() -> Engine:
    seen = telemetry()
    return from_environment(os.environ, seen, seen.plain_logger, tracer())


@lru_cache(maxsize=1)
def _bus() -> EventBus:
    return EventBus(os.environ["SAGAS_EVENT_BUS"], os.environ["SAGAS_EVENT_SOURCE"])


@traced("other", "outbox")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Tell events.

    Args:
        event: of the stream of the control table; or ``{"task": "replay", "since": TIME}``, by hand, optionally with
            ``name`` of a saga type and the ``cursor`` of the answer before.
        context: Lambda's context.

    Returns:
        ``{"told": N}``: how many events; of a replay also ``sagas``, how many were looked at, and ``cursor``, ``None``
        at the end.

    Raises:
        InvalidRequest: it is neither, or its fields do not fit.
        NotFound: it names a saga type that is not deployed.
        Unavailable: EventBridge does not take them. Lambda repeats what the stream brought until it does.
    """
    records: Any = event.get("Records")
    if not isinstance(records, list):
        if event.get("task") == "replay":
            return _replay(event, context)
        told = "must be replay, or there must be records of a stream"
        raise InvalidRequest(f"the task {told}", [Problem("$.task", told)])
    found: list[Told] = []
    for record in cast("list[dict[str, Any]]", records):
        images: Mapping[str, Any] = record.get("dynamodb", {})
        old, new = images.get("OldImage") or None, images.get("NewImage") or None
        try:
            found += told_of_change(old, new)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            # It would come again for a day, and hold up all behind it.
            telemetry().logger.error("a change cannot be told", error=type(error).__name__, at=frames(error))
            telemetry().measure("EventUntold", 1)
            continue
        if _asked("steps") and (seqs := moved_past(old, new)):
            saga_id = str(cast("Mapping[str, Any]", new)["saga_id"]["S"])
            entries = _engine().journal.entries_of((saga_id, seq) for seq in seqs).get(saga_id, {})
            found += [one for seq in sorted(entries) for one in told_of_step(entries[seq])]
    return {"told": _bus().put((one.name, _full(one)) for one in found)}


def _replay(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    since, name, cursor = event.get("since"), event.get("name"), event.get("cursor")
    problems = [
        Problem(f"$.{field}", "must be a text")
        for field, value in (("since", since or 0), ("name", name), ("cursor", cursor))
        if not isinstance(value, str | None)
    ]
    if problems:
        raise InvalidRequest("the replay does not fit", problems)
    try:
        begin = epoch(str(since))
    except ValueError:
        problem = Problem("$.since", "must be a time such as 2026-01-31T12:00:00.000Z")
        raise InvalidRequest("the replay does not fit", [problem]) from None
    engine = _engine()
    known = [one.definition.name for one in engine.registry]
    names = known if name is None else [engine.registry.get(name).definition.name]
    told = looked = 0
    while True:
        page = engine.reader.listing.by_name(names, _PAGE, cursor)
        states = engine.control.get_many(page.saga_ids)
        looked += len(page.saga_ids)
        for state in states.values():
            if state.updated_at < begin:
                continue
            entries = engine.journal.history(state.saga_id, up_to=state.seq)
            found = told_of_entries(state, entries, begin, steps=_asked("steps"))
            told += _bus().put((one.name, _full(one)) for one in found)
        cursor = page.cursor
        if cursor is None or context.get_remaining_time_in_millis() < _RESERVE:
            return {"told": told, "sagas": looked, "cursor": cursor}


def _full(told: Told) -> dict[str, Any]:
    """The event's detail, with the request or the result where that is asked for and there is room."""
    detail = dict[str, Any](told.detail)
    if not _asked("payloads") or told.name not in ("SagaStarted", "SagaCompleted", "StepCompleted"):
        return detail
    saga, step = told.detail["saga"], detail.get("step")
    try:
        view = cast("dict[str, Any]", _engine().reader.show(saga, told.detail["saga_id"]))
        if told.name == "SagaCompleted":  # by its step: the saga may have been undone since
            step = _engine().registry.get(saga).definition.result_step.name
    except NotFound:
        return detail  # its type is not deployed any more
    if "purged_at" in view:
        return detail
    # Null is a payload, too: what cannot be shown is not told at all.
    missing = {one["path"] for one in view.get("left_out", ())}
    steps = enumerate(view["steps"])
    results = {one["name"]: one["result"] for at, one in steps if f"$.steps[{at}].result" not in missing}
    with_payload = dict(detail)
    if told.name == "SagaStarted" and "$.request" not in missing:
        with_payload["request"] = view["request"]
    elif told.name != "SagaStarted" and step in results:  # a saga of an older version may not have the step
        with_payload["result"] = results[step]
    return with_payload if len(json.dumps(with_payload).encode()) <= LARGEST else detail


def _asked(what: str) -> bool:
    return what in os.environ.get("SAGAS_EVENTS", "").split(",")


def reset() -> None:
    """Forget engine and bus, so that the next invocation reads the environment anew."""
    _engine.cache_clear()
    _bus.cache_clear()
    tracer.cache_clear()


warm(lambda: _bus().connect())
