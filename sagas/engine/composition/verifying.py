"""The parts that verify audit trails."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.composition.reading import Reading
from sagas.engine.supervise.verify import Verifier


class Verifying(Reading):
    """Verifies audit trails."""

    @cached_property
    def verifier(self) -> Verifier:
        """Verifies audit trails."""
        return Verifier(self.control, self.journal, self.reader, self.clock, self.settings.shards)
