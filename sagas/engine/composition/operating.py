"""The parts for operations on single sagas."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.composition.reading import Reading
from sagas.engine.operate.operations import Operations
from sagas.engine.operate.signals import Signals


class Operating(Reading):
    """Cancels, retries, undoes and resolves sagas, and sends them signals."""

    @cached_property
    def operations(self) -> Operations:
        """Operations on a saga."""
        return Operations(self.reader, self.control, self.advancer)

    @cached_property
    def signals(self) -> Signals:
        """Accepts signals."""
        return Signals(self.reader, self.inbox, self.advancer, self.queues)
