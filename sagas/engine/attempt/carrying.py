"""Results in a saga's messages. They save reads of the journal.

The journal is authoritative. The control item has a digest of the numbers and hashes of the request and all results. A
claim returns the digest. A message contains numbers, hashes and small payloads. The hashes must match the digest, and
each payload must match its hash. Payloads that do not match are read from the journal. So a principal that can write to
a queue, but not to the table, cannot forge a result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from sagas.core.states import SagaState
from sagas.messaging.message.carried import CarriedInput, fitting
from sagas.messaging.message.message import Message
from sagas.paths import Place
from sagas.store.journal.entries import RESULTS, Entry
from sagas.store.journal.entry_hash import chained, payload_hash


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


def onward(inputs: tuple[CarriedInput, ...], entry: Entry | None, digest: str) -> tuple[CarriedInput, ...]:
    """Return the inputs of the next message: those of the last message, and the result committed since. Return none if
    they do not match the digest, for example after a recovery. The next step then reads the journal."""
    if entry is not None and entry.action in RESULTS:
        inputs = (*inputs, carried(entry))
    return fitting(inputs) if inputs and digest_of(inputs) == digest else ()


def correlated(state: SagaState, message: Message) -> SagaState:
    """Return the saga with its correlation id. A long correlation id is only in the saga's messages and journal."""
    return state if state.correlation_id else replace(state, correlation_id=message.correlation_id)
