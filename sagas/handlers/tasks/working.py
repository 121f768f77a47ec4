"""Handle the records of a work queue. Run the task that a record names, then delete, retry or reject the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from sagas.engine.engine import Engine
from sagas.errors import InvalidRequest, NewerFormat, NotFound, Problem, SagaError
from sagas.handlers.invocation import records_of
from sagas.handlers.telemetry import frames, telemetry
from sagas.messaging.routes import backoff
from sagas.messaging.work import Work, parse_work

Tasks = Mapping[str, Callable[[Work, Any, Engine], None]]
"""The functions that run tasks, by the task's name. They take a message, Lambda's context and the engine."""
MOST_FAILURES = 5
"""After this many receives, another function handles a message. Each time before, the handling failed or was killed."""
_SPARE = 2.0
"""Seconds before the function's timeout in which it takes no further record."""


def handle_records(
    event: Any,
    context: Any,
    engine: Engine,
    tasks: Tasks,
    after_failures: Tasks | None = None,
    again: Tasks | None = None,
) -> dict[str, Any]:
    """Handle the messages of an SQS event. Returns ``{"batchItemFailures": [...]}``: the records to retry or
    dead-letter. An outdated record is deleted, because due work is always found again.

    ``again``: the functions for messages that are delivered again. ``after_failures``: those for messages that failed
    ``MOST_FAILURES`` times.
    """
    records = records_of(event)
    of_receives = (tasks, again or {}, after_failures or {})
    failed = [record["messageId"] for record in records if not _done(record, context, engine, of_receives)]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def _done(
    record: dict[str, Any],
    context: Any,
    engine: Engine,
    of_receives: tuple[Tasks, Tasks, Tasks],
) -> bool:
    """Handle one record; return whether it may be deleted. ``of_receives``: see :func:`handle_records`."""
    tasks, again, after_failures = of_receives
    fields = {"message_id": record["messageId"]}
    receives = 1
    try:
        if context.get_remaining_time_in_millis() / 1000 < _SPARE:
            telemetry().postponed("time", engine.clock.now(), **fields)
            engine.queues.delay_record(record, 0)
            return False
        receives = int(record.get("attributes", {}).get("ApproximateReceiveCount", 1))
        try:
            work = parse_work(record)
            if work.task not in tasks:
                # If code for the task is deployed again, the message can be redriven.
                expected = f"must be one of {', '.join(tasks)}"
                raise InvalidRequest(f"this function does not handle task {work.task!r}", [Problem("$.task", expected)])
            others = after_failures if receives > MOST_FAILURES else again if receives > 1 else tasks
            task = others.get(work.task)
            (task or tasks[work.task])(work, context, engine)
        except NewerFormat as newer:
            # Each receive would bring the message closer to the dead-letter queue, so a copy waits instead.
            telemetry().newer_format(newer, record["messageId"])
            engine.queues.send_copy(record, newer.retry_after)
    except (InvalidRequest, NotFound) as error:
        # The message will never succeed, so the queue's redrive policy moves it to the dead-letter queue.
        telemetry().problem("message refused", reason=str(error), **fields)
        with suppress(SagaError, KeyError):
            engine.queues.delay_record(record, 0)
        return False
    except Exception as error:  # noqa: BLE001 - one bad record must not affect the others
        telemetry().logger.error("record failed", error=type(error).__name__, at=frames(error), **fields)
        with suppress(SagaError, KeyError):  # during an outage of SQS, the message returns on its own
            engine.queues.delay_record(record, backoff(receives, engine.clock.chance()))
        return False
    return True
