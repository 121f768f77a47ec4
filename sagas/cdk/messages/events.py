"""The outbox: a function publishes a service's events on a bus of EventBridge, from the stream of the control table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from sagas.cdk.compute.functions import SagaFunction, SharedAssets
from sagas.cdk.compute.permissions import allow_telling
from sagas.cdk.compute.streams import follow, stream_of
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.tags import default_name, tag_part
from sagas.cdk.options.function_options import FunctionOptions
from sagas.cdk.options.told import SagaEvents
from sagas.cdk.parts.alarms import FEW_MINUTES, Alarms, service_metric
from sagas.cdk.parts.part import Part

_TIMEOUT = 60
_BATCH = 100
_KEPT = Duration.hours(23)
"""How long a change is tried to be told: streams keep 24 hours, and what is given up is to be told of before."""
_TOLD = ("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED", "DEAD_LETTERED", "WAITING")
"""Statuses of which something may be told. Changes to others only tell of steps."""
_LATE = 15 * 60 * 1000
"""Milliseconds after which an event is late."""
_OF_A_SAGA = {"name_shard": {"S": [{"exists": True}]}}
"""The table holds more than sagas."""


class Outbox(SagaFunction, Part):
    """The function, its bus and the queue of what it could not tell.

    Args:
        scope: the service.
        id: construct id.
        shared: code, layers, options and tables.
        told: what is told, and where.
        environment: its variables.
        supervisor: publishes events once more. Operators may call it, and it reads them from the journals; the outbox
            publishes whatever it is called with.

    Raises:
        DefinitionError: the control table is there already, and has no stream of old and new images.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        shared: SharedAssets,
        told: SagaEvents,
        environment: Mapping[str, str],
        supervisor: SagaFunction,
    ) -> None:
        tables, service = shared.tables, shared.options.service
        stream = stream_of(tables.sagas, f"{service}: events: tables: sagas", old=True)
        key = cast("kms.IKey | None", shared.options.encryption_key)
        # The CDK would make the name from the construct's path alone, which a second stack of the app has, too.
        name = default_name(scope).replace("/", "-")
        bus = told.bus or events.EventBus(scope, "Bus", event_bus_name=name, kms_key=key)
        self.bus = cast("events.IEventBus", bus)
        asked = [name for name, one in (("steps", told.steps), ("payloads", told.payloads)) if one]
        publishing = {
            "SAGAS_EVENT_BUS": self.bus.event_bus_arn,
            "SAGAS_EVENT_SOURCE": f"sagas.{service}",
            **({"SAGAS_EVENTS": ",".join(asked)} if asked else {}),
        }
        super().__init__(
            scope,
            id,
            shared=shared,
            handler="sagas.handlers.outbox.handler",
            timeout=_TIMEOUT,
            environment={**environment, **publishing},
            function=FunctionOptions(),
            description="Tells events of sagas, as they are committed",
        )
        tag_part(self.alias, "events_function")
        allow_telling(self.role, tables, payloads=told.payloads)
        supervisor.add_variables(publishing)
        for role in (self.role, supervisor.role):
            role.add_to_policy(iam.PolicyStatement(actions=["events:PutEvents"], resources=[self.bus.event_bus_arn]))
        # One change that cannot be told is told apart from the others, which go on.
        self.lost = follow(
            self,
            tables.sagas,
            stream,
            lost="Untold",
            encryption_key=shared.options.encryption_key,
            batch_size=_BATCH,
            window=Duration.seconds(1),
            filters=filters_of(steps=told.steps),
            max_age=_KEPT,
        )
        tag_part(self.lost, "event_dead_letter_queue")

    @classmethod
    def count(cls, catalogue: Catalogue) -> int:
        """The function, the bus, the queue and the alarms, where the service asks for them."""
        return 0 if catalogue.service_options.events is None else cls.reserve(catalogue)

    @classmethod
    def reserve(cls, catalogue: Catalogue) -> int:
        """As many, since the bus may be asked for later."""
        return 14 if catalogue.gradual else 13

    def held(self) -> Mapping[str, object]:
        """The names of the events that could not be published."""
        return {"events not told": self.lost}

    def watch(self, alarms: Alarms) -> None:
        """Watch what is published late, or not at all."""
        age = self.function.metric("IteratorAge", period=FEW_MINUTES, statistic="Maximum")
        late = "Events of sagas are told more than 15 minutes late."
        alarms.watch("EventsLate", age, late, "events-late", above=_LATE, periods=2)
        alarms.watch_letters("EventsLost", self.lost, "Events of sagas were not told within 23 hours.", "events-lost")
        unread = service_metric("EventNotPublished", alarms.service)
        alarms.watch(
            "EventsUnread", unread, "A change of a saga could not be read: no event tells it.", "events-unread"
        )
        errors = alarms.watch_errors("EventErrors", self.function, "The function that tells events")
        alarms.guard(self, self.alias, errors)


def filters_of(*, steps: bool) -> list[dict[str, Any]]:
    """Return what of the stream the function is called for. Claims and heartbeats of sagas tell nothing."""
    if steps:
        changes: list[dict[str, Any]] = [{"eventName": ["INSERT", "MODIFY"], "dynamodb": {"NewImage": _OF_A_SAGA}}]
    else:
        ends = _OF_A_SAGA | {"status": {"S": list(_TOLD)}}
        attention = _OF_A_SAGA | {"attention": {"S": [{"exists": True}]}}
        changes = [
            {"eventName": ["INSERT"], "dynamodb": {"NewImage": _OF_A_SAGA}},
            {"eventName": ["MODIFY"], "dynamodb": {"NewImage": ends}},
            {"eventName": ["MODIFY"], "dynamodb": {"NewImage": attention}},
        ]
    return changes
