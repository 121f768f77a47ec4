"""The index of search keys, and blueprints."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.composition.core import Core
from sagas.engine.start.blueprints import Blueprints
from sagas.store.index.search_keys import SearchKeys
from sagas.store.types.blueprints import BlueprintItems


class Finding(Core):
    """Finds sagas by search keys, and the blueprints that they were started with."""

    @cached_property
    def search_keys(self) -> SearchKeys:
        """Search keys."""
        return SearchKeys(self.tables, self.settings)

    @cached_property
    def blueprints(self) -> Blueprints:
        """Blueprints."""
        return Blueprints(BlueprintItems(self.tables, self.settings), self.clock)
