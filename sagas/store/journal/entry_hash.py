"""The hash of an entry, defined once.

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
from collections.abc import Sequence
from decimal import Context
from functools import lru_cache
from json.encoder import encode_basestring as quoted
from typing import Any, cast

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
            # Lone surrogates are journaled as escapes; see ``sagas.store.documents``.
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
