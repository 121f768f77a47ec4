"""The outbox: a function that publishes a service's events on an EventBridge bus, from the control table's stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from sagas.cdk.compute.functions import SagaFunction, SharedAssets
from sagas.cdk.compute.permissions import allow_publishing
from sagas.cdk.compute.streams import follow, stream_of
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.tags import default_name, tag_part
from sagas.cdk.options.function_options import USUAL
from sagas.cdk.options.values import SagaEvents
from sagas.cdk.parts.alarms import FEW_MINUTES, Alarms, service_metric
from sagas.cdk.parts.part import Part

_TIMEOUT = 60
_BATCH = 100
_PUBLISHED = ("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED", "DEAD_LETTERED", "WAITING")
"""A saga that reaches one of these statuses has an event. Changes to other statuses are events of steps."""
_LATE = 15 * 60 * 1000
"""Milliseconds after which an event is late."""
_OF_A_SAGA = {"name_shard": {"S": [{"exists": True}]}}
"""A filter for items of sagas: the table has other items, too."""


class Outbox(SagaFunction, Part):
    """The function that publishes events, its bus, and the queue that names events it could not publish. The supervisor
    replays events. It reads them from journals, so operators may call it. They must not call the outbox, which
    publishes whatever it is called with."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        shared: SharedAssets,
        published: SagaEvents,
        environment: Mapping[str, str],
        supervisor: SagaFunction,
    ) -> None:
        tables = shared.tables
        service = shared.options.service
        stream = stream_of(tables.sagas, f"{service}: events: tables: sagas", old=True)
        key = cast("kms.IKey | None", shared.options.encryption_key)
        # The CDK would derive the name from the construct's path, and another stack of the app may have the same path.
        name = default_name(scope).replace("/", "-")
        bus = published.bus or events.EventBus(scope, "Bus", event_bus_name=name, kms_key=key)
        self.bus = cast("events.IEventBus", bus)
        extras = [name for name, chosen in (("steps", published.steps), ("payloads", published.payloads)) if chosen]
        publishing = {
            "SAGAS_EVENT_BUS": self.bus.event_bus_arn,
            "SAGAS_EVENT_SOURCE": f"sagas.{service}",
            **({"SAGAS_EVENTS": ",".join(extras)} if extras else {}),
        }
        super().__init__(
            scope,
            id,
            shared=shared,
            handler="sagas.handlers.outbox.handler",
            timeout=_TIMEOUT,
            environment={**environment, **publishing},
            function=USUAL,
            description="Publishes events of sagas as they are committed",
        )
        tag_part(self.alias, "events_function")
        allow_publishing(self.role, tables, payloads=published.payloads)
        supervisor.add_variables(publishing)
        for role in (self.role, supervisor.role):
            role.allow(iam.PolicyStatement(actions=["events:PutEvents"], resources=[self.bus.event_bus_arn]))
        # If a change cannot be published, Lambda isolates it by splitting the batch, and continues with the others.
        self.lost = follow(
            self,
            tables.sagas,
            stream,
            lost="Unpublished",
            encryption_key=shared.options.encryption_key,
            batch_size=_BATCH,
            window=Duration.seconds(1),
            filters=filters_of(steps=published.steps),
        )
        tag_part(self.lost, "event_dead_letter_queue")
        self._followed = tables.sagas
        self._steps = published.steps

    @classmethod
    def count(cls, catalogue: Catalogue) -> int:
        """Count the function, the bus, the queue and the alarms, if the option ``events`` is set."""
        options = catalogue.service_options
        published = SagaEvents.of(options.service, options.events)
        return 0 if published is None else cls.reserve(catalogue) + published.steps

    @classmethod
    def reserve(cls, catalogue: Catalogue) -> int:
        """Count the same resources even without the option, because the bus may be requested later."""
        return 11 + catalogue.service_options.alarms_by_step + catalogue.gradual

    def watch(self, alarms: Alarms) -> None:
        """Watch events that are published late, or not at all."""
        age = self.function.metric("IteratorAge", period=FEW_MINUTES, statistic="Maximum")
        late = "Events of sagas are published more than 15 minutes late."
        alarms.watch("EventsLate", age, late, "events-late", above=_LATE, periods=2)
        lost = "Events of sagas were not published within 23 hours."
        alarms.watch_letters("EventsLost", self.lost, lost, "events-lost")
        unread = service_metric("EventNotPublished", alarms.service)
        what = "A change to a saga could not be read"
        alarms.watch("EventsUnread", unread, f"{what}, so no event was published for it.", "events-unread")
        if self._steps:  # otherwise many changes are no events
            stopped = "Sagas are committed, but the function that publishes events is not called."
            alarms.watch_silence("EventsStopped", self.function, self._followed, stopped, "events-late")
        errors = alarms.watch_errors("EventErrors", self.function, "The function that publishes events")
        alarms.guard(self, self.alias, *errors)


def filters_of(*, steps: bool) -> list[dict[str, Any]]:
    """Return filters of the stream for changes that are events. Claims and heartbeats of sagas are not."""
    if steps:
        changes: list[dict[str, Any]] = [{"eventName": ["INSERT", "MODIFY"], "dynamodb": {"NewImage": _OF_A_SAGA}}]
    else:
        ends = _OF_A_SAGA | {"status": {"S": list(_PUBLISHED)}}
        attention = _OF_A_SAGA | {"attention": {"S": [{"exists": True}]}}
        changes = [
            {"eventName": ["INSERT"], "dynamodb": {"NewImage": _OF_A_SAGA}},
            {"eventName": ["MODIFY"], "dynamodb": {"NewImage": ends}},
            {"eventName": ["MODIFY"], "dynamodb": {"NewImage": attention}},
        ]
    return changes
