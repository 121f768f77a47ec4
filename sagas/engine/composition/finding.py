"""The index of search keys."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.composition.core import Core
from sagas.store.index.search_keys import SearchKeys


class Finding(Core):
    """Finds sagas by search keys."""

    @cached_property
    def search_keys(self) -> SearchKeys:
        """Search keys."""
        return SearchKeys(self.tables, self.settings)
