"""The supervisor: a function that one rule calls every one to five minutes. At each call it looks for stalled sagas,
every five minutes for sagas to purge. It sweeps every hour, verifies a sample of audit trails every day, and looks for
leftovers every week."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import cast

from aws_cdk import Duration, Validations
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.cdk.compute.functions import SagaFunction, SharedAssets
from sagas.cdk.compute.permissions import (
    allow_all_sagas,
    allow_counting_letters,
    allow_finding_leftovers,
    allow_sending,
    allow_working,
)
from sagas.cdk.layout.acknowledge import acknowledge
from sagas.cdk.layout.tags import tag_part
from sagas.cdk.options.function_options import USUAL
from sagas.cdk.parts.alarms import FEW_MINUTES, Alarms
from sagas.cdk.parts.part import Part

_TIMEOUT = 300
_OFTEN = timedelta(minutes=2)

_MISSED = "The next call makes up for a missed call, and an alarm fires if no call comes."
_FINDINGS = {"Serverless-LambdaAsyncFailureDestination": _MISSED, "Serverless-EventBusDLQ": _MISSED}


class SupervisorFunction(SagaFunction, Part):
    """The supervisor's function and its rule. It finds sagas to recover or purge, and passes them to work queues."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        shared: SharedAssets,
        work: Mapping[str, sqs.Queue],
        environment: Mapping[str, str],
    ) -> None:
        options = shared.options.own_function("supervisor", USUAL)
        super().__init__(
            scope,
            id,
            shared=shared,
            handler="sagas.handlers.supervisor.handler",
            timeout=options.timeout or _TIMEOUT,
            environment=environment,
            function=options,
            description="Finds stalled sagas and sagas to purge, and sweeps orphaned objects",
            sends_to=shared.queues.values(),
        )
        # Operators call the alias, so they reach the same version as the rule, also during a deployment.
        tag_part(self.alias, "supervisor")
        allow_all_sagas(self.role, shared.tables)
        allow_finding_leftovers(self.role, shared.tables)
        allow_sending(self.role, shared.queues.values(), counting=True)
        allow_counting_letters(self.role, shared.queues.values())
        for queue in work.values():
            allow_working(self.role, queue)
        self._every = shared.options.recover_every
        minutes = self._every // timedelta(minutes=1)
        # The next scheduled call is the retry. A late call would only repeat work.
        self.alias.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(minutes))
        acknowledge(Validations.of(self), _FINDINGS)
        tick = {
            "task": "tick",
            "time": events.EventField.from_path("$.time"),
            "sample": shared.options.verify_sample,
        }
        target = targets.LambdaFunction(
            cast("lambda_.IFunction", self.alias), event=events.RuleTargetInput.from_object(tick), retry_attempts=0
        )
        # At whole minutes, unlike a rate, so that the function knows from the event's time which tasks are due.
        schedule = events.Schedule.cron(minute=f"0/{minutes}")
        events.Rule(self, "Tick", schedule=schedule, targets=[cast("events.IRuleTarget", target)])

    def watch(self, alarms: Alarms) -> None:
        """Watch whether the supervisor is called, and whether its calls succeed, if there are alarms by step. If not,
        one alarm watches all background work."""
        if not alarms.by_step:
            return
        what = "The supervisor"
        errors = alarms.watch_errors("SupervisorErrors", self.function, what)
        calls = self.function.metric_invocations(period=FEW_MINUTES, statistic="Sum")
        # A scheduled call is some seconds early or late, so a period of five minutes may have none.
        periods = 1 if self._every <= _OFTEN else 2
        silent = "The supervisor is no longer called."
        alarms.watch("SupervisorSilent", calls, silent, "supervisor-silent", silence=True, periods=periods)
        alarms.watch_throttles("SupervisorThrottles", self.function, what)
        alarms.guard(self, self.alias, *errors)
