"""The option ``events``: the events that a service publishes, and the bus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from aws_cdk import aws_events as events
from constructs import Construct

from sagas.errors import DefinitionError

AnyBus = events.IEventBus | events.EventBus


@dataclass(frozen=True, slots=True)
class SagaEvents:
    """The events that a service publishes, and their bus.

    Args:
        bus: the bus for the events. Default: the service creates a bus.
        steps: whether events of steps are published, too. The outbox then reads each committed entry.
        payloads: whether events contain requests and results, as the API shows them, unless these are too large.
    """

    bus: AnyBus | None = None
    steps: bool = False
    payloads: bool = False

    @classmethod
    def of(cls, service: str, option: object) -> SagaEvents | None:
        """Return the value of a service's option ``events`` as :class:`SagaEvents`; ``None`` if it is not set.

        Args:
            service: the service's name, for the error message.
            option: a bus, a :class:`SagaEvents`, or ``None``.

        Raises:
            DefinitionError: the option has the wrong type.
        """
        match option:
            case None | SagaEvents():
                return option
            case events.EventBus() | Construct():
                return cls(bus=cast("AnyBus", option))
            case _:
                raise DefinitionError(f"{service}: events must be an EventBus or SagaEvents, not {option!r}")
