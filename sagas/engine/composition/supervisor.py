"""The supervisor's parts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sagas.engine.composition.purging import Purging
from sagas.engine.composition.recovering import Recovering
from sagas.engine.composition.verifying import Verifying
from sagas.engine.supervise.due_scan import Finder, look_ahead
from sagas.store.schedule.scan_positions import ScanPositions

if TYPE_CHECKING:
    from sagas.engine.supervise.leftovers import LeftoverFinder


class Supervisor(Recovering, Purging, Verifying):
    """Finds due sagas and sends them to work queues, or handles them itself on request."""

    @cached_property
    def finder(self) -> Finder:
        """Finds due sagas."""
        ahead = look_ahead(self.every)
        return Finder(self.listing, ScanPositions(self.tables), self.queues, self.clock, self.pausing.shards, ahead)

    @cached_property
    def leftover_finder(self) -> LeftoverFinder:
        """Finds what purges cannot find. Only the rule for purges needs these parts."""
        from sagas.engine.supervise.leftovers import LeftoverFinder
        from sagas.store.journal.leftovers import Leftovers
        from sagas.store.schedule.leftover_scans import LeftoverScans

        leftovers = Leftovers(self.tables, self.settings, self.payloads, self.search_keys)
        return LeftoverFinder(leftovers, LeftoverScans(self.tables, self.settings), self.clock, self.logger)
