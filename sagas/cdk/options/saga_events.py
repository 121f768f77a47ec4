"""Which events a service publishes, and on which bus: the option ``events``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from aws_cdk import aws_events as events
from constructs import Construct

from sagas.errors import DefinitionError

AnyBus = events.IEventBus | events.EventBus


@dataclass(frozen=True, slots=True)
class SagaEvents:
    """Which events a service publishes, and on which bus.

    Args:
        bus: the bus for the events. Default: a bus of the service's own.
        steps: whether events of steps are published too. The function then reads each committed entry.
        payloads: whether events contain requests and results, as the API shows them, if they fit.
    """

    bus: AnyBus | None = None
    steps: bool = False
    payloads: bool = False

    @classmethod
    def of(cls, service: str, option: object) -> SagaEvents | None:
        """Return the events that the option ``events`` of a service asks for.

        Args:
            service: its name, for the message.
            option: a bus, a :class:`SagaEvents`, or ``None``.

        Raises:
            DefinitionError: the option has another type.
        """
        match option:
            case None | SagaEvents():
                return option
            case events.EventBus() | Construct():
                return cls(bus=cast("AnyBus", option))
            case _:
                raise DefinitionError(f"{service}: events must be an EventBus or SagaEvents, not {option!r}")
