"""The supervisor's parts."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.composition.purging import Purging
from sagas.engine.composition.recovering import Recovering
from sagas.engine.composition.verifying import Verifying
from sagas.engine.supervise.finding import Finder, look_ahead
from sagas.store.schedule.hand_outs import HandOuts


class Supervisor(Recovering, Purging, Verifying):
    """Finds what is due, hands it out, and does by hand what its messages do otherwise."""

    @cached_property
    def finder(self) -> Finder:
        """What finds what is due."""
        ahead = look_ahead(self.every)
        return Finder(self.listing, HandOuts(self.tables), self.queues, self.clock, self.pausing.shards, ahead)
