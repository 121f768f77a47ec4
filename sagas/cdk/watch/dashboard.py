"""The dashboard in CloudWatch: starts and ends of sagas, durations of steps, queues, and cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from aws_cdk import Duration
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from sagas.cdk.compute.functions import SagaFunction, SharedAssets
from sagas.cdk.data.queues import SagaQueues
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.parts.alarms import saga_metric

_PERIOD = Duration.minutes(5)
_WIDTH = 24
_HEIGHT = 6
_MOST_FUNCTIONS = 150
"""With more step functions than this, the dashboard does not show them individually."""
_ENDS = ("Completed", "Compensated", "Cancelled", "Failed", "CompensationFailed", "DeadLettered", "NeedsAttention")


class ServiceDashboard(Construct):
    """A dashboard with one row for the service and one per saga type. It needs no custom metrics, which cost extra.
    ``base_path`` is the prefix of the API's paths: calls of ``POST /sagas/{type}`` are the starts."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        catalogue: Catalogue,
        shared: SharedAssets,
        functions: Mapping[tuple[str, str], SagaFunction],
        supervisor: lambda_.Function,
        api: apigateway.RestApiBase,
        base_path: str,
    ) -> None:
        super().__init__(scope, id)
        options = shared.options
        tables = shared.tables
        self._service = options.service
        self._dashboard = cloudwatch.Dashboard(self, "Dashboard", default_interval=Duration.hours(12))
        heading = f"# Sagas of {options.service}\nWhat to do when an alarm fires: `{options.runbook_url}`"
        self._row(cloudwatch.TextWidget(markdown=heading, width=_WIDTH, height=2))
        named = (("sagas", tables.sagas), ("audit", tables.audit))
        written = [t.metric_consumed_write_capacity_units(period=_PERIOD, label=f"{name} written") for name, t in named]
        read = [t.metric_consumed_read_capacity_units(period=_PERIOD, label=f"{name} read") for name, t in named]
        where = {
            "ApiName": api.rest_api_name,
            "Stage": api.deployment_stage.stage_name,
            "Resource": f"{base_path}/sagas/{{type}}",
            "Method": "POST",
        }
        calls = [
            cloudwatch.Metric(
                namespace="AWS/ApiGateway",
                metric_name=name,
                dimensions_map=where,
                period=_PERIOD,
                statistic="Sum",
                label=label,
            )
            for name, label in (("Count", "start calls"), ("4XXError", "refused"), ("5XXError", "failed"))
        ]
        self._row(
            _graph("Starts and refused calls", calls),
            _graph("Supervisor", [supervisor.metric_duration(period=_PERIOD, statistic="Maximum")]),
            _graph("Write and read units (cost)", [*written, *read]),
        )
        for saga in catalogue.sagas:
            own = [(group.names, functions[saga.name, group.id].function) for group in catalogue.groups(saga)]
            self._add_saga(saga.name, own, shared.queues.get(saga.name), by_step=len(functions) <= _MOST_FUNCTIONS)

    def _add_saga(
        self, saga: str, functions: Sequence[tuple[str, lambda_.Function]], queues: SagaQueues | None, *, by_step: bool
    ) -> None:
        """Add a row for a saga type. ``queues`` is ``None`` if the type only waits."""
        ends = [saga_metric(f"Saga{end}", saga, self._service, _PERIOD).with_(label=end) for end in _ENDS]
        if queues is None:
            self._row(_graph(f"{saga}: ends", ends))
            return
        by_group = [(group, queues.seen_from(self, group)) for group in queues.by_group] if by_step else []
        functions = functions if by_step else ()
        durations = [f.metric_duration(period=_PERIOD, statistic="p95", label=name) for name, f in functions]
        runs = [f.metric_invocations(period=_PERIOD, statistic="Sum", label=name) for name, f in functions]
        errors = [f.metric_errors(period=_PERIOD, statistic="Sum", label=f"{name} errors") for name, f in functions]
        retries = [
            saga_metric(name, saga, self._service, _PERIOD).with_(label=label)
            for name, label in (("StepRetried", "retries"), ("BreakerOpened", "breaker opened"))
        ]
        backlog = [
            queue.metric_approximate_number_of_messages_visible(period=_PERIOD, statistic="Maximum", label=name)
            for name, queue in (*by_group, ("dead letters", queues.dead_letters))
        ]
        self._row(
            _graph(f"{saga}: ends", ends),
            *([_graph(f"{saga}: step duration, 95th percentile", durations)] if durations else []),
            _graph(f"{saga}: step executions, retries and crashes", [*runs, *retries, *errors]),
            _graph(f"{saga}: backlog", backlog),
        )

    def _row(self, *widgets: cloudwatch.GraphWidget | cloudwatch.TextWidget) -> None:
        """Add widgets in a row over the whole width."""
        self._dashboard.add_widgets(*(cast("cloudwatch.IWidget", widget) for widget in widgets))


def _graph(title: str, metrics: Iterable[cloudwatch.Metric]) -> cloudwatch.GraphWidget:
    left = [cast("cloudwatch.IMetric", metric) for metric in metrics]
    return cloudwatch.GraphWidget(title=title, left=left, width=_WIDTH // 4, height=_HEIGHT)
