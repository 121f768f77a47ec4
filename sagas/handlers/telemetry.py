"""Logs, metrics and traces, created on first use. None of them contains payloads."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Final, Literal

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from msgspec import Struct

from sagas.core.events import INPUTS, LOST, Fact, MessageResent, Postponed, SagaRecovered, SagaRecoveryExhausted
from sagas.core.rules import unread_of
from sagas.core.states import SagaState, SagaStatus, StepStatus
from sagas.core.text import iso
from sagas.errors import NewerFormat, WrongTables
from sagas.messaging.message import Message

if TYPE_CHECKING:
    from sagas.handlers.otel import OtelTracer

Scope = Literal["saga type", "service", "both"]
"""The dimensions of a metric: ``service`` and ``saga``, only ``service``, or both combinations."""


class Metric(Struct, frozen=True):
    """A metric in the service's namespace.

    Args:
        when: when the metric is written, and its value.
        of: its dimensions.
        unit: the unit of the metric's values.
    """

    when: str
    of: Scope = "saga type"
    unit: MetricUnit = MetricUnit.Count


METRICS: Final = {
    "SagaCompleted": Metric("A saga has ended COMPLETED."),
    "SagaCompensated": Metric("A saga has ended COMPENSATED: a step failed for good, and all steps are undone."),
    "SagaCancelled": Metric("A saga has ended CANCELLED: a caller cancelled it, and all steps are undone."),
    "SagaFailed": Metric("A saga has ended FAILED: a step with the policy FAIL failed for good."),
    "SagaCompensationFailed": Metric("A saga has ended COMPENSATION_FAILED: an undo failed for good."),
    "SagaDeadLettered": Metric("A saga has become DEAD_LETTERED: it waits for an operator."),
    "SagaNeedsAttention": Metric("A saga has begun to need an operator, for any reason."),
    "SagasNeedingAttention": Metric(
        "At each run of the supervisor: how many sagas wait for an operator, while there are any; and once when the "
        "last one has gone."
    ),
    "SagaDuration": Metric(
        "A saga has ended: time since its start, including waits and retries.", unit=MetricUnit.Milliseconds
    ),
    "StepRetried": Metric("An attempt of a step or an undo failed or was lost, and will be retried."),
    "SagaTypePaused": Metric("`auto_disable` has paused starts of the type."),
    "BreakerOpened": Metric("A circuit breaker of the type has opened: it pauses a step."),
    "BreakerClosed": Metric("A circuit breaker of the type has closed: its step runs again."),
    "Failing": Metric(
        "A message could not be handled or waits for a newer version, or an attempt died with its function."
    ),
    "ServiceProblem": Metric(
        "The service needs an operator, for a reason that concerns no single saga: the error in the log has `problem`.",
        "service",
    ),
    "RecordFailed": Metric("A message could not be handled and will be retried. Lambda counts no error."),
    "MessageResent": Metric("A saga's message was sent again, without proof that the last one was lost."),
    "SagaRecovered": Metric("The supervisor has revived a saga whose message was lost."),
    "SagaRecoveryExhausted": Metric("The supervisor has given up a saga that stalled too often."),
    "OldestOverdueSaga": Metric(
        "The supervisor found overdue sagas: how long the oldest has been due.", "both", MetricUnit.Seconds
    ),
    "SweepStopped": Metric("A sweep found too many orphans on one page, and stopped before that page."),
    "SweepFailed": Metric("A sweep failed, completely or for some objects."),
    "SweepListed": Metric("A round of a sweep has ended: objects listed."),
    "SweepOrphans": Metric("A round of a sweep has ended: orphans and unreferenced objects found."),
    "SweepDuration": Metric("A round of a sweep has ended: its duration.", unit=MetricUnit.Seconds),
    "LeftoverMessages": Metric(
        "At each run of the supervisor: how many dead letters no saga needs, while there are any; and once when the "
        "last one has gone.",
        "service",
    ),
    "RecoveryFailed": Metric(
        "The number of sagas that the supervisor could not recover; the next run retries.", "service"
    ),
    "SagaWithoutCode": Metric("The number of sagas in flight whose type is not deployed.", "service"),
    "ShardsReduced": Metric("`shards` was lowered: the number of higher shards still in use.", "service"),
    "NewerMessageFormat": Metric("A message waits for a newer version of the library.", "service"),
    "InputsUnread": Metric(
        "A saga has looked again for inputs that cannot be read, and is on the attention list for it.", "service"
    ),
    "AuditMismatch": Metric("The number of sampled audit trails that differ from what was written.", "service"),
    "CallbackKeyTooShort": Metric(
        "The current secret of callback URLs has fewer than 32 bytes. The previous one signs them.", "service"
    ),
    "WrongTables": Metric(
        "A function has found that the tables belong to another service, and did nothing with them.", "service"
    ),
    "CommandRejected": Metric(
        "A command or event was rejected; the dead-letter queue has it, with the reason.", "service"
    ),
    "EventNotPublished": Metric("A change to a saga could not be read, so no event was published for it.", "service"),
}
"""Metrics are written only when needed, because each hour in which a metric is written costs money."""


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
        if listed:
            self.count("SagaNeedsAttention", after.saga)
        self._count_recovery(fact, after.saga)
        if isinstance(fact, Postponed) and fact.because == INPUTS and unread_of(after):
            self.measure("InputsUnread", 1)
            self.problem("inputs cannot be read", saga=after.saga, saga_id=after.saga_id)
        if fact.action == "StepLost" or getattr(fact, "failure", None) == LOST:
            self.count("Failing", after.saga)
        if index is not None and _retried(after, fact, after.steps[index].status):
            self.count("StepRetried", after.saga)

    def _count_recovery(self, fact: Fact, saga: str) -> None:
        match fact:
            case SagaRecovered():
                self.count("SagaRecovered", saga)
            case MessageResent():
                self.count("MessageResent", saga)
            case SagaRecoveryExhausted():
                self.count("SagaRecoveryExhausted", saga)
            case _:
                pass

    def paused(self, saga: str) -> None:
        """Count a pause that the library has set on starts of a saga type."""
        self.count("SagaTypePaused", saga)

    def breaker_opened(self, saga: str) -> None:
        """Count a circuit breaker of a saga type that has opened."""
        self.count("BreakerOpened", saga)

    def breaker_closed(self, saga: str) -> None:
        """Count a circuit breaker that has closed."""
        self.count("BreakerClosed", saga)

    def callback_key_too_short(self) -> None:
        """Log and count a read of a secret of callback URLs that is too short."""
        self.logger.error("the current secret of callback URLs is too short, so the previous one signs them")
        self.measure("CallbackKeyTooShort", 1)

    def wrong_tables(self, error: WrongTables) -> None:
        """Log and count a read of tables that belong to another service."""
        self.problem("the tables belong to another service", reason=str(error))
        self.measure("WrongTables", 1)

    def postponed(self, reason: str, until: float, **fields: str) -> None:
        """Log why a message comes back: this invocation has no ``time`` for it. ``until``: epoch seconds."""
        self.logger.info("message postponed", extra={"reason": reason, "until": iso(until), **fields})

    def newer_format(self, error: NewerFormat, message_id: str, sagas: Iterable[str] = ()) -> None:
        """Log and count a message that waits for a newer version of the library. ``sagas``: the types whose messages
        the function handles."""
        self.logger.warning("message postponed", reason=str(error), message_id=message_id)
        self.measure("NewerMessageFormat", 1)
        for saga in sagas:
            self.count("Failing", saga)

    def record_failed(self, saga: str) -> None:
        """Count a message that could not be handled. Lambda does not count it as an error."""
        self._metrics.add_metric("Failing", METRICS["Failing"].unit, 1)
        self.count("RecordFailed", saga)

    def problem(self, problem: str, **fields: object) -> None:
        """Log and count what needs an operator and concerns no single saga."""
        self.logger.error(problem, extra={"problem": problem, **fields})
        self.measure("ServiceProblem", 1)

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

    def on_next_step(self, message: Message) -> None:
        """Set the step for later log lines, because the invocation continues with another step."""
        self.logger.append_keys(step=message.step)

    @staticmethod
    def trace_id() -> str:
        """Return the invocation's X-Ray trace id; empty if there is none."""
        parts = os.environ.get(_TRACE_VARIABLE, "").split(";")
        return next((part.removeprefix("Root=") for part in parts if part.startswith("Root=")), "")


def _retried(after: SagaState, fact: Fact, step: StepStatus) -> bool:
    """Whether a failed attempt of a step or an undo is followed by another. After a cancel, no step is retried."""
    if fact.action in ("StepFailed", "StepLost"):
        return step is StepStatus.RETRYING and not after.cancel.at
    pending = after.undoing and step is not StepStatus.COMPENSATION_FAILED
    return fact.action == "CompensationAttemptFailed" and pending


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


_LONGEST_FLUSH = 2.0
"""An invocation ends after waiting at most this many seconds for the exporter. The next one exports the rest."""
_RESERVE = 0.5
"""Seconds of the function's time that are reserved for the end of the invocation."""

Handler = Callable[[Any, Any], dict[str, Any]]


@lru_cache(maxsize=1)
def tracer() -> OtelTracer | None:
    """Return the tracer; ``None`` if tracing is off.

    Tracing is on if ``OTEL_TRACES_EXPORTER`` names an exporter, unless ``OTEL_SDK_DISABLED`` is true. If packages are
    missing, an error is logged and nothing is traced, but no saga fails.
    """
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporter in ("", "none") or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    try:
        from sagas.handlers.otel import tracer_from

        return tracer_from(os.environ)
    except Exception as error:  # noqa: BLE001 - sagas continue without tracing
        reason = str(error) if isinstance(error, ImportError | LookupError) else type(error).__name__
        telemetry().logger.error("tracing is off: install lambda-sagas[otel]", error=reason)
        return None


def traced(trigger: str, name: str = "") -> Callable[[Handler], Handler]:
    """Return a decorator that exports a handler's spans at the end of each invocation, within a time limit."""

    def decorated(handler: Handler) -> Handler:
        @wraps(handler)
        def outer(event: Any, context: Any) -> dict[str, Any]:
            active = tracer()
            if active is None:
                return handler(event, context)
            try:
                if not name:
                    return handler(event, context)
                with active.span(name, faas(trigger, context), kind="server"):
                    return handler(event, context)
            finally:
                remaining = context.get_remaining_time_in_millis() / 1000 - _RESERVE
                if not active.flush(min(_LONGEST_FLUSH, remaining)):
                    telemetry().logger.warning("some spans were not exported: the exporter is slow or unreachable")

        return outer

    return decorated


def faas(trigger: str, context: Any) -> dict[str, str]:
    """Return an invocation's attributes, as the semantic conventions define them."""
    attributes = {
        "faas.invocation_id": getattr(context, "aws_request_id", ""),
        "cloud.resource_id": getattr(context, "invoked_function_arn", ""),
    }
    return {"faas.trigger": trigger, **{name: str(value) for name, value in attributes.items() if value}}
