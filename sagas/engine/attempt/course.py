"""The state that the steps of one invocation share. All changes of a course are in this file."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from sagas.core.states import SagaState
from sagas.engine.attempt.carrying import Value, proven_inputs
from sagas.messaging.message.carried import CarriedInput
from sagas.store.journal.entries import Entry

COMMIT_RESERVE = 5.0
"""Seconds reserved to send an outcome to its queue if it cannot be committed."""
RECORDING = 2.0
"""Seconds of its function's time that are reserved to record the outcome."""
_AFTER_LEASE = 5.0
"""Seconds after the end of a lease at which its message returns if its holder has died."""

_ALL = "*"


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps and undos that a function runs in one invocation: those of its own queue.

    Args:
        steps: their names; ``None`` for all.
    """

    steps: frozenset[str] | None = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> Chain:
        """Return the chain of these steps; ``*`` stands for all."""
        given = frozenset(names)
        return cls(None if _ALL in given else given)

    @classmethod
    def parse(cls, text: str) -> Chain:
        """Read the chain from a function's environment: names with commas between, ``*``, or nothing."""
        return cls.of(name for name in text.split(",") if name)

    def __contains__(self, step: str) -> bool:
        return self.steps is None or step in self.steps


UNCHAINED = Chain()
"""Each step has an invocation of its own."""


@dataclass(slots=True)
class Course:
    """State shared by the steps that one invocation runs in a chain, or by the one step of any other message.

    Args:
        chain: which steps may follow each other.
    """

    chain: Chain
    _claimed: SagaState | None = None
    """The saga if its next step is claimed already."""
    _cached: dict[int, Value] = field(default_factory=dict[int, Value])
    """Values that are read already, by the numbers of their entries."""
    _hidden_until: float = 0.0
    """Epoch seconds at which the current message returns if its worker dies, if a step has changed that."""

    @classmethod
    def of(cls, chain: Chain, step: str) -> Course:
        """Return the course of a message for ``step``, in a function that chains the steps of ``chain``."""
        return cls(chain if step in chain else UNCHAINED)

    @property
    def chained(self) -> bool:
        """Whether further steps may follow."""
        return self.chain is not UNCHAINED

    def claim(self, state: SagaState, entry: Entry | None, *, adopted: bool) -> None:
        """Note that the commit of ``entry`` has claimed the next step. ``adopted``: a predecessor had written it."""
        self._claimed = state
        if entry is not None and entry.action == "StepCompleted" and entry.payload is not None and not adopted:
            self._cached[entry.seq] = Value(entry.payload, entry.hidden)

    def take(self) -> SagaState | None:
        """Return the saga if the last commit claimed the step that is next; once."""
        claimed, self._claimed = self._claimed, None
        return claimed

    def lease_end(self, began: float, timeout: float) -> float:
        """Return when a lease taken at ``began`` must end. In a chain it covers one step only: a longer step loses it,
        as its own function would be stopped. Times are epoch seconds."""
        return round(began + timeout + RECORDING + COMMIT_RESERVE, 3) if self.chained else math.inf

    def wrongly_hidden(self, lease_end: float, deadline: float) -> bool:
        """Return whether the message would return too early for the lease, or much later than it ends. It is hidden by
        its queue, which knows only the ``deadline`` of the function, or by an earlier step. Times are epoch seconds."""
        if self._hidden_until:
            return self._hidden_until < lease_end < math.inf
        return lease_end + _AFTER_LEASE < deadline

    def comes_back(self, lease_end: float) -> float:
        """Return when the message must return: soon after the lease. ``lease_end``: epoch seconds."""
        return lease_end + _AFTER_LEASE

    def hidden(self, until: float) -> None:
        """Note when the message returns. ``until``: epoch seconds."""
        self._hidden_until = until if self.chained else 0.0

    def cached(self, inputs: tuple[CarriedInput, ...], digest: str) -> dict[int, Value]:
        """Return the values that need no read, by the numbers of their entries: at first those that the message
        carries and whose hashes match. The caller adds what it reads."""
        if not self._cached or not self.chained:
            self._cached = {0: Value(None), **proven_inputs(inputs, digest)}
        return self._cached
