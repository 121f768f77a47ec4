"""What a service tells of its sagas, and where: the option ``events``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from aws_cdk import aws_events as events
from constructs import Construct

from sagas.errors import DefinitionError

AnyBus = events.IEventBus | events.EventBus


@dataclass(frozen=True, slots=True)
class SagaEvents:
    """What a service tells of its sagas, and where.

    Args:
        bus: that it tells it on; one of its own when absent.
        steps: whether it tells of steps, too: then its function reads each committed entry.
        payloads: whether requests and results are told, as the API shows them, where an event has room for them.
    """

    bus: AnyBus | None = None
    steps: bool = False
    payloads: bool = False

    @classmethod
    def of(cls, service: str, given: object) -> SagaEvents | None:
        """Return what the option ``events`` of a service stands for.

        Args:
            service: its name, for the message.
            given: a bus, a :class:`SagaEvents`, or ``None``.

        Raises:
            DefinitionError: it is neither.
        """
        match given:
            case None | SagaEvents():
                return given
            case events.EventBus() | Construct():
                return cls(bus=cast("AnyBus", given))
            case _:
                raise DefinitionError(f"{service}: events must be an EventBus or SagaEvents, not {given!r}")
