"""The parts that find and recover stalled sagas."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sagas.engine.composition.core import Core
from sagas.engine.operate.pausing import Pausing
from sagas.engine.supervise.due_scan import look_ahead
from sagas.engine.supervise.recovery import RecoveryRun
from sagas.store.watermarks import Watermarks

if TYPE_CHECKING:
    from sagas.engine.read.overview import Overview


class Recovering(Core):
    """Recovers sagas, including paused ones."""

    @cached_property
    def pausing(self) -> Pausing:
        """Pauses and resumes."""
        return Pausing(
            self.pauses, self.registry, self.control, self.listing, self.advancer, self.auto_disabler, self.logger
        )

    @cached_property
    def overview(self) -> Overview:
        """The overview. Only the supervisor and the API need this part."""
        from sagas.engine.read.overview import Overview
        from sagas.store.overview import OverviewItem

        return Overview(
            self.registry,
            self.control,
            self.listing,
            self.breakers,
            self.pauses,
            self.auto_disabler,
            OverviewItem(self.tables, self.settings),
            self.clock,
        )

    @cached_property
    def recovery(self) -> RecoveryRun:
        """Recovers sagas."""
        queues, marks, ahead = self.queues, Watermarks(self.tables), look_ahead(self.every)
        return RecoveryRun(self.advancer, self.control, self.listing, queues, marks, queues, self.pausing, ahead)
