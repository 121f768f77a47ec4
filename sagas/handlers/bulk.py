"""The function behind the work queue ``bulk``: what was found to be due, and what takes longer than a tick."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from typing import Any

from sagas.engine.engine import Engine, from_environment
from sagas.errors import InvalidRequest, NotFound, Problem, SagaError
from sagas.formats import NewerFormat
from sagas.handlers.records import records_of
from sagas.handlers.recovering import look_after, purge_due
from sagas.handlers.sweeping import continue_sweep
from sagas.handlers.telemetry import frames, telemetry
from sagas.handlers.tracing import traced, tracer
from sagas.handlers.warming import warm
from sagas.messaging.postponing import backoff
from sagas.messaging.work import BULK, Work, parse_work

_TASKS = ("recover", "purge", "sweep")


@lru_cache(maxsize=1)
def _engine() -> Engine:
    seen = telemetry()
    return from_environment(os.environ, seen, seen.plain_logger, tracer())


@traced("pubsub", "bulk")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle the messages of an SQS event.

    Args:
        event: its records hold messages of the queue ``bulk``; see :mod:`sagas.messaging.work`.
        context: Lambda's context.

    Returns:
        ``{"batchItemFailures": [...]}``: the records that must come back, or die. One that is of no use any more is
        deleted: whatever is to be done is found again.

    Raises:
        InvalidRequest: it is no event of SQS, or a record has no id to report it by: then all of them are kept.
    """
    failed = [one["messageId"] for one in records_of(event) if not _done(one, context, _engine())]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def _done(record: dict[str, Any], context: Any, engine: Engine) -> bool:
    """Handle one record; return whether it may be deleted."""
    known = {"message_id": record["messageId"]}
    try:
        try:
            _work_off(parse_work(record), context, engine)
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
        with suppress(SagaError, KeyError, ValueError):  # where SQS is away, too, it comes back by itself
            receives = int(record.get("attributes", {}).get("ApproximateReceiveCount", 1))
            engine.queues.delay_record(record, backoff(receives, engine.clock.chance()))
        return False
    return True


def _work_off(work: Work, context: Any, engine: Engine) -> None:
    """Do what a message asks for, and send what follows.

    Raises:
        InvalidRequest: there is no such task, or its details do not fit.
        NotFound: they name what is not there.
    """
    match work.task:
        case "recover":
            look_after(work, context, engine)
        case "purge":
            purge_due(work, context, engine)
        case "sweep":
            follow = continue_sweep(work.details, context, engine)
            engine.queues.send_work(BULK, [Work(work.task, details, work.hops + 1) for details in follow])
        case _:
            # Code that knows the task may be deployed again: then it can be redriven.
            known = f"must be one of {', '.join(_TASKS)}"
            raise InvalidRequest(f"there is no task {work.task!r} here", [Problem("$.task", known)])


def reset() -> None:
    """Forget the engine, so that the next invocation reads the environment anew."""
    _engine.cache_clear()
    tracer.cache_clear()


warm(lambda: _engine().connect())
