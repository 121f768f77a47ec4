"""Journal entries: how facts are stored in them, and their hashes.

An entry's payload and its details have a hash each, with the entry's own random salt: the first 128 bits of SHA-256
over domain, salt and text, each after its length, in base64url without padding. The domain distinguishes payload and
details. Two proofs of integrity cover these hashes, but never the texts:

- the rolling digest of the results so far, in the control item (:func:`chained`). It shows whether a payload in a
  message is the journaled one;
- the chain of a saga's audit trail (:func:`linked`), over each entry's fields and its seal, which is derived from both
  hashes. A purge keeps fields and seals, and removes payload, details and salt. The chain can still be verified, and
  without the salt a seal does not reveal the deleted values. The control item has the hash of the last entry.

An entry stores its salt and the hash of its predecessor. It also stores the hash of its payload, which may be in S3.
The hash of its details is computed when they are read.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Sequence
from decimal import Context
from enum import StrEnum
from functools import cache, lru_cache
from json.encoder import encode_basestring as quoted
from typing import Annotated, Any, cast, get_args, get_origin

from msgspec import NODEFAULT, Struct, field
from msgspec.structs import FieldInfo, fields

from sagas.core import events as ev
from sagas.core.states import DeadMessage, Purge, SagaState
from sagas.core.text import epoch, iso
from sagas.paths import Place

ACTIONS = frozenset({"SagaStarted", "NeverStarted", *ev.FACTS})
"""The actions that entries of this version may record."""
WORKER = "worker"
"""The actor of what a function does by itself."""

ARCHIVED = "audit"
"""The prefix of entries in their archive. The time of an object's first record follows: ``YYYY/MM/DD/HH``."""


class Action(Struct, frozen=True):
    """What remains of a purged entry: what happened and when, without texts and values of the saga.

    ``seal`` stands for the deleted parts, so that the chain of hashes can still be verified.
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
        """Return the entry's hash, which covers all earlier entries."""
        fields = self.action, self.step, self.attempt, self.status, self.actor
        return linked(head, (saga_id, self.seq, iso(self.at), saga, *fields), self.seal)


class Tombstone(Struct, frozen=True):
    """What remains of a purged saga, in place of its first entry.

    Args:
        purge: the time, the actor and the reason of the purge.
        request_hash: the hash of the request, by which a repeated start is recognized.
        state: the saga's last state. A state has no payloads.
        actions: its audit trail, at most the last 1,000 entries.
        aside: whether the saga had payloads in S3.
        link: the hash of the entry before the first action; empty if there was none.
        found_by: the names of its search keys, without values.
        objects: bucket and key of the first S3 objects that its results named.
        more_objects: the number of further objects that the results named.
        hidden: ``request`` and the steps whose values had hidden parts.
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
    hidden: tuple[str, ...] = ()


class Entry(Struct, frozen=True):
    """One entry of a saga's journal, which is its audit trail.

    Args:
        saga_id: the saga's id.
        seq: the entry's number, from 1 without gaps.
        at: epoch seconds.
        saga: the saga type's name.
        action: the fact's name.
        status: the saga's status after this entry.
        token: the fencing token of the worker that wrote the entry.
        step: the step that the entry is about, if any.
        attempt: the number of the execution that the entry is about, if any.
        actor: ``worker``, ``supervisor``, or an operator's identity.
        correlation_id: the saga's correlation id.
        trace_id: the trace id of the invocation that wrote the entry.
        details: further data of the fact, as JSON builtins.
        payload: the request or the result, as JSON text.
        salt: the salt of the entry's hashes, 22 random characters of base64url; empty in a tombstone.
        link: the hash of the previous entry; empty in the first entry.
        hashed: the payload's hash, while the payload is in S3 or encrypted and not loaded.
        encrypted: the encrypted payload, while it is not loaded.
        tombstone: the remains of a purged saga, in its first entry.
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
    actor: str = WORKER
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
    def hidden(self) -> tuple[Place, ...]:
        """The paths to the parts of the payload that the code which wrote it has hidden."""
        return tuple(tuple(path) for path in self.details.get("hidden", ()))

    @property
    def payload_hash(self) -> str:
        """The hash of the payload; empty if there is none."""
        return self.hashed if self.payload is None else payload_hash(self.salt, self.payload)

    @property
    def seal(self) -> str:
        """The hash that stands for the parts that a purge deletes."""
        details = {name: value for name, value in self.details.items() if name != "payload_ref"}
        hashes = self.payload_hash, details_hash(self.salt, details)
        return sealed(self.token, self.correlation_id, self.trace_id, *hashes)

    def hash_after(self, head: bytes) -> bytes:
        """Return the entry's hash, which covers all earlier entries."""
        return action_of(self).hash_after(head, self.saga_id, self.saga)


def hiding(paths: Collection[Place]) -> dict[str, Any]:
    """Return the details of an entry that say which parts of its value are hidden; empty if ``paths`` is empty."""
    return {"hidden": [[*path] for path in paths]} if paths else {}


def action_of(entry: Entry) -> Action:
    """Return the action that a tombstone has in place of an entry."""
    fields = entry.action, entry.status, entry.step, entry.attempt, entry.at, entry.actor
    return Action(entry.seq, *fields, entry.seal)


NEVER_STARTED = "NeverStarted"
"""The action in the first slot of a child that must never start. It is not a fact, because no saga exists."""
REQUEST_SEQ = 1
"""The number of the journal entry that holds the request."""
RESULTS = tuple(name for name, kind in ev.FACTS.items() if kind.gives_result)
"""Actions whose entry is a step's result for later steps."""
_OF_THE_ENTRY = ("index", "attempt")
"""Fields of facts that an entry has as attributes, so they are not in its details."""


def details_of(fact: ev.Fact) -> dict[str, Any]:
    """Return the details of a fact's entry. With step and attempt, they are enough for :func:`fact_of`."""
    details = dict[str, Any]() if fact.why is None else _stored(fact.why, "error")
    for item in _fields(type(fact)):
        value = getattr(fact, item.attribute)
        if value != item.default or item.always:
            details |= _stored(value, item.name, time=item.time)
    return details


def _stored(value: Any, name: str, *, time: bool = False) -> dict[str, Any]:
    match value:
        case ev.Failure():
            return {"error": {"type": value.type, "message": value.message}}
        case DeadMessage():
            return {"dispatch": value.dispatch, "hops": value.hops, "message_id": value.message_id}
        case StrEnum():
            return {name: value.value}
        case tuple():
            return {name: list(cast("tuple[str, ...]", value))}
        case _:
            return {name: iso(value) if time else value}


def fact_of(entry: Entry, index: int) -> ev.Fact:
    """Return the fact that ``entry`` records. ``index``: the position of the entry's step."""
    kind = ev.FACTS[entry.action]
    details = dict[str, Any](entry.details)
    if details.get("settling"):  # as it was stored before other reasons not to call a step were known
        details["because"] = ev.RELEASE
    of_entry = {"index": index, "attempt": entry.attempt or 0}
    values: dict[str, Any] = {name: of_entry[name] for name in kind.__struct_fields__ if name in of_entry}
    for item in _fields(kind):
        if ev.Failure in item.types:
            if "error" in details or item.default is NODEFAULT:
                error: dict[str, Any] = details.get("error") or {}
                values[item.attribute] = ev.Failure(str(error.get("type", "Unknown")), str(error.get("message", "")))
        elif DeadMessage in item.types:
            if "message_id" in details:
                dead = int(details["dispatch"]), int(details["hops"]), details["message_id"]
                values[item.attribute] = DeadMessage(*dead)
        elif item.name in details or item.default is NODEFAULT:
            values[item.attribute] = item.restored(details[item.name])
    return kind(**values)


class _Field(Struct, frozen=True):
    """A field of a fact, and how an entry stores it. See :data:`sagas.core.events.ALWAYS` and ``TIME``.

    Args:
        attribute: the field's name in the fact.
        name: the field's name in the details of the entry.
        types: the members of the field's type if that is a union, else the type itself.
        default: the field's default, if it has one.
        always: whether the field is stored even if it has its default.
        time: whether the field has epoch seconds, which are stored as ISO 8601.
    """

    attribute: str
    name: str
    types: tuple[Any, ...]
    default: Any
    always: bool
    time: bool

    @classmethod
    def of(cls, item: FieldInfo) -> _Field:
        """Return how an entry stores a field."""
        type_, *marks = get_args(item.type) if get_origin(item.type) is Annotated else (item.type,)
        types = (type_,) if get_origin(type_) is tuple else get_args(type_) or (type_,)
        return cls(item.name, item.encode_name, types, item.default, ev.ALWAYS in marks, ev.TIME in marks)

    def restored(self, value: Any) -> Any:
        """Return the value whose stored form is ``value``."""
        if self.time:
            return epoch(value)
        return tuple(map(str, value)) if get_origin(self.types[0]) is tuple else self.types[0](value)


@cache
def _fields(kind: type[ev.Fact]) -> tuple[_Field, ...]:
    """The fields that an entry stores in its details."""
    return tuple(_Field.of(item) for item in fields(kind) if item.name not in _OF_THE_ENTRY)


_EXACT = Context(prec=400)
"""Decimal digits. No double needs as many, so nothing is rounded."""
_WORDS = {None: "null", True: "true", False: "false"}


@lru_cache(maxsize=8)  # an entry's is needed several times
def payload_hash(salt: str, payload: str) -> str:
    """Return the hash of an entry's payload: 22 characters."""
    return _hash("payload", salt, payload)


def details_hash(salt: str, details: dict[str, Any]) -> str:
    """Return the hash of an entry's details: 22 characters."""
    return _hash("details", salt, canonical(details))


def chained(digest: str, seq: int, payload_hash: str) -> str:
    """Return the digest of all results up to this one: 22 characters."""
    return _hash("results", digest, str(seq), payload_hash)


def sealed(token: int, correlation_id: str, trace_id: str, payload_hash: str, details_hash: str) -> str:
    """Return the seal of an entry: 22 characters that stand for the parts that a purge deletes."""
    return _hash("seal", str(token), correlation_id, trace_id, payload_hash, details_hash)


def packed_hash(text: str) -> bytes:
    """Return the 16 bytes of a hash of 22 characters."""
    return base64.urlsafe_b64decode(f"{text}==")


def unpacked_hash(raw: bytes) -> str:
    """Return the hash of 22 characters for 16 bytes."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def linked(head: bytes, fields: Sequence[str | int | None], seal: str) -> bytes:
    """Return the hash of an entry: 32 bytes."""
    return _digest("entry", head.hex(), canonical(list(fields)), seal)


def canonical(value: Any) -> str:
    """Return the canonical JSON text of a value: no spaces, members sorted by name, numbers in the shortest decimal
    form. DynamoDB stores decimals, and may return a number in another form than the one written."""
    match value:
        case str():
            # Lone surrogates are journaled as escapes; see ``sagas.store.tables``.
            return quoted(value if value.isascii() else value.encode(errors="backslashreplace").decode())
        case None | bool():
            return _WORDS[value]
        case int() | float():
            return _number(value)
        case dict():
            members = cast("dict[str, Any]", value)
            return "{" + ",".join([f"{canonical(name)}:{canonical(members[name])}" for name in sorted(members)]) + "}"
        case _:
            return "[" + ",".join(map(canonical, value)) + "]"


@lru_cache(maxsize=256)
def _number(value: float) -> str:
    number = _EXACT.create_decimal(json.dumps(value)).normalize(_EXACT)
    return str(number if number else 0)  # DynamoDB has no negative zero


def _hash(domain: str, *parts: str) -> str:
    return unpacked_hash(_digest(domain, *parts)[:16])


def _digest(domain: str, *parts: str) -> bytes:
    texts = [part.encode() for part in (f"lambda-sagas/{domain}", *parts)]
    return hashlib.sha256(b"".join([part for text in texts for part in (len(text).to_bytes(8), text)])).digest()
