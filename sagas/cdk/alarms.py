"""What wakes an operator: alarms by saga type, each saying in its description what to do."""

from __future__ import annotations

from typing import cast

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.cdk.options import METRICS_NAMESPACE

__all__ = ["SagaAlarms"]


class SagaAlarms(Construct):
    """Alarms of one saga type.

    Args:
        scope: parent construct.
        id: construct id.
        saga: the saga's name.
        service: the service's name, a dimension of its metrics.
        dead_letters: the saga's dead-letter queue.
        topic: told when an alarm goes on.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        saga: str,
        service: str,
        dead_letters: sqs.Queue,
        topic: sns.ITopic | sns.TopicBase | None,
    ) -> None:
        super().__init__(scope, id)
        self._topic = topic
        self._add(
            "DeadLetters",
            dead_letters.metric_approximate_number_of_messages_visible(period=Duration.minutes(1), statistic="Maximum"),
            f"Saga {saga} has dead letters. Read saga_id and step in the message's attributes, mend the cause, then "
            "start the queue's DLQ redrive to source.",
        )
        self._add(
            "CompensationFailed",
            cloudwatch.Metric(
                namespace=METRICS_NAMESPACE,
                metric_name="SagaCompensationFailed",
                dimensions_map={"saga": saga, "service": service},
                period=Duration.minutes(1),
                statistic="Sum",
            ),
            f"An undo of saga {saga} failed for good. GET /attention lists it; the audit entry CompensationFailed has "
            "the error. Mend the cause, then POST .../retry, or undo by hand and POST .../resolve.",
        )

    def _add(self, id: str, metric: cloudwatch.Metric, description: str) -> None:
        alarm = cloudwatch.Alarm(
            self,
            id,
            metric=cast("cloudwatch.IMetric", metric),
            threshold=0,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=1,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=description,
        )
        if self._topic is not None:
            action = actions.SnsAction(cast("sns.ITopic", self._topic))
            alarm.add_alarm_action(cast("cloudwatch.IAlarmAction", action))
