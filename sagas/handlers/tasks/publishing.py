"""The content of a service's events, the bus that gets the events, and replays."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, cast

from sagas.core.states import SagaState
from sagas.core.text import epoch
from sagas.engine.engine import Engine
from sagas.engine.observe.events import OutboxEvent, events_of_entries
from sagas.errors import InvalidRequest, NewerFormat, NotFound, Problem, TooLarge, Unavailable
from sagas.handlers.telemetry import frames, telemetry
from sagas.messaging.bus import LARGEST, EventBus, size_of

_BUS = "SAGAS_EVENT_BUS"
_PAGE = 100
_RESERVE = 20_000
"""Milliseconds that an invocation needs to start a page of a replay."""


@lru_cache(maxsize=1)
def bus() -> EventBus:
    """Return the service's bus."""
    return EventBus(os.environ[_BUS], os.environ["SAGAS_EVENT_SOURCE"])


@contextmanager
def spared(what: str = "a change could not be published") -> Generator[None]:
    """Log and count what cannot be read, and continue. An error would have the batch retried for a day, and block all
    later changes. An outage is an error."""
    try:
        yield
    except Exception as error:
        if isinstance(error, Unavailable) and not isinstance(error, NewerFormat):
            raise
        telemetry().logger.error(what, error=type(error).__name__, at=frames(error))
        telemetry().measure("EventNotPublished", 1)


def publish(events: Iterable[OutboxEvent], engine: Callable[[], Engine]) -> int:
    """Put events on the bus. Return their number. An event that is too large for the bus is not published."""

    def detail_of(event: OutboxEvent) -> Mapping[str, Any]:
        with spared("the payload of an event could not be read"):
            return _detail(event, engine)
        return event.detail

    details = ((event.name, detail_of(event)) for event in events)
    return bus().put((name, detail) for name, detail in details if _fits(detail))


def _fits(detail: Mapping[str, Any]) -> bool:
    with spared():
        if (size := size_of(detail)) > LARGEST:
            raise TooLarge(f"the event has {size} bytes; the bus takes {LARGEST}")
        return True
    return False


def included(what: str) -> bool:
    """Return whether the service also publishes ``steps``, or ``payloads``."""
    return what in os.environ.get("SAGAS_EVENTS", "").split(",")


def replay(event: Mapping[str, Any], context: Any, engine: Engine) -> dict[str, Any]:
    """Publish events again. The events come from the journals. A caller can only select some of them. Returns
    ``{"published": N, "sagas": N, "cursor": TEXT}``: the numbers of events and sagas, and where to continue."""
    if _BUS not in os.environ:
        raise InvalidRequest("this service publishes no events; see SagaService.event_bus")
    since = event.get("since")
    name = event.get("type")
    cursor = event.get("cursor")
    problems = [
        Problem(f"$.{field}", "must be text")
        for field, value in (("since", since or 0), ("type", name), ("cursor", cursor))
        if not isinstance(value, str | None)
    ]
    if problems:
        raise InvalidRequest("the replay is invalid", problems)
    try:
        begin = epoch(str(since))
    except ValueError:
        problem = Problem("$.since", "must be a time such as 2026-01-31T12:00:00.000Z")
        raise InvalidRequest("the replay is invalid", [problem]) from None
    deployed = [saga_type.definition.name for saga_type in engine.registry]
    names = deployed if name is None else [engine.registry.get(name).definition.name]
    events = sagas = 0
    while True:
        page = engine.reader.listing.by_name(names, _PAGE, cursor)
        states = _states(engine, page.saga_ids)
        sagas += len(page.saga_ids)
        for state in states.values():
            if state.updated_at < begin:
                continue
            of_saga: list[OutboxEvent] = []
            with spared():
                entries = engine.journal.history(state.saga_id, up_to=state.seq)
                of_saga = events_of_entries(state, entries, begin, steps=included("steps"))
            events += publish(of_saga, lambda: engine)
        cursor = page.cursor
        if cursor is None or context.get_remaining_time_in_millis() < _RESERVE:
            return {"published": events, "sagas": sagas, "cursor": cursor}


def _states(engine: Engine, saga_ids: list[str]) -> dict[str, SagaState]:
    """Return the existing sagas that can be read. If one cannot, each is read alone."""
    states = dict[str, SagaState]()
    with suppress(NewerFormat, LookupError, ValueError, TypeError, AttributeError):
        return engine.control.get_many(saga_ids)
    for saga_id in saga_ids:
        with spared():
            states |= engine.control.get_many([saga_id])
    return states


def _detail(event: OutboxEvent, engine: Callable[[], Engine]) -> dict[str, Any]:
    """Return the event's detail, with the request or the result if payloads are published and it fits."""
    detail = dict[str, Any](event.detail)
    if not included("payloads") or event.name not in ("SagaStarted", "SagaCompleted", "StepCompleted"):
        return detail
    saga = event.detail["type"]
    step = detail.get("step")
    try:
        reader = engine().reader
        saga_id = event.detail["saga_id"]
        state = reader.stored(saga, saga_id)
        view = cast("dict[str, Any]", reader.show_stored(saga, saga_id, state))
        if event.name == "SagaCompleted" and state is not None:  # even if the saga was undone later
            step = state.result_step.name
    except NotFound:
        return detail  # it was deleted
    if "purged_at" in view:
        return detail
    # Null is a payload, too, so a hidden payload is left out completely.
    missing = {omission["path"] for omission in view.get("left_out", ())}
    steps = enumerate(view["steps"])
    results = {each["name"]: each["result"] for at, each in steps if f"$.steps[{at}].result" not in missing}
    with_payload = dict(detail)
    if event.name == "SagaStarted" and "$.request" not in missing:
        with_payload["request"] = view["request"]
    elif event.name != "SagaStarted" and step in results:  # a saga of an older version may lack the step
        with_payload["result"] = results[step]
    return with_payload if size_of(with_payload) <= LARGEST else detail
