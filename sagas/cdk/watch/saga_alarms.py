"""The alarms of saga types and step groups, and the alarms that all types of a service share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from sagas.authoring.definition.definition import SagaDefinition
from sagas.cdk.compute.functions import SagaFunction
from sagas.cdk.data.queues import SagaQueues
from sagas.cdk.layout.nested_stacks import Placement
from sagas.cdk.layout.step_groups import StepGroup
from sagas.cdk.parts.alarms import FEW_MINUTES, Alarms, Waking, saga_metric, service_metric

_MOST_AGE = 14 * 24 * 3600
_SPARE_AGE = 900
"""An alarm fires if a saga or message waits this many seconds longer than the policies explain."""


def watch_sagas(
    placements: Sequence[Placement],
    queues: Mapping[str, SagaQueues],
    functions: Mapping[tuple[str, str], SagaFunction],
    waking: Waking,
) -> None:
    """Watch all saga types and step groups of a service. Alarms are in the stack of the functions."""
    saga_wide: dict[str, Sequence[cloudwatch.Alarm]] = {}
    for placement in placements:
        saga = placement.saga
        own = queues[placement.saga.name]
        alarms = Alarms(placement.scope, placement.id_of("alarms"), waking=waking)
        if placement.saga_wide:
            saga_wide[saga.name] = _watch_saga(alarms, saga)
        for group in placement.groups:
            function = functions[saga.name, group.id]
            errors = _watch_group(alarms, group, own, function.function) if alarms.by_step else []
            alarms.guard(function, function.alias, *errors, *saga_wide[saga.name])


def _watch_group(
    alarms: Alarms, group: StepGroup, queues: SagaQueues, function: lambda_.Function
) -> list[cloudwatch.Alarm]:
    """Watch the queue and the function of a step group. Returns the alarm on the function's errors."""
    oldest = queues.seen_from(alarms, group.id).metric_approximate_age_of_oldest_message(
        period=FEW_MINUTES, statistic="Maximum"
    )
    above = min(group.longest + _SPARE_AGE, _MOST_AGE)
    where = f"{group.names} of saga {group.saga.name}"
    waits = f"Messages of {where} have waited longer than its retries explain."
    alarms.watch(f"{group.id}-Age", oldest, waits, "oldest-message", above=above, periods=2)
    return alarms.watch_errors(f"{group.id}-Errors", function, f"The function of {where}")


def _watch_saga(alarms: Alarms, saga: SagaDefinition) -> Sequence[cloudwatch.Alarm]:
    """Watch a saga type. Returns the alarms that roll back a deployment. Those on sagas that wait for an operator are
    not among them: such a saga would block every deployment. Instead, an alarm that notifies nobody counts the sagas
    that begin to wait."""
    service = alarms.service

    def watch_needing(id: str, what: str, section: str) -> None:
        alarms.watch(id, alarms.gauge("SagasNeedingAttention", saga.name), what, section)

    listed = f"Attention list of saga {saga.name}: one or more sagas wait for an operator."
    watch_needing("NeedsAttention", listed, "needs-attention")
    # A throttled record is retried within seconds. Only failures that last a quarter of an hour count.
    failing = saga_metric("Failing", saga.name, service, FEW_MINUTES)
    cannot = f"Messages of saga {saga.name} repeatedly cannot be handled, or its attempts die with their function."
    unrecorded = alarms.watch("Failing", failing, cannot, "failing-records", periods=3, clears=True)
    if alarms.by_step:
        letters = f"Dead letters of saga {saga.name}: one or more sagas wait for an operator."
        watch_needing("DeadLetters", letters, "dead-letters")
        oldest = saga_metric("OldestOverdueSaga", saga.name, service, FEW_MINUTES, "Maximum")
        overdue = f"A stalled saga {saga.name} has waited for the supervisor for more than 15 minutes."
        alarms.watch("OldestOverdue", oldest, overdue, "oldest-due-saga", above=_SPARE_AGE, periods=2)
    if saga.auto_disable is not None:
        paused = saga_metric("SagaTypePaused", saga.name, service)
        alarms.watch("TypePaused", paused, f"Saga {saga.name} keeps failing, so its starts are paused.", "type-paused")
    if any(step.circuit_breaker is not None for step in saga.steps):
        opened = saga_metric("BreakerOpened", saga.name, service, FEW_MINUTES)
        paused = f"A circuit breaker of saga {saga.name} has opened: one of its steps is paused."
        alarms.watch("BreakerOpened", opened, paused, "breaker-opened")
    if saga.orphans is not None:
        # Sweeps are hours apart, so the alarm watches each period in which one ran.
        for name, what in (("SweepStopped", "stopped: it found too many orphans"), ("SweepFailed", "failed")):
            metric = saga_metric(name, saga.name, service, FEW_MINUTES)
            alarms.watch(name, metric, f"The sweep of saga {saga.name} {what}.", "sweep")
    if not alarms.gradual:
        return (unrecorded,)
    begun = saga_metric("SagaNeedsAttention", saga.name, service)
    what = f"A saga {saga.name} has begun to need an operator, which stops a gradual deployment."
    rollback = alarms.watch("Rollback", begun, what, "needs-attention", notifies=False)
    return unrecorded, rollback


def watch_background(alarms: Alarms, supervisor: lambda_.Function, letters: Sequence[sqs.Queue]) -> None:
    """Watch with one alarm whether the supervisor runs, and whether work was given up."""
    metrics: dict[str, Any] = {
        "calls": supervisor.metric_invocations(period=FEW_MINUTES, statistic="Sum"),
        "errors": supervisor.metric_errors(period=FEW_MINUTES, statistic="Sum"),
    }
    for number, queue in enumerate(letters):
        visible = queue.metric_approximate_number_of_messages_visible(period=FEW_MINUTES, statistic="Maximum")
        metrics[f"letters{number}"] = visible
    # SQS reports nothing of a queue that was empty for hours. Then the maximum is that of the calls, times 0. Without
    # calls the expression has no value, which counts as silence.
    given_up = f"MAX([0 * calls, {', '.join(f'letters{number}' for number in range(len(letters)))}]) > 0"
    expression = f"IF(calls - errors < 1 OR {given_up}, 0, 1)"
    math = cloudwatch.MathExpression(expression=expression, using_metrics=metrics, period=FEW_MINUTES)
    what = "The supervisor does not run, or recovery, purges, sweeps or waits were given up."
    alarms.watch("Background", math, what, "background", silence=True, periods=2, clears=True)


def watch_service(alarms: Alarms) -> None:
    """Watch what concerns the whole service. With alarms by step, also watch throttling in the account, which the
    service shares with others."""
    leftover = "Dead letters that no saga needs: their sagas continued without them, or no function can read them."
    alarms.watch("LeftoverMessages", alarms.gauge("LeftoverMessages"), leftover, "leftover-messages")
    if not alarms.by_step:
        problem = service_metric("ServiceProblem", alarms.service)
        alarms.watch("Problem", problem, "The service needs an operator; the log has `problem`.", "problem")
        return
    newer = service_metric("NewerMessageFormat", alarms.service)
    alarms.watch(
        "NewerMessageFormat", newer, "Messages wait for a newer version of the library.", "newer-format", periods=3
    )
    # All functions share the account's executions. One alarm allows only ten metrics, and there may be 200 steps.
    # The age of messages does not show throttling: SQS ignores messages that were received three times.
    account = cloudwatch.Metric(
        namespace="AWS/Lambda", metric_name="Throttles", period=FEW_MINUTES, statistic="Sum", dimensions_map={}
    )
    alarms.watch("AccountThrottles", account, "Lambda throttles functions of this account.", "throttles", periods=3)
    oldest = service_metric("OldestOverdueSaga", alarms.service, "Maximum")
    waits = "A stalled saga has waited for the supervisor for more than 15 minutes."
    alarms.watch("OldestOverdue", oldest, waits, "oldest-due-saga", above=_SPARE_AGE, periods=2)
    without = service_metric("SagaWithoutCode", alarms.service)
    alarms.watch("WithoutCode", without, "Sagas are in flight whose type is not deployed.", "saga-without-code")
    unread = service_metric("InputsUnread", alarms.service)
    inputs = "Sagas wait because what their next step takes cannot be read."
    # A saga looks every five minutes, so one of two periods may have no look.
    alarms.watch("InputsUnread", unread, inputs, "inputs-unread", periods=2, breaching=1)
    broken = service_metric("AuditMismatch", alarms.service)
    tables = service_metric("WrongTables", alarms.service)
    alarms.watch("WrongTables", tables, "The tables belong to another service, so nothing runs.", "wrong-tables")
    alarms.watch("AuditMismatch", broken, "The audit trail of a saga differs from what was written.", "audit-broken")
