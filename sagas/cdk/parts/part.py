"""What a service is made of: each part says what it counts, holds and watches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.parts.alarms import Alarms


class Part:
    """A part of a service, which goes through its parts and asks each of them the same."""

    @classmethod
    def count(cls, catalogue: Catalogue) -> int:
        """Return how many CloudFormation resources it takes in this service, beyond what every service has.

        The service asks before it makes the part: the answer decides where the resources go.
        """
        del catalogue
        return 0

    @classmethod
    def reserve(cls, catalogue: Catalogue) -> int:
        """Return the same for a part that may be added to a deployed service: its stack keeps that much room."""
        return cls.count(catalogue)

    def held(self) -> Mapping[str, object]:
        """Return what holds sagas, messages, payloads or keys, by what it is. A deployment must not replace it."""
        return {}

    def watch(self, alarms: Alarms) -> None:
        """Add its alarms, and guard the deployment of its function with them."""


def resources(parts: Iterable[type[Part]], catalogue: Catalogue) -> tuple[int, int]:
    """Return how many resources these parts take, and for how many the service's stack keeps room."""
    kinds = list(parts)
    return sum(part.count(catalogue) for part in kinds), sum(part.reserve(catalogue) for part in kinds)
