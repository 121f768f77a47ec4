"""The parts for search keys and blueprints."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sagas.engine.composition.core import Core
from sagas.store.index.search_keys import SearchKeys

if TYPE_CHECKING:
    from sagas.engine.start.blueprints import Blueprints


class Finding(Core):
    """Finds sagas by search keys, and stores blueprints."""

    @cached_property
    def search_keys(self) -> SearchKeys:
        """Search keys."""
        return SearchKeys(self.tables, self.settings)

    @cached_property
    def blueprints(self) -> Blueprints:
        """Blueprints. Only functions that start sagas need these parts."""
        from sagas.engine.start.blueprints import Blueprints
        from sagas.store.types.blueprints import BlueprintItems

        return Blueprints(BlueprintItems(self.tables, self.settings), self.clock)
