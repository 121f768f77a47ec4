"""The parts that purge sagas."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.composition.reading import Reading
from sagas.engine.supervise.purge import Purger
from sagas.store.journal.tombstones import Tombstones


class Purging(Reading):
    """Purges sagas."""

    @cached_property
    def purger(self) -> Purger:
        """Purges sagas."""
        return Purger(
            self.control,
            self.journal,
            Tombstones(self.tables, self.settings, self.payloads),
            self.inbox,
            self.search_keys,
            self.joins,
            self.listing,
            self.reader,
            self.settings,
            self.clock,
            self.logger,
        )
