"""What wakes an operator: alarms by saga type and service. Each names in its description its section of the runbook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from aws_cdk import Duration
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.authoring.definition.definition import SagaDefinition
from sagas.cdk.layout.step_groups import StepGroup
from sagas.cdk.messages.queues import SagaQueues
from sagas.cdk.options import METRICS_NAMESPACE, AnyTopic
from sagas.errors import DefinitionError

_MINUTE = Duration.minutes(1)
_FEW_MINUTES = Duration.minutes(5)
_OFTEN = timedelta(minutes=2)
_MOST_AGE = 14 * 24 * 3600
_LATE_EVENTS = 15 * 60 * 1000
"""Milliseconds."""
_SPARE_AGE = 900
"""Seconds a message may wait beyond what its step's own policies explain."""
_LONGEST = 1_024
"""Characters that CloudWatch takes in a description."""
_ARCHIVED_BY = 3600
"""Seconds within which an audit entry is archived, a day before the stream drops it."""
_TOO_MUCH = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
_SILENT = cloudwatch.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD
_QUIET = cloudwatch.TreatMissingData.NOT_BREACHING


def saga_metric(
    name: str, saga: str, service: str, period: Duration = _MINUTE, statistic: str = "Sum"
) -> cloudwatch.Metric:
    """A metric that the functions count by saga type."""
    return _metric(name, {"saga": saga, "service": service}, period, statistic)


def _metric(name: str, dimensions: Mapping[str, str], period: Duration, statistic: str = "Sum") -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=METRICS_NAMESPACE, metric_name=name, dimensions_map=dimensions, period=period, statistic=statistic
    )


@dataclass(frozen=True, slots=True)
class Waking:
    """What all alarms of a service have in common.

    Args:
        topic: told when an alarm goes on.
        runbook: where the page is that says what to do, to which each alarm's section is added.

    Raises:
        DefinitionError: that is no address of a page.
    """

    topic: AnyTopic | None
    runbook: str

    def __post_init__(self) -> None:
        if re.fullmatch(r"[^\s#]+", self.runbook) is None:
            told = f"runbook_url must be the address of a page, without a section of it, not {self.runbook!r}"
            raise DefinitionError(told)


class Alarms(Construct):
    """Alarms that go on when a metric exceeds a threshold. Each watches one metric, as CloudWatch charges by metric.

    Args:
        scope: parent construct.
        id: construct id.
        waking: of the service.
    """

    def __init__(self, scope: Construct, id: str, *, waking: Waking) -> None:
        super().__init__(scope, id)
        self._waking = waking

    def watch(
        self,
        id: str,
        metric: cloudwatch.Metric,
        what: str,
        section: str,
        *,
        above: float = 0,
        periods: int = 1,
        breaching: int | None = None,
        silence: bool = False,
    ) -> None:
        """Add an alarm."""
        told, link = what, f"What to do: {self._waking.runbook}#{section}"
        if len(told) + len(link) >= _LONGEST:  # it names many steps
            told = f"{told[: _LONGEST - len(link) - 4]}..."
        alarm = cloudwatch.Alarm(
            self,
            id,
            metric=cast("cloudwatch.IMetric", metric),
            threshold=above,
            comparison_operator=_SILENT if silence else _TOO_MUCH,
            evaluation_periods=periods,
            datapoints_to_alarm=breaching,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING if silence else _QUIET,
            alarm_description=f"{told} {link}",
        )
        if self._waking.topic is not None:
            action = actions.SnsAction(cast("sns.ITopic", self._waking.topic))
            alarm.add_alarm_action(cast("cloudwatch.IAlarmAction", action))

    def watch_errors(self, id: str, function: lambda_.Function, what: str) -> None:
        """Watch invocations that crashed or timed out. A step that merely raised is recorded, and no error of these."""
        metric = function.metric_errors(period=_FEW_MINUTES, statistic="Sum")
        self.watch(id, metric, f"{what} crashed or timed out.", "function-errors", periods=3, breaching=2)


class StepGroupAlarms(Alarms):
    """Alarms of step groups of one saga type.

    Args:
        scope: parent construct.
        id: construct id.
        queues: of the saga.
        waking: of the service.
    """

    def __init__(self, scope: Construct, id: str, *, queues: SagaQueues, waking: Waking) -> None:
        super().__init__(scope, id, waking=waking)
        self._queues = queues

    def add_group(self, group: StepGroup, function: lambda_.Function) -> None:
        """Watch the queue and the function of a step group."""
        oldest = self._queues.seen_from(self, group.id).metric_approximate_age_of_oldest_message(
            period=_FEW_MINUTES, statistic="Maximum"
        )
        above = min(group.longest + _SPARE_AGE, _MOST_AGE)
        where = f"{group.names} of saga {group.saga.name}"
        waits = f"Messages of {where} wait longer than its retries explain."
        self.watch(f"{group.id}-Age", oldest, waits, "oldest-message", above=above, periods=2)
        self.watch_errors(f"{group.id}-Errors", function, f"The function of {where}")


class SagaAlarms(StepGroupAlarms):
    """Alarms of one saga type, and of step groups of it.

    Args:
        scope: parent construct.
        id: construct id.
        saga: the saga type.
        service: the service's name, a dimension of its metrics.
        queues: of the saga.
        waking: of the service.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        saga: SagaDefinition,
        service: str,
        queues: SagaQueues,
        waking: Waking,
    ) -> None:
        super().__init__(scope, id, queues=queues, waking=waking)
        self._saga, self._service = saga.name, service
        letters = queues.dead_letters.metric_approximate_number_of_messages_visible(period=_MINUTE, statistic="Maximum")
        self.watch(
            "DeadLetters", letters, f"Saga {saga.name} has dead letters: sagas that wait for you.", "dead-letters"
        )
        self._count("CompensationFailed", f"An undo of saga {saga.name} failed for good.", "compensation-failed")
        self._count("NeedsAttention", f"A saga {saga.name} needs a person.", "needs-attention")
        # A throttled record is back in seconds: only what goes on for a quarter of an hour is more than a hiccup.
        failing = saga_metric("RecordFailed", saga.name, service, _FEW_MINUTES)
        cannot = f"Messages of saga {saga.name} cannot be handled, again and again."
        self.watch("RecordFailed", failing, cannot, "failing-records", periods=3)
        oldest = saga_metric("OldestOverdueSaga", saga.name, service, _FEW_MINUTES, "Maximum")
        overdue = f"A stalled saga {saga.name} has waited for the supervisor for more than 15 minutes."
        self.watch("OldestOverdue", oldest, overdue, "oldest-due-saga", above=_SPARE_AGE, periods=2)
        if saga.auto_disable is not None:
            self._count("TypePaused", f"Saga {saga.name} keeps failing: its starts are paused.", "type-paused")
        if any(step.circuit_breaker is not None for step in saga.steps):
            opened = saga_metric("BreakerOpened", saga.name, service, _FEW_MINUTES)
            self.watch("BreakerOpened", opened, f"A step of saga {saga.name} is held back.", "breaker-opened")
        if saga.orphans is not None:
            # A sweep runs every few hours at most: it is seen in the period in which it ran.
            for name, what in (("SweepStopped", "found too many orphans and stopped"), ("SweepFailed", "failed")):
                metric = saga_metric(name, saga.name, service, _FEW_MINUTES)
                self.watch(name, metric, f"The sweep of saga {saga.name} {what}.", "sweep")

    def _count(self, status: str, what: str, section: str) -> None:
        self.watch(status, saga_metric(f"Saga{status}", self._saga, self._service), what, section)


class ServiceAlarms(Alarms):
    """Alarms of what all sagas of a service share.

    Args:
        scope: parent construct.
        id: construct id.
        service: its name, a dimension of its metrics.
        supervisor: the supervisor's function.
        api: the API's function.
        rest_api: the API.
        waking: of the service.
        every: how often the supervisor is called.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        service: str,
        supervisor: lambda_.Function,
        api: lambda_.Function,
        rest_api: apigateway.RestApi,
        waking: Waking,
        every: timedelta = timedelta(minutes=1),
    ) -> None:
        super().__init__(scope, id, waking=waking)
        self.watch_errors("SupervisorErrors", supervisor, "The supervisor")
        self.watch_errors("ApiErrors", api, "The API's function")
        calls = supervisor.metric_invocations(period=_FEW_MINUTES, statistic="Sum")
        # Called every five minutes, it may not be in one of five: a schedule is some seconds early or late.
        periods = 1 if every <= _OFTEN else 2
        silent = "The supervisor is not called any more."
        self.watch("SupervisorSilent", calls, silent, "supervisor-silent", silence=True, periods=periods)
        # What its function answers with 5xx is no error of Lambda's.
        failed = rest_api.metric_server_error(period=_FEW_MINUTES, statistic="Sum")
        self.watch("ApiServerErrors", failed, "The API answers 5xx.", "api-errors", periods=3, breaching=2)
        newer = _metric("NewerMessageFormat", {"service": service}, _FEW_MINUTES)
        self.watch(
            "NewerMessageFormat", newer, "Messages wait for a newer version of the library.", "newer-format", periods=3
        )
        # Of the whole account, whose executions all share: an alarm takes ten metrics, and there may be 200 steps.
        # The age of messages does not tell: SQS leaves one that was received three times out of it.
        account = cloudwatch.Metric(
            namespace="AWS/Lambda", metric_name="Throttles", period=_FEW_MINUTES, statistic="Sum", dimensions_map={}
        )
        self.watch("AccountThrottles", account, "Lambda refuses functions of this account.", "throttles", periods=3)
        for id_, function, what in (("Supervisor", supervisor, "The supervisor"), ("Api", api, "The API's function")):
            throttles = function.metric_throttles(period=_FEW_MINUTES, statistic="Sum")
            self.watch(f"{id_}Throttles", throttles, f"{what} was refused by Lambda.", "throttles", periods=2)
        oldest = _metric("OldestOverdueSaga", {"service": service}, _FEW_MINUTES, "Maximum")
        waits = "A stalled saga has waited for the supervisor for more than 15 minutes."
        self.watch("OldestOverdue", oldest, waits, "oldest-due-saga", above=_SPARE_AGE, periods=2)
        without = _metric("SagaWithoutCode", {"service": service}, _FEW_MINUTES)
        self.watch("WithoutCode", without, "Sagas are in flight whose type is not deployed.", "saga-without-code")

        broken = _metric("AuditMismatch", {"service": service}, _FEW_MINUTES)
        self.watch("AuditMismatch", broken, "The audit trail of a saga is not what was written.", "audit-broken")

    def add_work(
        self, id: str, dead_letters: sqs.Queue, function: lambda_.Function, given_up: str, section: str, what: str
    ) -> None:
        """Watch a work queue of the service."""
        letters = dead_letters.metric_approximate_number_of_messages_visible(period=_MINUTE, statistic="Maximum")
        self.watch(f"{id}DeadLetters", letters, given_up, section)
        self.watch_errors(f"{id}Errors", function, what)

    def add_commands(self, dead_letters: sqs.Queue, function: lambda_.Function) -> None:
        """Watch the command queue."""
        letters = dead_letters.metric_approximate_number_of_messages_visible(period=_MINUTE, statistic="Maximum")
        what = "Commands or events were refused, or could not be delivered."
        self.watch("CommandDeadLetters", letters, what, "command-dead-letters")
        self.watch_errors("CommandErrors", function, "The function of the command queue")

    def add_archive(self, lag: cloudwatch.Metric, missed: sqs.Queue) -> None:
        """Watch the archive of the audit trail. ``lag``: the age of the oldest entry that is not archived, in
        milliseconds."""
        late = "The audit trail is not archived; what is older than a day will be missing."
        self.watch("ArchiveLate", lag, late, "archive", above=_ARCHIVED_BY * 1000, periods=3)
        lost = missed.metric_approximate_number_of_messages_visible(period=_FEW_MINUTES, statistic="Maximum")
        self.watch("ArchiveMissed", lost, "Audit entries are missing in the archive.", "archive")

    def add_outbox(self, service: str, lost: sqs.Queue, function: lambda_.Function) -> None:
        """Watch what tells events."""
        age = function.metric("IteratorAge", period=_FEW_MINUTES, statistic="Maximum")
        late = "Events of sagas are told more than 15 minutes late."
        self.watch("EventsLate", age, late, "events-late", above=_LATE_EVENTS, periods=2)
        untold = lost.metric_approximate_number_of_messages_visible(period=_MINUTE, statistic="Maximum")
        self.watch("EventsLost", untold, "Events of sagas were not told within 23 hours.", "events-lost")
        unread = _metric("EventNotPublished", {"service": service}, _FEW_MINUTES)
        self.watch("EventsUnread", unread, "A change of a saga could not be read: no event tells it.", "events-unread")
        self.watch_errors("EventErrors", function, "The function that tells events")
