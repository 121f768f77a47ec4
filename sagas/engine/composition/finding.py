"""The index of search keys."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.children.children import Children
from sagas.engine.composition.core import Core
from sagas.engine.start.births import ChildCreator
from sagas.engine.supervise.looking import CodelessAdvancer
from sagas.store.index.findings import SearchKeys


class Finding(Core):
    """Finds sagas by search keys."""

    @cached_property
    def search_keys(self) -> SearchKeys:
        """Search keys."""
        return SearchKeys(self.tables, self.settings)


class Families(Finding):
    """Advances sagas that wait, and sagas with children."""

    @cached_property
    def codeless_advancer(self) -> CodelessAdvancer:
        """Advances one saga."""
        return CodelessAdvancer(self.advancer, self.control)

    @cached_property
    def children(self) -> Children:
        """Advances a saga with children."""
        headers = None if self.tracer is None else self.tracer.headers
        creator = ChildCreator(
            self.registry, self.control, self.journal, self.clock, self.carry, headers, self.search_keys
        )
        return Children(self.advancer, self.control, self.joins, creator, self.sender, self.queues)
