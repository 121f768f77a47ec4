"""The function that publishes a service's events, from the stream of the control table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from sagas.engine.composition.reading import Reading
from sagas.engine.observe.events import OutboxEvent, committed_in, events_of_change, events_of_entry
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.invocation import warm
from sagas.handlers.tasks.publishing import bus, included, publish
from sagas.handlers.telemetry import frames, telemetry, traced, tracer


@lru_cache(maxsize=1)
def _engine() -> Reading:
    observer = telemetry()
    return Reading.from_environment(os.environ, observer, observer.plain_logger, tracer())


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
        images: Mapping[str, Any] = record.get("dynamodb", {})
        old, new = images.get("OldImage") or None, images.get("NewImage") or None
        try:
            events += events_of_change(old, new)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            # An error would have the batch retried for a day, and block all later changes.
            telemetry().logger.error("a change could not be published", error=type(error).__name__, at=frames(error))
            telemetry().measure("EventNotPublished", 1)
            continue
        if included("steps") and (seqs := committed_in(old, new)):
            saga_id = str(cast("Mapping[str, Any]", new)["saga_id"]["S"])
            entries = _engine().journal.entries_of((saga_id, seq) for seq in seqs).get(saga_id, {})
            events += [published for seq in sorted(entries) for published in events_of_entry(entries[seq])]
    return {"published": publish(events, _engine)}


def reset() -> None:
    """Forget the engine and the bus, so the next invocation reads the environment again."""
    _engine.cache_clear()
    bus.cache_clear()
    tracer.cache_clear()


warm(lambda: bus().connect())
