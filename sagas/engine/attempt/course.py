"""The state that the steps of one invocation share, and the results that their messages carry to save reads.

Only this module changes a course.

The journal is authoritative. The control item has a digest of the numbers and hashes of the request and all results. A
claim returns the digest. A message contains numbers, hashes and small payloads. The hashes must match the digest, and
each payload must match its hash. Payloads that do not match are read from the journal. So a principal that can write to
a queue, but not to the table, cannot forge a result.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from sagas.core.states import SagaState
from sagas.messaging.message import CarriedInput, Message, fitting
from sagas.paths import Place
from sagas.store.journal.entries import RESULTS, Entry, chained, payload_hash


def carried(entry: Entry) -> CarriedInput:
    """Return an entry's payload as messages contain it."""
    return CarriedInput(entry.seq, entry.payload_hash, entry.salt, entry.payload, entry.hidden)


def digest_of(inputs: Iterable[CarriedInput]) -> str:
    """Return the digest of results in the order of their numbers; empty if there are none."""
    digest = ""
    for carried_input in inputs:
        digest = chained(digest, carried_input.seq, carried_input.hash)
    return digest


class Value(NamedTuple):
    """A stored request or result: JSON text, and the paths to its hidden parts."""

    payload: str | None
    hidden: tuple[Place, ...] = ()


def payloads_of(values: Mapping[str, Value]) -> dict[str, str | None]:
    """Return the JSON texts of values."""
    return {name: value.payload for name, value in values.items()}


def proven_inputs(inputs: tuple[CarriedInput, ...], digest: str) -> dict[int, Value]:
    """Return a message's payloads that match the digest, by entry number. No digest covers the paths of hidden parts:
    they only redact error texts."""
    if not inputs or digest_of(inputs) != digest:
        return {}
    return {
        each.seq: Value(each.payload, each.hidden)
        for each in inputs
        if each.payload is not None and payload_hash(each.salt, each.payload) == each.hash
    }


def next_inputs(
    inputs: tuple[CarriedInput, ...], entry: Entry | None, digest: str, taken: Collection[int]
) -> tuple[CarriedInput, ...]:
    """Return the inputs of the next message: those of the last message, and the result committed since. Only the
    entries in ``taken`` bring their payloads. Return none if the inputs do not match the digest, for example after a
    recovery. The next step then reads the journal."""
    if entry is not None and entry.action in RESULTS:
        inputs = (*inputs, carried(entry))
    if not inputs or digest_of(inputs) != digest:
        return ()
    return fitting(each if each.seq in taken else CarriedInput(each.seq, each.hash) for each in inputs)


def correlated(state: SagaState, message: Message) -> SagaState:
    """Return the saga with its correlation id. A long correlation id is only in the saga's messages and journal."""
    return state if state.correlation_id else replace(state, correlation_id=message.correlation_id)


COMMIT_RESERVE = 5.0
"""Seconds reserved for sending an outcome to its queue if it cannot be committed."""
RECORDING = 2.0
"""Seconds of the function's time that are reserved for recording the outcome."""
_AFTER_LEASE = 5.0
"""Seconds from the end of a lease until the message returns if the holder has died."""

_ALL = "*"


class Chain(Struct, frozen=True):
    """The steps whose code and undos a function may run in one invocation: those of its own queue.

    Args:
        steps: the names of the steps; ``None`` for all steps.
    """

    steps: frozenset[str] | None = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> Chain:
        """Return the chain of these steps; ``*`` means all."""
        given = frozenset(names)
        return cls(None if _ALL in given else given)

    @classmethod
    def parse(cls, text: str) -> Chain:
        """Read the chain from a function's environment: names separated by commas, ``*``, or nothing."""
        return cls.of(name for name in text.split(",") if name)

    def __contains__(self, step: str) -> bool:
        return self.steps is None or step in self.steps


UNCHAINED = Chain()
"""No chain: each step has an invocation of its own."""


class Course(Struct):
    """The state of an invocation that handles a message. The steps that run in a chain share this state.

    Args:
        chain: which steps may follow each other.
    """

    chain: Chain
    _claimed: SagaState | None = None
    """The saga, if the last commit has claimed its next step."""
    _cached: dict[int, Value] = field(default_factory=dict[int, Value])
    """Values that need no read, by entry number."""
    _hidden_until: float = 0.0
    """Epoch seconds at which the current message returns if its worker dies; 0 unless a step has changed that time."""

    @classmethod
    def of(cls, chain: Chain, step: str) -> Course:
        """Return the course of a message for ``step``, in a function that chains the steps of ``chain``."""
        return cls(chain if step in chain else UNCHAINED)

    @property
    def chained(self) -> bool:
        """Whether further steps may run in this invocation."""
        return self.chain is not UNCHAINED

    def claim(self, state: SagaState, entry: Entry | None, *, adopted: bool) -> None:
        """Record that the commit of ``entry`` has claimed the next step. ``adopted``: a predecessor wrote the entry."""
        self._claimed = state
        if entry is not None and entry.action == "StepCompleted" and entry.payload is not None and not adopted:
            self._cached[entry.seq] = Value(entry.payload, entry.hidden)

    def take(self) -> SagaState | None:
        """Return the saga if the last commit claimed its next step. A second call returns ``None``."""
        claimed = self._claimed
        self._claimed = None
        return claimed

    def lease_end(self, began: float, timeout: float) -> float:
        """Return when a lease taken at ``began`` must end. In a chain, a lease covers only one step. A step that runs
        beyond its timeout loses it. Times are epoch seconds."""
        return round(began + timeout + RECORDING + COMMIT_RESERVE, 3) if self.chained else math.inf

    def wrongly_hidden(self, lease_end: float, deadline: float) -> bool:
        """Return whether the message would return before the lease ends, or much later. The time of return was set by
        an earlier step, or by the queue, which knows only the function's ``deadline``. Times are epoch seconds."""
        if self._hidden_until:
            return self._hidden_until < lease_end < math.inf
        return lease_end + _AFTER_LEASE < deadline

    def comes_back(self, lease_end: float) -> float:
        """Return when the message must return: soon after the lease ends. ``lease_end``: epoch seconds."""
        return lease_end + _AFTER_LEASE

    def hidden(self, until: float) -> None:
        """Record when the message returns. ``until``: epoch seconds."""
        self._hidden_until = until if self.chained else 0.0

    def cached(self, inputs: tuple[CarriedInput, ...], digest: str) -> dict[int, Value]:
        """Return the values that need no read, by entry number: at first those that the message contains and whose
        hashes match. The caller adds values that it had to read."""
        if not self._cached or not self.chained:
            self._cached = {0: Value(None), **proven_inputs(inputs, digest)}
        return self._cached
