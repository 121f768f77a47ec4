"""The parts that start sagas."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.composition.finding import Finding
from sagas.engine.start.starter import Starter


class Starting(Finding):
    """Starts sagas."""

    @cached_property
    def starter(self) -> Starter:
        """Starts sagas."""
        return Starter(
            self.settings.service,
            self.registry,
            self.control,
            self.journal,
            self.sender,
            self.clock,
            self.pauses,
            self.auto_disabler,
            self.search_keys,
            self.blueprints,
            carry=self.carry,
            headers=None if self.tracer is None else self.tracer.headers,
        )
