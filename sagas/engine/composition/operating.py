"""The parts that do what callers ask of single sagas."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.composition.reading import Reading
from sagas.engine.operate.operations import Operations
from sagas.engine.operate.signals import Signals


class Operating(Reading):
    """Cancels, retries, undoes and settles sagas, and sends them signals."""

    @cached_property
    def operations(self) -> Operations:
        """What does something to a saga."""
        return Operations(self.reader, self.control, self.advancer)

    @cached_property
    def signals(self) -> Signals:
        """What accepts signals."""
        return Signals(self.reader, self.inbox, self.advancer, self.queues)
