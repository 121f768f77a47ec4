"""The API's parts."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.composition.operating import Operating
from sagas.engine.composition.purging import Purging
from sagas.engine.composition.recovering import Recovering
from sagas.engine.composition.starting import Starting
from sagas.engine.composition.verifying import Verifying
from sagas.engine.operate.breaker_operations import BreakerOperations
from sagas.engine.read.in_flight import InFlight
from sagas.engine.read.statistics import Statistics


class Api(Starting, Operating, Recovering, Purging, Verifying):
    """Answers callers and operators."""

    @cached_property
    def breaker_operations(self) -> BreakerOperations:
        """Operations on circuit breakers."""
        return BreakerOperations(
            self.breakers, self.control, self.listing, self.advancer, self.registry, self.journal, self.logger
        )

    @cached_property
    def statistics(self) -> Statistics:
        """Counts sagas."""
        operations = self.breaker_operations
        return Statistics(
            self.registry,
            self.control,
            self.listing,
            self.queues,
            self.pauses,
            operations,
            self.overview,
            self.clock,
        )

    @cached_property
    def in_flight(self) -> InFlight:
        """Groups sagas in flight."""
        return InFlight(self.registry, self.control, self.listing, self.journal, self.blueprints)
