"""The parts that advance sagas without step code: ends of waits, and children."""

from __future__ import annotations

from functools import cached_property

from sagas.engine.children import Children
from sagas.engine.composition.finding import Finding
from sagas.engine.start.children import ChildCreator
from sagas.engine.supervise.codeless import CodelessAdvancer


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
            self.registry,
            self.control,
            self.journal,
            self.clock,
            self.blueprints,
            self.carry,
            headers,
            self.search_keys,
        )
        return Children(self.advancer, self.control, self.joins, creator, self.sender, self.queues)
