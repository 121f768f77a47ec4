"""Working off the records of a work queue: what is done with each is the queue's own, what becomes of it is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from sagas.engine.composition.core import Core
from sagas.errors import InvalidRequest, NotFound, Problem, SagaError
from sagas.formats import NewerFormat
from sagas.handlers.observability.telemetry import frames, telemetry
from sagas.handlers.tasks.records import records_of
from sagas.messaging.limits import backoff
from sagas.messaging.work import Work, parse_work

Parts = TypeVar("Parts", bound=Core)
Tasks = Mapping[str, Callable[[Work, Any, Parts], None]]
"""What is done for the messages of each task, given Lambda's context and the function's parts."""
MOST_FAILURES = 5
"""Receives of a message after which it is handled as a worn one: its function was killed, or failed, each time."""
_SPARE = 2.0
"""Seconds of its function's time in which no record is begun."""


def worked_off(
    event: Any,
    context: Any,
    engine: Parts,
    tasks: Tasks[Parts],
    worn: Tasks[Parts] | None = None,
) -> dict[str, Any]:
    """Handle the messages of an SQS event. Returns ``{"batchItemFailures": [...]}``: the records that must come back,
    or die. One that is of no use any more is deleted: whatever is to be done is found again."""
    records = records_of(event)
    failed = [one["messageId"] for one in records if not _done(one, context, engine, tasks, worn or {})]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def _done(
    record: dict[str, Any],
    context: Any,
    engine: Parts,
    tasks: Tasks[Parts],
    worn: Tasks[Parts],
) -> bool:
    """Handle one record; return whether it may be deleted."""
    known = {"message_id": record["messageId"]}
    receives = 1
    try:
        if context.get_remaining_time_in_millis() / 1000 < _SPARE:
            engine.queues.delay_record(record, 0)
            return False
        receives = int(record.get("attributes", {}).get("ApproximateReceiveCount", 1))
        try:
            work = parse_work(record)
            if work.task not in tasks:
                # Code that knows the task may be deployed again: then it can be redriven.
                told = f"must be one of {', '.join(tasks)}"
                raise InvalidRequest(f"there is no task {work.task!r} here", [Problem("$.task", told)])
            task = worn.get(work.task) if receives > MOST_FAILURES else None
            (task or tasks[work.task])(work, context, engine)
        except NewerFormat as newer:
            # Each receive would bring it closer to the dead-letter queue: a copy waits in its stead.
            telemetry().newer_format(newer, record["messageId"])
            engine.queues.send_copy(record, newer.retry_after)
    except (InvalidRequest, NotFound) as error:
        # It will never succeed: the queue's redrive policy moves it to the dead-letter queue.
        telemetry().logger.error("message refused", reason=str(error), **known)
        with suppress(SagaError, KeyError):
            engine.queues.delay_record(record, 0)
        return False
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one record must not harm those beside it
        telemetry().logger.error("record failed", error=type(error).__name__, at=frames(error), **known)
        with suppress(SagaError, KeyError):  # where SQS is away, too, it comes back by itself
            engine.queues.delay_record(record, backoff(receives, engine.clock.chance()))
        return False
    return True
