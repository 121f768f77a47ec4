"""What an ``Idempotency-Key`` and an ``X-Correlation-Id`` may look like: the API checks them, and the client before it
sends one. And which id follows from a key."""

from __future__ import annotations

import hashlib
import uuid

LONGEST_KEY = 256
"""Characters it may have."""
KEY_PATTERN = r"^[!-~]([ -~]*[!-~])?$"
"""No others: HTTP names no encoding for them, so that one key would arrive as several, and it cuts spaces off."""

LONGEST_CORRELATION_ID = 128
"""Characters a caller's correlation id may have; :data:`KEY_PATTERN` holds for it, too."""

LONGEST_CANCEL_NOTE = 500
"""Characters of the note that a cancel may have: until it is journaled, it is in the control item."""

LONGEST_NOTE = 4_000
"""Characters of any other note: a page of the audit trail, which shows a hundred of them, must fit into an answer."""


def id_for_key(saga: str, key: str) -> str:
    """Return the saga id that an idempotency key decides."""
    return id_from(saga, key)


def id_from(*parts: object) -> str:
    """Return the id that follows from these: a UUID of version 8 from SHA-256 (RFC 9562, section 5.8)."""
    raw = bytearray(hashlib.sha256("\n".join(map(str, parts)).encode()).digest()[:16])
    raw[6] = 0x80 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    return str(uuid.UUID(bytes=bytes(raw)))
