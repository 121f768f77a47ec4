"""Steps that one invocation runs one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sagas.core.states import SagaState

_ALL = "*"


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps, with their undos, that this function goes on to in the same invocation: those of its own queue.

    Args:
        steps: their names; ``None`` for all there are.
    """

    steps: frozenset[str] | None = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> Chain:
        """Return the chain of these steps; ``*`` stands for all there are."""
        given = frozenset(names)
        return cls(None if _ALL in given else given)

    @classmethod
    def parse(cls, text: str) -> Chain:
        """Read the chain from a function's environment: names with commas between, ``*``, or nothing."""
        return cls.of(name for name in text.split(",") if name)

    def __contains__(self, step: str) -> bool:
        return self.steps is None or step in self.steps


UNCHAINED = Chain()
"""None: each step is another invocation's."""


@dataclass(slots=True)
class Course:
    """What the steps share that one invocation runs one after the other.

    Args:
        chain: which steps may follow each other.
        held: the saga with the next of them claimed, if it is.
        known: payloads that need not be read any more, by the numbers of their entries.
        hidden_until: epoch seconds at which the message at hand comes back should its worker die, where that is sooner
            than its queue's visibility timeout; 0 where it is not.
    """

    chain: Chain
    held: SagaState | None = None
    known: dict[int, str | None] = field(default_factory=dict[int, str | None])
    hidden_until: float = 0.0
