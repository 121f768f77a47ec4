"""The parts of a service. Each part counts its resources, names those with state, and adds its alarms."""

from __future__ import annotations

from collections.abc import Iterable

from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.parts.alarms import Alarms


class Part:
    """A part of a service."""

    @classmethod
    def count(cls, catalogue: Catalogue) -> int:
        """Return the number of CloudFormation resources of this part, without those that every service has. The number
        is needed before any part is created, because the total decides where resources go."""
        del catalogue
        return 0

    @classmethod
    def reserve(cls, catalogue: Catalogue) -> int:
        """Return the number of resources to reserve in the service's stack, also for a part that may be added later."""
        return cls.count(catalogue)

    def watch(self, alarms: Alarms) -> None:
        """Add the alarms of this part, and have them guard the deployment of its function."""


def resources(parts: Iterable[type[Part]], catalogue: Catalogue) -> tuple[int, int]:
    """Return the number of resources of all parts, and the number to reserve in the service's stack."""
    kinds = list(parts)
    return sum(part.count(catalogue) for part in kinds), sum(part.reserve(catalogue) for part in kinds)
