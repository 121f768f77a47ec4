"""Alarms for operators. Each description links to a section of the runbook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from typing import cast

from aws_cdk import Aws, Duration, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.cdk.layout.acknowledge import acknowledge
from sagas.cdk.options.existing import AnyTable
from sagas.cdk.options.service_options import METRICS_NAMESPACE, RUNBOOK, AnyKey, AnyTopic
from sagas.cdk.parts.releases import Releases
from sagas.errors import DefinitionError

MINUTE = Duration.minutes(1)
FEW_MINUTES = Duration.minutes(5)
_LONGEST = 1_024
"""CloudWatch's limit for a description, in characters."""
_TOO_MUCH = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
_SILENT = cloudwatch.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD
_QUIET = cloudwatch.TreatMissingData.NOT_BREACHING


def saga_metric(
    name: str, saga: str, service: str, period: Duration = MINUTE, statistic: str = "Sum"
) -> cloudwatch.Metric:
    """Return a metric that functions count per saga type."""
    return _metric(name, {"saga": saga, "service": service}, period, statistic)


def service_metric(name: str, service: str, statistic: str = "Sum") -> cloudwatch.Metric:
    """Return a metric that functions count for the whole service."""
    return _metric(name, {"service": service}, FEW_MINUTES, statistic)


def _metric(name: str, dimensions: Mapping[str, str], period: Duration, statistic: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=METRICS_NAMESPACE, metric_name=name, dimensions_map=dimensions, period=period, statistic=statistic
    )


@dataclass(frozen=True, slots=True)
class Waking:
    """Settings that all alarms of a service share. ``service`` is a dimension of its metrics. ``runbook`` is the
    address of a page, to which each alarm adds its section. ``releases`` moves functions to new code gradually;
    ``None`` if a deployment moves all functions at once. ``by_step``: whether each step has alarms of its own.
    ``every``: how often the supervisor runs, and writes its gauges."""

    service: str
    topic: AnyTopic | None
    runbook: str
    releases: Releases | None
    by_step: bool = False
    every: timedelta = timedelta(minutes=1)

    def __post_init__(self) -> None:
        if re.fullmatch(r"[^\s#]+", self.runbook) is None:
            raise DefinitionError(f"runbook_url must be the address of a page, without a section, not {self.runbook!r}")


def topic_of(scope: Construct, notified: AnyTopic | str | None, key: AnyKey | None) -> AnyTopic | None:
    """Return the topic that alarms notify. For an e-mail address, create a topic, and encrypt it with ``key``."""
    if not isinstance(notified, str):
        return notified
    topic = sns.Topic(scope, "AlarmTopic", enforce_ssl=True, master_key=cast("kms.IKey | None", key))
    # The policy that enforces TLS replaces the default policy, which lets CloudWatch publish.
    topic.add_to_resource_policy(_for_alarms(["sns:Publish"], topic.topic_arn))
    if key is not None:
        key.add_to_resource_policy(_for_alarms(["kms:Decrypt", "kms:GenerateDataKey"], "*"))
    topic.add_subscription(cast("sns.ITopicSubscription", subscriptions.EmailSubscription(notified)))
    acknowledge(Validations.of(topic), {"Serverless-SNSRedrivePolicy": "A dead-letter queue could not send e-mail."})
    return topic


def _for_alarms(actions: list[str], resource: str) -> iam.PolicyStatement:
    """Allow actions to CloudWatch, for alarms of this account only."""
    return iam.PolicyStatement(
        actions=actions,
        resources=[resource],
        principals=[cast("iam.IPrincipal", iam.ServicePrincipal("cloudwatch.amazonaws.com"))],
        conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
    )


class Alarms(Construct):
    """Alarms that fire when a metric exceeds a threshold. An alarm watches one metric, unless several mean the same to
    an operator: CloudWatch charges per metric."""

    def __init__(self, scope: Construct, id: str, *, waking: Waking) -> None:
        super().__init__(scope, id)
        self.service = waking.service
        self.by_step = waking.by_step
        self.gradual = waking.releases is not None
        self._waking = waking

    def gauge(self, name: str, saga: str = "") -> cloudwatch.Metric:
        """Return a gauge that the supervisor writes at each run while it is above 0, and once when it is 0 again. A run
        may be some seconds early or late, so a period has two. ``saga``: the saga type; empty for the service."""
        period = max(FEW_MINUTES.to_minutes(), 2 * self._waking.every // timedelta(minutes=1))
        dimensions = {"saga": saga, "service": self.service} if saga else {"service": self.service}
        return _metric(name, dimensions, Duration.minutes(period), "Maximum")

    def watch(
        self,
        id: str,
        metric: cloudwatch.Metric | cloudwatch.MathExpression,
        what: str,
        section: str,
        *,
        above: float = 0,
        periods: int = 1,
        breaching: int | None = None,
        silence: bool = False,
        clears: bool = False,
        notifies: bool = True,
    ) -> cloudwatch.Alarm:
        """Add an alarm. An alarm on a gauge, or one that ``clears`` only once what is wrong has ended, also notifies
        when it clears. Other counts of events clear while what they have counted is still wrong."""
        # The path is that of the documentation of this version, which has no address until the app publishes it.
        page = f"lambda-sagas {version('lambda-sagas')}, " if self._waking.runbook == RUNBOOK else ""
        text = what
        link = f"What to do: {page}{self._waking.runbook}#{section}"
        if len(text) + len(link) >= _LONGEST:  # the text names many steps
            text = f"{text[: _LONGEST - len(link) - 4]}..."
        alarm = cloudwatch.Alarm(
            self,
            id,
            metric=cast("cloudwatch.IMetric", metric),
            threshold=above,
            comparison_operator=_SILENT if silence else _TOO_MUCH,
            evaluation_periods=periods,
            datapoints_to_alarm=breaching,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING if silence else _QUIET,
            alarm_description=f"{text} {link}",
        )
        if self._waking.topic is not None and notifies:
            action = cast("cloudwatch.IAlarmAction", actions.SnsAction(cast("sns.ITopic", self._waking.topic)))
            alarm.add_alarm_action(action)
            if clears or (isinstance(metric, cloudwatch.Metric) and metric.statistic == "Maximum"):
                alarm.add_ok_action(action)
        return alarm

    def watch_errors(self, id: str, function: lambda_.Function, what: str) -> list[cloudwatch.Alarm]:
        """Watch invocations that crashed or timed out, if there are alarms by step. A step that raises is recorded and
        does not count here."""
        if not self.by_step:
            return []
        metric = function.metric_errors(period=FEW_MINUTES, statistic="Sum")
        return [self.watch(id, metric, f"{what} crashed or timed out.", "function-errors", periods=3, breaching=2)]

    def watch_throttles(self, id: str, function: lambda_.Function, what: str) -> None:
        """Watch invocations that Lambda refused, if there are alarms by step."""
        if not self.by_step:
            return
        throttles = function.metric_throttles(period=FEW_MINUTES, statistic="Sum")
        self.watch(id, throttles, f"{what} was refused by Lambda.", "throttles", periods=2)

    def watch_silence(self, id: str, function: lambda_.Function, table: AnyTable, what: str, section: str) -> None:
        """Watch whether the function that follows a table is called while the table changes. If its mapping is
        disabled or deleted, there is no age of a record."""
        calls = function.metric_invocations(period=FEW_MINUTES, statistic="Sum")
        writes = table.metric_consumed_write_capacity_units(period=FEW_MINUTES, statistic="Sum")
        silent = cloudwatch.MathExpression(
            expression="IF(FILL(writes, 0) > 0 AND FILL(calls, 0) < 1, 1, 0)",
            using_metrics={"calls": cast("cloudwatch.IMetric", calls), "writes": cast("cloudwatch.IMetric", writes)},
            label="changes without a call",
            period=FEW_MINUTES,
        )
        self.watch(id, silent, what, section, periods=3)

    def watch_letters(self, id: str, letters: sqs.Queue, what: str, section: str, *, period: Duration = MINUTE) -> None:
        """Watch a dead-letter queue, which should be empty."""
        metric = letters.metric_approximate_number_of_messages_visible(period=period, statistic="Maximum")
        self.watch(id, metric, what, section)

    def guard(self, function: Construct, alias: lambda_.Alias, *alarms: cloudwatch.Alarm) -> None:
        """Have the alarms roll back a gradual deployment of the function."""
        if self._waking.releases is not None:
            self._waking.releases.add(function, alias, alarms)
