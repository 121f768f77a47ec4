"""Logs and metrics with Powertools, created on first use. Neither contains payloads."""

from __future__ import annotations

import logging
import os
import traceback
from functools import lru_cache

from aws_lambda_powertools import Logger, Metrics

from sagas.core.events import Fact
from sagas.core.states import SagaState, SagaStatus, StepStatus
from sagas.core.text import iso
from sagas.formats import NewerFormat
from sagas.handlers.observability.metrics import METRICS
from sagas.messaging.message.message import Message

_TRACE_VARIABLE = "_X_AMZN_TRACE_ID"
_FRAMES = 5


class Telemetry:
    """The logger and metrics of a function environment. Observes committed facts."""

    def __init__(self) -> None:
        self.logger = Logger()
        self._metrics = Metrics()

    @property
    def plain_logger(self) -> logging.Logger:
        """The standard logger that Powertools' logger uses, with the same format and appended keys."""
        return logging.getLogger(self.logger.service)

    def committed(self, before: SagaState, after: SagaState, fact: Fact) -> None:
        """Log the fact. Count ended sagas, with their duration, sagas that wait for an operator, and retried attempts.
        After a cancel, no attempt is retried."""
        index: int | None = getattr(fact, "index", None)
        fields = {
            "saga_id": after.saga_id,
            "saga": after.saga,
            "correlation_id": after.correlation_id,
            "status": after.status.value,
            "step": None if index is None else after.steps[index].name,
            "attempt": getattr(fact, "attempt", None),
            "seq": after.seq,
        }
        # What an operator must see is an error, so that almost every log level includes it.
        listed = bool(after.attention and not before.attention)
        log = self.logger.error if listed or _undos_failed(after) > _undos_failed(before) else self.logger.info
        log(fact.action, extra={key: value for key, value in fields.items() if value is not None})
        if after.status is not before.status and (after.ended or after.status is SagaStatus.DEAD_LETTERED):
            if after.ended:
                duration = round((after.updated_at - after.created_at) * 1000)
                self._metrics.add_metric("SagaDuration", METRICS["SagaDuration"].unit, duration)
            self.count(f"Saga{after.status.value.title().replace('_', '')}", after.saga)
        if listed and after.status is not SagaStatus.COMPENSATION_FAILED:  # one alarm is enough
            self.count("SagaNeedsAttention", after.saga)
        undo_pending = index is not None and after.steps[index].status is not StepStatus.COMPENSATION_FAILED
        retried = fact.action == "CompensationAttemptFailed" and after.undoing and undo_pending
        if fact.action in ("StepFailed", "StepLost") and index is not None:
            retried = after.steps[index].status is StepStatus.RETRYING and not after.cancel.at
        if retried:
            self.count("StepRetried", after.saga)

    def paused(self, saga: str) -> None:
        """Count a pause that the library has set on starts of a saga type."""
        self.count("SagaTypePaused", saga)

    def breaker_opened(self, saga: str) -> None:
        """Count a circuit breaker of a saga type that has opened."""
        self.count("BreakerOpened", saga)

    def breaker_closed(self, saga: str) -> None:
        """Count a circuit breaker that has closed."""
        self.count("BreakerClosed", saga)

    def postponed(self, reason: str, until: float, **fields: str) -> None:
        """Log why a message comes back: this invocation has no ``time`` for it. ``until``: epoch seconds."""
        self.logger.info("message postponed", extra={"reason": reason, "until": iso(until), **fields})

    def newer_format(self, error: NewerFormat, message_id: str) -> None:
        """Log and count a message that waits for a newer version of the library."""
        self.logger.warning("message postponed", reason=str(error), message_id=message_id)
        self.measure("NewerMessageFormat", 1)

    def record_failed(self, saga: str) -> None:
        """Count a message that could not be handled. Lambda does not count it as an error."""
        self.count("RecordFailed", saga)

    def count(self, metric: str, saga: str, times: int = 1) -> None:
        """Add to a metric of a saga type, in CloudWatch's embedded metric format.

        The only dimensions are service and saga type, because each combination of dimensions costs money.
        """
        self.measure(metric, times, saga=saga)

    def measure(self, metric: str, value: float, saga: str = "") -> None:
        """Write a metric of a saga type, or of the whole service, in the metric's unit."""
        if saga:
            self._metrics.add_dimension("saga", saga)
        self._metrics.add_metric(metric, METRICS[metric].unit, value)
        self._metrics.flush_metrics()

    def goes_on(self, message: Message) -> None:
        """Set the step for later log lines, because the invocation continues with another step."""
        self.logger.append_keys(step=message.step)

    @staticmethod
    def trace_id() -> str:
        """Return the invocation's X-Ray trace id; empty if there is none."""
        parts = os.environ.get(_TRACE_VARIABLE, "").split(";")
        return next((part.removeprefix("Root=") for part in parts if part.startswith("Root=")), "")


def _undos_failed(state: SagaState) -> int:
    return sum(step.status is StepStatus.COMPENSATION_FAILED for step in state.steps)


@lru_cache(maxsize=1)
def telemetry() -> Telemetry:
    """Return this environment's telemetry."""
    return Telemetry()


def frames(error: BaseException) -> list[str]:
    """Return an error's frames, the innermost last. The error's text is not logged, because it may quote a caller's
    data."""
    return [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-_FRAMES:]]
