"""Events of a service: what an event has in it, the bus that it goes to, and publishing events once more."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

from sagas.core.text import epoch
from sagas.engine.composition.reading import Reading
from sagas.engine.observe.telling import Told, told_of_entries
from sagas.errors import InvalidRequest, NotFound, Problem
from sagas.messaging.bus import LARGEST, EventBus

_BUS = "SAGAS_EVENT_BUS"
_PAGE = 100
_RESERVE = 20_000
"""Milliseconds of an invocation that must be left to begin with a page of a replay."""


@lru_cache(maxsize=1)
def bus() -> EventBus:
    """Return the service's bus."""
    return EventBus(os.environ[_BUS], os.environ["SAGAS_EVENT_SOURCE"])


def publish(events: Iterable[Told], engine: Callable[[], Reading]) -> int:
    """Put events on the bus; return how many."""
    return bus().put((one.name, _detail(one, engine)) for one in events)


def included(what: str) -> bool:
    """Return whether the service publishes ``steps``, or ``payloads``, too."""
    return what in os.environ.get("SAGAS_EVENTS", "").split(",")


def replay(event: Mapping[str, Any], context: Any, engine: Reading) -> dict[str, Any]:
    """Publish events once more. They are read from the journals; the caller can only choose among them. Returns
    ``{"told": N, "sagas": N, "cursor": TEXT}``: how many events, of how many sagas, and where to continue; ``None``
    at the end."""
    if _BUS not in os.environ:
        raise InvalidRequest("this service publishes no events; see SagaService.event_bus")
    since, name, cursor = event.get("since"), event.get("type"), event.get("cursor")
    problems = [
        Problem(f"$.{field}", "must be a text")
        for field, value in (("since", since or 0), ("type", name), ("cursor", cursor))
        if not isinstance(value, str | None)
    ]
    if problems:
        raise InvalidRequest("the replay does not fit", problems)
    try:
        begin = epoch(str(since))
    except ValueError:
        problem = Problem("$.since", "must be a time such as 2026-01-31T12:00:00.000Z")
        raise InvalidRequest("the replay does not fit", [problem]) from None
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
            told += publish(told_of_entries(state, entries, begin, steps=included("steps")), lambda: engine)
        cursor = page.cursor
        if cursor is None or context.get_remaining_time_in_millis() < _RESERVE:
            return {"told": told, "sagas": looked, "cursor": cursor}


def _detail(told: Told, engine: Callable[[], Reading]) -> dict[str, Any]:
    """The event's detail, with the request or the result where that is asked for and there is room."""
    detail = dict[str, Any](told.detail)
    if not included("payloads") or told.name not in ("SagaStarted", "SagaCompleted", "StepCompleted"):
        return detail
    saga, step = told.detail["type"], detail.get("step")
    try:
        view = cast("dict[str, Any]", engine().reader.show(saga, told.detail["saga_id"]))
        if told.name == "SagaCompleted":  # by its step: the saga may have been undone since
            step = engine().registry.get(saga).definition.result_step.name
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
