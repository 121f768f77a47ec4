"""What a service's functions measure: every metric of its own, by name. The page of metrics is written from this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from aws_lambda_powertools.metrics import MetricUnit

Scope = Literal["saga type", "service", "both"]
"""What a metric is of: with the dimensions ``service`` and ``saga``, with ``service`` alone, or in both forms."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric in the service's namespace.

    Args:
        when: it is written, and what it says.
        of: which dimensions it has.
        unit: of its values.
    """

    when: str
    of: Scope = "saga type"
    unit: MetricUnit = MetricUnit.Count


METRICS: Final = {
    "SagaCompleted": Metric("A saga has ended COMPLETED."),
    "SagaCompensated": Metric("A saga has ended COMPENSATED: a step failed for good, and what was done is undone."),
    "SagaCancelled": Metric("A saga has ended CANCELLED: a caller cancelled it, and what was done is undone."),
    "SagaFailed": Metric("A saga has ended FAILED: a step whose policy asks for no undo failed for good."),
    "SagaCompensationFailed": Metric("A saga has ended COMPENSATION_FAILED: an undo failed for good."),
    "SagaDeadLettered": Metric("A saga has become DEAD_LETTERED: it waits for an operator."),
    "SagaNeedsAttention": Metric("A saga needs a person from now on, for whichever reason; once, until it does again."),
    "SagaDuration": Metric(
        "A saga has ended: the time from its start, waits and retries included.", unit=MetricUnit.Milliseconds
    ),
    "StepRetried": Metric("An attempt of a step or an undo failed or was lost, and another follows."),
    "SagaTypePaused": Metric("`auto_disable` pauses starts of the type."),
    "BreakerOpened": Metric("A circuit breaker of the type holds a step back from now on."),
    "BreakerClosed": Metric("A circuit breaker of the type lets its step through again."),
    "RecordFailed": Metric("A message could not be handled and comes back. Lambda itself sees no error in that."),
    "SagaRecovered": Metric("The supervisor has sent a stalled saga its message anew."),
    "OldestOverdueSaga": Metric(
        "The supervisor found stalled sagas: for how long the oldest has waited for it.", "both", MetricUnit.Seconds
    ),
    "SweepStopped": Metric("A sweep found too many orphans on one page, and stopped before it."),
    "SweepFailed": Metric("A sweep failed, in whole or for some objects."),
    "SweepListed": Metric("A round of a sweep has ended: how many objects it saw."),
    "SweepOrphans": Metric("A round of a sweep has ended: how many orphans and unreferenced objects it found."),
    "SweepDuration": Metric("A round of a sweep has ended: how long it took.", unit=MetricUnit.Seconds),
    "RecoveryFailed": Metric(
        "The supervisor could not look after this many sagas; the next tick tries again.", "service"
    ),
    "SagaWithoutCode": Metric("The supervisor found this many sagas in flight whose type is not deployed.", "service"),
    "ShardsReduced": Metric("`shards` was lowered: this many are still in use, and slower to go over.", "service"),
    "NewerMessageFormat": Metric("A message waits for a newer version of the library.", "service"),
    "AuditMismatch": Metric("The daily sample found this many audit trails that are not what was written.", "service"),
    "CommandRejected": Metric("A command or event was refused; it is in the dead letters, with the reason.", "service"),
    "EventNotPublished": Metric("A change of a saga could not be read, and so no event tells it.", "service"),
}
"""Each is written only when there is something to say: a metric costs by the hours in which it is written."""
