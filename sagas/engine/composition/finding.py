"""The index of what sagas are found by."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.composition.core import Core
from sagas.store.index.findings import Findings


class Finding(Core):
    """Knows what sagas are found by."""

    @cached_property
    def findings(self) -> Findings:
        """The values that sagas are found by."""
        return Findings(self.tables, self.settings)
