"""The function behind a step's queue. Its undo runs here too."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from sagas.engine.attempt import Invocation
from sagas.engine.engine import Engine, from_environment
from sagas.engine.outcome import Done, Failed, Later
from sagas.errors import InvalidRequest, NotFound, Problem, SagaError
from sagas.handlers.telemetry import frames, telemetry
from sagas.messaging.limits import LONGEST_DELAY, LONGEST_HIDING
from sagas.messaging.message import Message, parse_record

_SPARE_RECEIVES = 3
"""Receives kept back so that postponing a message never pushes it into the dead-letter queue."""
_MOST_HOPS = 2_000
"""Copies of one message, after which it is given up. A copy is delayed by at least as many seconds as it has hops, up
to 15 minutes, so this many take more than 16 days: longer than all retries of a step may wait (14 days) and than SQS
keeps any message. What gets there is caught in a loop, or its circuit breaker will not close by itself."""


_RECORD_KEYS = ("saga_id", "step", "correlation_id")
"""What every log line of a record carries, and none of another record."""


class _NotNow(SagaError):
    """The record is not done: its queue keeps it."""


@lru_cache(maxsize=1)
def _engine() -> Engine:
    seen = telemetry()
    return from_environment(os.environ, seen, seen.plain_logger)


class _Records:
    """The records of one invocation, one after the other."""

    def __init__(self, engine: Engine, context: Any) -> None:
        self._engine = engine
        deadline = engine.clock.now() + context.get_remaining_time_in_millis() / 1000
        self._invocation = Invocation(round(deadline, 3), telemetry().trace_id(), context)
        self._begun = 0

    def handle(self, record: SQSRecord) -> None:
        """Handle one record; raise to leave it in its queue."""
        telemetry().logger.remove_keys(_RECORD_KEYS)
        try:
            message = parse_record(record.raw_event)
            self._handle(message)
        except (InvalidRequest, NotFound) as error:
            # It will never succeed: the queue's redrive policy moves it to the dead-letter queue.
            telemetry().logger.error("message refused", reason=str(error), message_id=record.message_id)
            with suppress(SagaError, KeyError):
                self._engine.queues.make_visible_now(record.event_source_arn, record.receipt_handle)
            raise
        except _NotNow:
            raise
        except Exception as error:
            telemetry().logger.error(
                "record failed", error=type(error).__name__, at=frames(error), message_id=record.message_id
            )
            raise

    def _handle(self, message: Message) -> None:
        telemetry().logger.append_keys(**{key: getattr(message, key) for key in _RECORD_KEYS})
        if self._begun and not self._time_for(message):
            self._postpone(message, self._engine.clock.now())
            return
        self._begun += 1
        match self._engine.worker.handle(message, self._invocation):
            case Done():
                return
            case Later(until):
                self._postpone(message, until)
            case Failed(reason):
                self._engine.queues.delay(message, 0)
                raise _NotNow(reason)

    def _time_for(self, message: Message) -> bool:
        saga_type = self._engine.registry.get(message.saga)
        if not saga_type.has_code(message.step, undo=False):
            return True  # nothing of it will run
        step = saga_type.step(message.step)
        needed = max(step.timeout, step.undo.timeout if step.undo else 0.0)
        return self._engine.clock.now() + needed <= self._invocation.deadline

    def _postpone(self, message: Message, until: float) -> None:
        """Have the message come back: by its visibility, or as a copy when that would wear it out."""
        wait = until - self._engine.clock.now()
        limit = int(os.environ.get("SAGAS_MAX_RECEIVES", "1000"))
        if wait > LONGEST_HIDING or message.receives + _SPARE_RECEIVES >= limit:
            return self._copy(message, wait)
        self._engine.queues.delay(message, wait)
        raise _NotNow(f"postponed by {wait:.0f} s")

    def _copy(self, message: Message, wait: float) -> None:
        """Send a copy that comes back in its stead, the later the more copies there were."""
        if message.hops >= _MOST_HOPS:
            telemetry().logger.error("message given up", hops=message.hops, message_id=message.message_id)
            self._engine.queues.delay(message, 0)
            raise _NotNow(f"postponed by {message.hops} copies: it goes to the dead-letter queue")
        delay = min(max(wait, message.hops), LONGEST_DELAY)
        self._engine.queues.send(replace(message, hops=message.hops + 1), delay)


def _given(event: Any) -> list[dict[str, Any]]:
    """The records of an event. None is handled unless each can be reported failed."""
    records: Any = cast("dict[str, Any]", event).get("Records", []) if isinstance(event, dict) else None
    if not isinstance(records, list):
        raise InvalidRequest("this is no event of SQS", [Problem("$.Records", "must be a list")])
    found = cast("list[Any]", records)
    problems = [Problem(f"$.Records[{i}].messageId", "missing") for i, one in enumerate(found) if not _has_id(one)]
    if problems:
        raise InvalidRequest("this is no event of SQS", problems)
    return found


def _has_id(record: Any) -> bool:
    return isinstance(record, dict) and isinstance(cast("dict[str, Any]", record).get("messageId"), str)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle an SQS event.

    Args:
        event: an SQS event with one or more records.
        context: Lambda's context.

    Returns:
        The records to keep in the queue, as ``batchItemFailures``.

    Raises:
        InvalidRequest: it is no event of SQS, or a record has no id to report it by: then all of them are kept.
    """
    given = _given(event)
    records = _Records(_engine(), context)
    processor: Any = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    with processor(given, records.handle, context):
        processor.process()
    return {"batchItemFailures": list(processor.response()["batchItemFailures"])}


def reset() -> None:
    """Forget the engine, so that the next invocation reads the environment anew."""
    _engine.cache_clear()
    telemetry.cache_clear()
