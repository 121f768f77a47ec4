"""The function of a step's queue, which runs the step and its undo."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from sagas.authoring.policies import Exhausted
from sagas.core.commands import Discard, FailDelivery, Postpone
from sagas.engine.attempt.attempt import Invocation
from sagas.engine.attempt.call import new_instance
from sagas.engine.attempt.course import RECORDING
from sagas.engine.attempt.idempotency import IdempotentAttempt
from sagas.engine.engine import Engine
from sagas.errors import InvalidRequest, NewerFormat, NotFound, SagaError, text_of
from sagas.handlers.invocation import records_of, warm
from sagas.handlers.telemetry import frames, telemetry, traced, tracer
from sagas.messaging.message import Message, parse_record
from sagas.messaging.queues import Postponing

if TYPE_CHECKING:
    from sagas.engine.worker import MakesAttempts

_ELSEWHERE = 1.0
"""Seconds of delay for a message in a wrong queue. While two versions of a function disagree about the right queue, it
may move back and forth."""

_RECORD_KEYS = ("saga_id", "step", "correlation_id")
"""Fields of all log lines of a record. They must not remain for the next record."""


@lru_cache(maxsize=1)
def _engine() -> Engine:
    observer = telemetry()
    return Engine.from_environment(
        os.environ, observer, observer.plain_logger, tracer(), observer.on_next_step, _attempts()
    )


def _attempts() -> MakesAttempts:
    """Return what makes attempts, which Powertools drives. If sagas are traced, attempts have spans."""
    active = tracer()
    if active is None:
        return IdempotentAttempt
    from sagas.engine.observe.tracing import traced_attempts

    return traced_attempts(active)


class _Records:
    """Handles the records of one invocation, one after the other."""

    def __init__(self, engine: Engine, context: Any) -> None:
        self._engine = engine
        deadline = engine.clock.now() + context.get_remaining_time_in_millis() / 1000
        self._invocation = Invocation(round(deadline, 3), telemetry().trace_id(), context)
        self._begun = False

    @cached_property
    def _postponing(self) -> Postponing:
        """This is created on first use, because few invocations postpone a message."""
        return Postponing(self._engine.queues, os.environ, telemetry().plain_logger, self._engine.clock.chance)

    def done(self, record: dict[str, Any]) -> bool:
        """Handle one record; return whether it may be deleted."""
        telemetry().logger.remove_keys(_RECORD_KEYS)
        fields = {"message_id": record["messageId"]}
        try:
            return self._handle(record)
        except (InvalidRequest, NotFound) as error:
            # The message will never succeed, so the queue's redrive policy moves it to the dead-letter queue.
            telemetry().problem("message refused", reason=str(error), **fields)
            with suppress(SagaError, KeyError, AttributeError):
                self._engine.queues.make_visible_now(record["eventSourceARN"], record["receiptHandle"])
        except Exception as error:  # noqa: BLE001 - one bad record must not affect the others
            telemetry().logger.error("record failed", error=type(error).__name__, at=frames(error), **fields)
            with suppress(SagaError):  # during an outage of SQS, the message returns after its visibility timeout
                message = parse_record(record)
                telemetry().record_failed(message.saga)
                self._engine.queue_progress.failed(message)
                return self._postponing.after_failure(message, copies=not self._may_die(message))
        return False

    def _handle(self, record: dict[str, Any]) -> bool:
        try:
            message = parse_record(record)
            telemetry().logger.append_keys(**{key: getattr(message, key) for key in _RECORD_KEYS})
            if elsewhere := self._engine.queues.queue_elsewhere(record, message):
                # This function may lack the role or the time that the step needs.
                telemetry().logger.warning("the message was not in its step's queue and was forwarded to it")
                self._engine.queues.send_copy(record, _ELSEWHERE, elsewhere)
                return True
            if self._begun and not self._time_for(message):
                telemetry().postponed("time", self._engine.clock.now())
                return self._postponing.postpone(message, 0)
            self._begun = True
            active = tracer()
            invocation = self._invocation
            if active is None:
                end, standing = self._engine.worker.handle(message, invocation)
            else:
                from sagas.handlers.spans import processing

                with processing(active, message, record, invocation.lambda_context) as trace_id:
                    end, standing = self._engine.worker.handle(message, replace(invocation, trace_id=trace_id))
        except NewerFormat as newer:
            # Each receive would bring the message closer to the dead-letter queue, so a copy waits instead.
            sagas = [saga_type.definition.name for saga_type in self._engine.registry]
            telemetry().newer_format(newer, record["messageId"], sagas)
            self._engine.queues.send_copy(record, newer.retry_after)
            return True
        self._engine.queue_progress.handled(message)
        match end:
            case Discard():
                return True
            case Postpone(until, itself):
                return self._postponing.postpone(standing, until - self._engine.clock.now(), copies=not itself)
            case FailDelivery():
                # Without a delay, the queue's redrive policy soon dead-letters the message.
                self._engine.queues.delay(message, 0)
                return False

    def _may_die(self, message: Message) -> bool:
        """Whether this message is dead-lettered once its step's attempts are used up."""
        if message.saga not in self._engine.registry:
            return False
        saga_type = self._engine.registry.get(message.saga)
        if message.undo or saga_type.code(message.step, undo=False) is None:
            return not message.undo
        return saga_type.step(message.step).on_exhausted is Exhausted.DEAD_LETTER

    def _time_for(self, message: Message) -> bool:
        registry = self._engine.registry
        if message.saga not in registry or registry.get(message.saga).code(message.step, undo=False) is None:
            return True  # the step will not run
        step = registry.get(message.saga).step(message.step)
        needed = max(step.timeout, step.undo.timeout if step.undo else 0.0)
        return self._engine.clock.now() + needed + RECORDING <= self._invocation.deadline


@traced("pubsub")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle an SQS event. Returns the records to keep in the queue, as ``batchItemFailures``. In answer to
    ``{"check": "create"}``, which ``sagas local up`` sends, it returns what ``create()`` raises."""
    if isinstance(cast("object", event), dict) and event.get("check") == "create":
        # The check runs here, where messages would meet the same errors of configuration and permissions.
        problems: list[str] = []
        for saga in _engine().registry:
            try:
                new_instance(saga.definition)
            except Exception as error:  # noqa: BLE001 - the check reports any error
                call = f"{saga.definition.name}: {saga.definition.saga_class.__name__}.create()"
                where = ", ".join(frames(error))
                problems.append(f"{call} raised {type(error).__name__}: {text_of(error)} (at {where})")
        return {"problems": problems}
    batch = records_of(event)
    records = _Records(_engine(), context)
    failed = [record["messageId"] for record in batch if not records.done(record)]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def reset() -> None:
    """Forget the engine, so the next invocation reads the environment again."""
    _engine.cache_clear()
    telemetry.cache_clear()
    tracer.cache_clear()


warm(lambda: _engine().warm("worker", "queue_progress"))
