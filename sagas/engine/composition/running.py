"""The parts that run steps and undos."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sagas.engine.advance import MakesAttempts
from sagas.engine.attempt.idempotency import IdempotentAttempt
from sagas.engine.composition.core import Core
from sagas.engine.worker import QueueProgress, Worker

if TYPE_CHECKING:
    from sagas.store.watermarks import Watermarks


class Running(Core):
    """Handles the messages of steps."""

    @cached_property
    def attempts(self) -> MakesAttempts:
        """Makes attempts for Powertools to drive. If sagas are traced, attempts have spans."""
        if self.tracer is None:
            return IdempotentAttempt
        from sagas.engine.observe.tracing import traced_attempts

        return traced_attempts(self.tracer)

    @cached_property
    def worker(self) -> Worker:
        """Handles messages."""
        return Worker(self.advancer)

    @cached_property
    def queue_progress(self) -> QueueProgress:
        """Records the progress of the step's queue."""
        return QueueProgress(lambda: self.watermarks, self.clock, self.routes.representative)

    @cached_property
    def watermarks(self) -> Watermarks:
        """The notes of how far queues have got."""
        from sagas.store.watermarks import Watermarks

        return Watermarks(self.tables)
