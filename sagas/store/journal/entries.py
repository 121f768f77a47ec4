"""A journal entry, and what of a fact it keeps."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum
from functools import cache
from typing import Any, cast, get_args, get_origin, get_type_hints

from sagas.core import events as ev
from sagas.core.states import DeadLetter, Purge, SagaState
from sagas.core.text import epoch, iso
from sagas.store.journal.entry_hash import details_hash, linked, payload_hash, sealed

ACTIONS = frozenset({"SagaStarted", "NeverStarted", *ev.FACTS})
"""What entries of this version may record."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a purge leaves of an entry: that something happened, and when. No text and no value of the saga's own.

    ``seal`` stands for what is gone, so that the chain of hashes can still be verified.
    """

    seq: int
    action: str
    status: str
    step: str | None
    attempt: int | None
    at: float
    actor: str
    seal: str

    def hash_after(self, head: bytes, saga_id: str, saga: str) -> bytes:
        """Return the entry's hash, which covers all entries before it."""
        told = self.action, self.step, self.attempt, self.status, self.actor
        return linked(head, (saga_id, self.seq, iso(self.at), saga, *told), self.seal)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What a purge leaves of a saga, in the place of its first entry.

    Args:
        purge: when, by whom and why.
        request_hash: of the request, by which a repeated start is known again.
        state: the saga as it was; no payload is in it.
        actions: its audit trail, the last 1,000 entries of it at most.
        aside: it had payloads in S3.
        link: the hash of the entry before the first of the actions; empty when there was none.
        found_by: the names, not the values, of what it was found by.
        objects: bucket and key of the first objects in S3 that its results named.
        more_objects: how many more they named.
    """

    purge: Purge
    request_hash: str
    state: SagaState
    actions: tuple[Action, ...]
    aside: bool
    link: bytes = b""
    found_by: tuple[str, ...] = ()
    objects: tuple[tuple[str, str], ...] = ()
    more_objects: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a saga's journal, which is its audit trail.

    Args:
        saga_id: whose.
        seq: which, from 1 without gap.
        at: epoch seconds.
        saga: the saga type's name.
        action: the fact's name.
        status: the saga's status after it.
        token: the fencing token of the worker that wrote it.
        step: the step it is about.
        attempt: the execution it is about.
        actor: who: ``worker``, ``supervisor``, or a person's identity.
        correlation_id: of the saga.
        trace_id: of the invocation that wrote it.
        details: what else is to be known, as JSON builtins.
        payload: the request or the result, as JSON text.
        salt: of the entry's hashes: 22 random characters of base64url; empty in a tombstone.
        link: the hash of the entry before it; empty for the first.
        hashed: the hash of a payload that is stored aside or encrypted, while it is not loaded.
        encrypted: the payload as it is encrypted, while it is not loaded.
        tombstone: what is left of a saga that was purged, in its first entry.
    """

    saga_id: str
    seq: int
    at: float
    saga: str
    action: str
    status: str
    token: int
    step: str | None = None
    attempt: int | None = None
    actor: str = "worker"
    correlation_id: str = ""
    trace_id: str = ""
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    payload: str | None = None
    salt: str = ""
    link: bytes = b""
    hashed: str = ""
    encrypted: str = ""
    tombstone: Tombstone | None = None

    @property
    def payload_hash(self) -> str:
        """The hash of the payload; empty if there is none."""
        return self.hashed if self.payload is None else payload_hash(self.salt, self.payload)

    @property
    def seal(self) -> str:
        """What stands for all that a purge takes away."""
        details = {name: value for name, value in self.details.items() if name != "payload_ref"}
        hashes = self.payload_hash, details_hash(self.salt, details)
        return sealed(self.token, self.correlation_id, self.trace_id, *hashes)

    def hash_after(self, head: bytes) -> bytes:
        """Return the entry's hash, which covers all entries before it."""
        return action_of(self).hash_after(head, self.saga_id, self.saga)


def action_of(entry: Entry) -> Action:
    """Return what a purge leaves of an entry."""
    told = entry.action, entry.status, entry.step, entry.attempt, entry.at, entry.actor
    return Action(entry.seq, *told, entry.seal)


NEVER_STARTED = "NeverStarted"
"""What is in the first slot of a child that is not to be started any more. It is no fact: there is no such saga."""
RESULTS = tuple(name for name, kind in ev.FACTS.items() if kind.gives_result)
"""Those by which a step has its result, which later steps take."""
_OF_THE_ENTRY = ("index", "attempt")
"""Fields that are not among an entry's details: the entry has them itself."""


def details_of(fact: ev.Fact) -> dict[str, Any]:
    """Return what an entry keeps of ``fact`` beyond step and attempt; enough for :func:`fact_of`."""
    details = dict[str, Any]() if fact.why is None else _stored(fact.why, "error")
    for item in _fields(type(fact)):
        value = getattr(fact, item.name)
        if value != item.default or item.metadata.get("always"):
            details |= _stored(value, _name(item), time=item.metadata.get("time", False))
    return details


def _stored(value: Any, name: str, *, time: bool = False) -> dict[str, Any]:
    match value:
        case ev.Failure():
            return {"error": {"type": value.type, "message": value.message}}
        case DeadLetter():
            return {"dispatch": value.dispatch, "hops": value.hops, "message_id": value.message_id}
        case StrEnum():
            return {name: value.value}
        case tuple():
            return {name: list(cast("tuple[str, ...]", value))}
        case _:
            return {name: iso(value) if time else value}


def fact_of(entry: Entry, index: int) -> ev.Fact:
    """Return the fact that ``entry`` records. ``index``: the position of its step."""
    kind, details = ev.FACTS[entry.action], entry.details
    of_entry = {"index": index, "attempt": entry.attempt or 0}
    values: dict[str, Any] = {item.name: of_entry[item.name] for item in fields(kind) if item.name in of_entry}
    for item in _fields(kind):
        type_, name = _types(kind)[item.name], _name(item)
        if ev.Failure in _members(type_):
            if "error" in details or item.default is MISSING:
                values[item.name] = _failure(details)
        elif DeadLetter in _members(type_):
            if "message_id" in details:
                dead = int(details["dispatch"]), int(details["hops"]), details["message_id"]
                values[item.name] = DeadLetter(*dead)
        elif name in details or item.default is MISSING:
            values[item.name] = _restored(details[name], type_, time=item.metadata.get("time", False))
    return kind(**values)


def _restored(value: Any, type_: Any, *, time: bool) -> Any:
    if time:
        return epoch(value)
    return tuple(map(str, value)) if get_origin(type_) is tuple else type_(value)


def _failure(details: dict[str, Any]) -> ev.Failure:
    error: dict[str, Any] = details.get("error") or {}
    return ev.Failure(str(error.get("type", "Unknown")), str(error.get("message", "")))


def _members(type_: Any) -> tuple[Any, ...]:
    """The members of a union; a type itself."""
    return get_args(type_) or (type_,)


def _name(item: Field[Any]) -> str:
    return item.metadata.get("name") or item.name


@cache
def _fields(kind: type[ev.Fact]) -> tuple[Field[Any], ...]:
    """The fields that are among an entry's details."""
    return tuple(item for item in fields(kind) if item.name not in _OF_THE_ENTRY)


@cache
def _types(kind: type[ev.Fact]) -> dict[str, Any]:
    return get_type_hints(kind)
