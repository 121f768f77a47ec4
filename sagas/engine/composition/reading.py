"""The parts that read sagas."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.composition.finding import Finding
from sagas.engine.read.reader import Reader
from sagas.engine.read.remains import Remains


class Reading(Finding):
    """Reads sagas."""

    @cached_property
    def reader(self) -> Reader:
        """Reads sagas."""
        return Reader(
            self.settings.service,
            self.registry,
            self.control,
            self.journal,
            self.listing,
            self.breakers,
            Remains(self.journal),
            self.pauses,
            self.search_keys,
            self.joins,
            lambda name: self.blueprints.started(name),
        )
