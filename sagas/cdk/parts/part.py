"""The parts of a service: each counts its resources, names the stateful ones and adds its alarms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.parts.alarms import Alarms


class Part:
    """A part of a service."""

    @classmethod
    def count(cls, catalogue: Catalogue) -> int:
        """Return the number of its CloudFormation resources, in addition to those that every service has.

        It is called before the part is created, because the total decides where the resources go.
        """
        del catalogue
        return 0

    @classmethod
    def reserve(cls, catalogue: Catalogue) -> int:
        """Return the number for a part that may be added later. The service's stack reserves room for it."""
        return cls.count(catalogue)

    def held(self) -> Mapping[str, object]:
        """Return resources that hold sagas, messages, payloads or keys, by description. A deployment must not replace
        them."""
        return {}

    def watch(self, alarms: Alarms) -> None:
        """Add its alarms, and have them guard the deployment of its function."""


def resources(parts: Iterable[type[Part]], catalogue: Catalogue) -> tuple[int, int]:
    """Return the number of resources of these parts, and the number that the service's stack reserves room for."""
    kinds = list(parts)
    return sum(part.count(catalogue) for part in kinds), sum(part.reserve(catalogue) for part in kinds)
