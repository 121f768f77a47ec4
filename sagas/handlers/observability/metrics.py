"""The metrics of a service's functions, by name. The documentation of metrics is generated from this module."""

from __future__ import annotations

from typing import Final, Literal

from aws_lambda_powertools.metrics import MetricUnit
from msgspec import Struct

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
    "SagaNeedsAttention": Metric(
        "A saga has begun to need attention, for any reason but a failed undo, which has its own metric."
    ),
    "SagaDuration": Metric(
        "A saga has ended: time since its start, including waits and retries.", unit=MetricUnit.Milliseconds
    ),
    "StepRetried": Metric("An attempt of a step or an undo failed or was lost, and will be retried."),
    "SagaTypePaused": Metric("`auto_disable` has paused starts of the type."),
    "BreakerOpened": Metric("A circuit breaker of the type has opened: it pauses a step."),
    "BreakerClosed": Metric("A circuit breaker of the type has closed: its step runs again."),
    "RecordFailed": Metric("A message could not be handled and will be retried. Lambda counts no error."),
    "SagaRecovered": Metric("The supervisor has taken over a stalled saga, or sent its message again."),
    "SagaRecoveryExhausted": Metric("The supervisor has given up a saga that stalled too often."),
    "OldestOverdueSaga": Metric(
        "The supervisor found overdue sagas: how long the oldest has been due.", "both", MetricUnit.Seconds
    ),
    "SweepStopped": Metric("A sweep found too many orphans on one page, and stopped before that page."),
    "SweepFailed": Metric("A sweep failed, completely or for some objects."),
    "SweepListed": Metric("A round of a sweep has ended: objects listed."),
    "SweepOrphans": Metric("A round of a sweep has ended: orphans and unreferenced objects found."),
    "SweepDuration": Metric("A round of a sweep has ended: its duration.", unit=MetricUnit.Seconds),
    "RecoveryFailed": Metric(
        "The number of sagas that the supervisor could not recover; the next run retries.", "service"
    ),
    "SagaWithoutCode": Metric("The number of sagas in flight whose type is not deployed.", "service"),
    "ShardsReduced": Metric("`shards` was lowered: the number of higher shards still in use.", "service"),
    "NewerMessageFormat": Metric("A message waits for a newer version of the library.", "service"),
    "AuditMismatch": Metric("The number of sampled audit trails that differ from what was written.", "service"),
    "CommandRejected": Metric(
        "A command or event was rejected; the dead-letter queue has it, with the reason.", "service"
    ),
    "EventNotPublished": Metric("A change to a saga could not be read, so no event was published for it.", "service"),
}
"""Metrics are written only when needed, because each hour in which a metric is written costs money."""
