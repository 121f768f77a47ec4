"""Results that travel in a saga's messages, so that a step need not read them from the journal.

The journal stays the authority. The control item has a digest over number and hash of each result, the request first,
and a claim returns it. A message contains numbers, hashes and small payloads. It counts only if its hashes match the
digest, and a payload only if it matches its hash. Everything else is read. So a principal that can write to a queue,
but not to the table, cannot forge a result.
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
    """Return an entry's payload in the form of a message."""
    return CarriedInput(entry.seq, entry.payload_hash, entry.salt, entry.payload, entry.hidden)


def digest_of(inputs: Iterable[CarriedInput]) -> str:
    """Return the digest of results, in the order of their numbers; empty for none."""
    digest = ""
    for carried_input in inputs:
        digest = chained(digest, carried_input.seq, carried_input.hash)
    return digest


class Value(NamedTuple):
    """A stored request or result: JSON text, and the paths to its hidden parts."""

    payload: str | None
    hidden: tuple[Place, ...] = ()


def proven_inputs(inputs: tuple[CarriedInput, ...], digest: str) -> dict[int, Value]:
    """Return a message's proven payloads, by the numbers of their entries. The paths are not proven: they only hide
    parts of error texts."""
    if not inputs or digest_of(inputs) != digest:
        return {}
    return {
        each.seq: Value(each.payload, each.hidden)
        for each in inputs
        if each.payload is not None and payload_hash(each.salt, each.payload) == each.hash
    }


def onward(inputs: tuple[CarriedInput, ...], entry: Entry | None, digest: str) -> tuple[CarriedInput, ...]:
    """Return the inputs of the next message: those of the last one, and the result committed since. If they do not
    match the digest, for example after a recovery, return nothing: the next step then reads."""
    if entry is not None and entry.action in RESULTS:
        inputs = (*inputs, carried(entry))
    return fitting(inputs) if inputs and digest_of(inputs) == digest else ()


def correlated(state: SagaState, message: Message) -> SagaState:
    """Return the saga with its correlation id. A long one is only in its messages and its journal."""
    return state if state.correlation_id else replace(state, correlation_id=message.correlation_id)
