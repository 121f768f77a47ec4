"""The function that publishes a service's events, from the stream of the control table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from sagas.engine.engine import Engine
from sagas.engine.observe.events import OutboxEvent, committed_in, events_of_change, events_of_entry
from sagas.errors import InvalidRequest, NewerFormat, Problem
from sagas.handlers.invocation import warm
from sagas.handlers.tasks.publishing import bus, included, publish, spared
from sagas.handlers.telemetry import telemetry, traced, tracer

_MOST_COMMITTED = 100
"""A change commits a few entries. A number that is changed by hand could name any."""


@lru_cache(maxsize=1)
def _engine() -> Engine:
    observer = telemetry()
    return Engine.from_environment(os.environ, observer, observer.plain_logger, tracer())


@traced("other", "outbox")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Publish the events of a batch.

    The function trusts its input, so only the stream's event source mapping may call it.
    Returns ``{"published": N}``: the number of events.
    """
    records: Any = event.get("Records")
    if not isinstance(records, list):
        problem = Problem("$.Records", "must be the records of a stream")
        raise InvalidRequest("the event contains no records of a stream", [problem])
    events: list[OutboxEvent] = []
    for record in cast("list[dict[str, Any]]", records):
        with spared():
            images: Mapping[str, Any] = record.get("dynamodb", {})
            old = images.get("OldImage") or None
            new = images.get("NewImage") or None
            events += events_of_change(old, new)
            if included("steps") and new is not None and (seqs := committed_in(old, new)):
                events += _events_of_steps(str(new["saga_id"]["S"]), seqs)
    return {"published": publish(events, _engine)}


def _events_of_steps(saga_id: str, seqs: range) -> list[OutboxEvent]:
    """Return the step events of the entries that a change committed."""
    if len(seqs) > _MOST_COMMITTED:
        raise ValueError(f"one change commits {len(seqs)} entries")
    events: list[OutboxEvent] = []
    for _, entry in sorted(_engine().journal.readable(saga_id, seqs).items()):
        with spared():
            if entry is None:
                raise NewerFormat(f"an entry of saga {saga_id}")
            events += events_of_entry(entry)
    return events


def reset() -> None:
    """Forget the engine and the bus, so the next invocation reads the environment again."""
    _engine.cache_clear()
    bus.cache_clear()
    tracer.cache_clear()


warm(lambda: bus().connect())
