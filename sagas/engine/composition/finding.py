"""The index of search keys."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.composition.core import Core
from sagas.store.index.findings import Findings


class Finding(Core):
    """Finds sagas by search keys."""

    @cached_property
    def findings(self) -> Findings:
        """Search keys."""
        return Findings(self.tables, self.settings)
