"""Results that travel with a saga's messages, so that a step need not read them from the journal.

The journal stays the authority. The control item keeps one digest over number and hash of each result so far, the
request first; a claim returns it. A message brings number, hash and, where they are small, the payloads themselves:
what it brings counts only if its hashes add up to the digest, and a payload only if it has its hash. Everything else is
read. So a principal that can write to a queue, but not to the table, cannot pass anything off as a result.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from sagas.core.states import SagaState
from sagas.messaging.message.carried import CarriedInput, fitting
from sagas.messaging.message.message import Message
from sagas.store.journal.entries import RESULTS, Entry
from sagas.store.journal.entry_hash import chained, payload_hash


def carried(entry: Entry) -> CarriedInput:
    """Return an entry's payload as a message brings it."""
    return CarriedInput(entry.seq, entry.payload_hash, entry.salt, entry.payload)


def digest_of(inputs: Iterable[CarriedInput]) -> str:
    """Return the digest of results, in order of their numbers; empty for none."""
    digest = ""
    for one in inputs:
        digest = chained(digest, one.seq, one.hash)
    return digest


def brought(inputs: tuple[CarriedInput, ...], digest: str) -> dict[int, str]:
    """Return the payloads that a message brought, by the numbers of their entries, as far as they are proven."""
    if not inputs or digest_of(inputs) != digest:
        return {}
    return {
        one.seq: one.payload
        for one in inputs
        if one.payload is not None and payload_hash(one.salt, one.payload) == one.hash
    }


def onward(inputs: tuple[CarriedInput, ...], entry: Entry | None, digest: str) -> tuple[CarriedInput, ...]:
    """Return what the next message brings: what the last one did, and the result that was committed since. Returns
    nothing if it does not add up, as after a recovery: then the next step reads."""
    if entry is not None and entry.action in RESULTS:
        inputs = (*inputs, carried(entry))
    return fitting(inputs) if inputs and digest_of(inputs) == digest else ()


def correlated(state: SagaState, message: Message) -> SagaState:
    """Return the saga with its correlation id: a long one is in its messages and its journal only."""
    return state if state.correlation_id else replace(state, correlation_id=message.correlation_id)
