"""The function behind a step's queue. Its undo runs here too."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, cast

from sagas.authoring.policies import Exhausted
from sagas.core.effects import Die, Discard, Postpone
from sagas.engine.attempt.attempt import Invocation
from sagas.engine.attempt.course import RECORDING
from sagas.engine.composition.running import Running
from sagas.errors import InvalidRequest, NotFound, SagaError, text_of
from sagas.formats import NewerFormat
from sagas.handlers.observability.telemetry import frames, telemetry
from sagas.handlers.observability.tracing import traced, tracer
from sagas.handlers.tasks.records import records_of
from sagas.handlers.warming import warm
from sagas.messaging.message.message import Message, parse_record
from sagas.messaging.postponing import Postponing

_ELSEWHERE = 1.0
"""Seconds after which a message arrives that was in a wrong queue. It may go back and forth while two versions of a
function disagree on which queue is the right one."""

_RECORD_KEYS = ("saga_id", "step", "correlation_id")
"""What every log line of a record carries, and none of another record."""


@lru_cache(maxsize=1)
def _engine() -> Running:
    seen = telemetry()
    return Running.from_environment(os.environ, seen, seen.plain_logger, tracer(), seen.goes_on)


class _Records:
    """The records of one invocation, one after the other."""

    def __init__(self, engine: Running, context: Any) -> None:
        self._engine = engine
        deadline = engine.clock.now() + context.get_remaining_time_in_millis() / 1000
        self._invocation = Invocation(round(deadline, 3), telemetry().trace_id(), context)
        self._begun = False

    @cached_property
    def _postponing(self) -> Postponing:
        """Few invocations have anything to postpone."""
        return Postponing(self._engine.queues, os.environ, telemetry().plain_logger, self._engine.clock.chance)

    def done(self, record: dict[str, Any]) -> bool:
        """Handle one record; return whether it may be deleted."""
        telemetry().logger.remove_keys(_RECORD_KEYS)
        known = {"message_id": record["messageId"]}
        try:
            return self._handle(record)
        except (InvalidRequest, NotFound) as error:
            # It will never succeed: the queue's redrive policy moves it to the dead-letter queue.
            telemetry().logger.error("message refused", reason=str(error), **known)
            with suppress(SagaError, KeyError, AttributeError):
                self._engine.queues.make_visible_now(record["eventSourceARN"], record["receiptHandle"])
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one record must not harm those beside it
            telemetry().logger.error("record failed", error=type(error).__name__, at=frames(error), **known)
            with suppress(SagaError):  # where SQS is away, too, it comes back with its visibility timeout
                message = parse_record(record)
                telemetry().record_failed(message.saga)
                self._engine.lanes.failed(message)
                return self._postponing.after_failure(message, copies=not self._may_die(message))
        return False

    def _handle(self, record: dict[str, Any]) -> bool:
        try:
            message = parse_record(record)
            telemetry().logger.append_keys(**{key: getattr(message, key) for key in _RECORD_KEYS})
            if elsewhere := self._engine.queues.queue_elsewhere(record, message):
                # This function may have neither the role nor the time that the step needs.
                telemetry().logger.warning("the message was in another queue than its step's, and goes on to that")
                self._engine.queues.send_copy(record, _ELSEWHERE, elsewhere)
                return True
            if self._begun and not self._time_for(message):
                return self._postponing.postpone(message, 0)
            self._begun = True
            made, invocation = tracer(), self._invocation
            if made is None:
                end, standing = self._engine.worker.handle(message, invocation)
            else:
                from sagas.handlers.observability.spans import processing

                with processing(made, message, record, invocation.lambda_context) as trace_id:
                    end, standing = self._engine.worker.handle(message, replace(invocation, trace_id=trace_id))
        except NewerFormat as newer:
            # Each receive would bring it closer to the dead-letter queue: a copy waits in its stead.
            telemetry().newer_format(newer, record["messageId"])
            self._engine.queues.send_copy(record, newer.retry_after)
            return True
        self._engine.lanes.handled(message)
        match end:
            case Discard():
                return True
            case Postpone(until, itself):
                return self._postponing.postpone(standing, until - self._engine.clock.now(), copies=not itself)
            case Die():
                # Back at once: the queue's redrive policy has to find it soon.
                self._engine.queues.delay(message, 0)
                return False

    def _may_die(self, message: Message) -> bool:
        """Whether the step's exhaustion takes this very message to the dead-letter queue."""
        saga_type = self._engine.registry.get(message.saga)
        if message.undo or not saga_type.has_code(message.step, undo=False):
            return not message.undo
        return saga_type.step(message.step).on_exhausted is Exhausted.DEAD_LETTER

    def _time_for(self, message: Message) -> bool:
        saga_type = self._engine.registry.get(message.saga)
        if not saga_type.has_code(message.step, undo=False):
            return True  # nothing of it will run
        step = saga_type.step(message.step)
        needed = max(step.timeout, step.undo.timeout if step.undo else 0.0)
        return self._engine.clock.now() + needed + RECORDING <= self._invocation.deadline


@traced("pubsub")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle an SQS event; or tell what ``create()`` raises, as ``sagas local up`` asks by ``{"check": "create"}``.
    Returns the records to keep in the queue, as ``batchItemFailures``."""
    if isinstance(cast("object", event), dict) and event.get("check") == "create":
        # Configuration and permissions are this function's: what is raised here is what its messages would meet.
        problems: list[str] = []
        for saga in _engine().registry:
            try:
                _engine().services.runner.instance(saga.definition)
            except Exception as error:  # noqa: BLE001 - that is what is asked for
                made = f"{saga.definition.name}: {saga.definition.saga_class.__name__}.create()"
                where = ", ".join(frames(error))
                problems.append(f"{made} raised {type(error).__name__}: {text_of(error)} (at {where})")
        return {"problems": problems}
    given = records_of(event)
    records = _Records(_engine(), context)
    failed = [record["messageId"] for record in given if not records.done(record)]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def reset() -> None:
    """Forget the engine, so that the next invocation reads the environment anew."""
    _engine.cache_clear()
    telemetry.cache_clear()
    tracer.cache_clear()


warm(lambda: _engine().connect())
