"""The ids of sagas, and the rules for keys, correlation ids and reasons.

The id of a saga is derived from its idempotency key, and the id of a child from its parent. So a repeated start starts
nothing. Both the API and the client check the rules for keys, correlation ids and reasons.
"""

from __future__ import annotations

import hashlib
import math
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable

from sagas.core.states import COUNTERS, Parent, SagaState, StepState

LONGEST_KEY = 256
"""Maximum characters of an idempotency key."""
KEY_PATTERN = r"^[!-~]([ -~]*[!-~])?$"
"""The valid idempotency keys. HTTP defines no encoding for other characters, and strips spaces at either end."""

LONGEST_CORRELATION_ID = 128
"""Maximum characters of a caller's correlation id, which must also match :data:`KEY_PATTERN`."""

LONGEST_CANCEL_REASON = 500
"""Maximum characters of a cancel's reason. The control item stores it until it is journaled."""

LONGEST_REASON = 4_000
"""Maximum characters of any other reason. A page of the audit trail may have a hundred, and must fit into an answer."""

LAST_SEQ = 10**9 - 1
"""The largest number of an audit entry. No saga has so many."""


def id_for_key(service: str, saga: str, key: str) -> str:
    """Return the saga id for an idempotency key. Two services never make the same id, and so never the same keys of
    steps, keys in S3 or ids of events."""
    return id_from(service, saga, key)


def id_from(*parts: object) -> str:
    """Return an id derived from these parts: a UUID of version 8 with SHA-256 (RFC 9562, section 5.8)."""
    raw = bytearray(hashlib.sha256("\n".join(map(str, parts)).encode()).digest()[:16])
    raw[6] = 0x80 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    return str(uuid.UUID(bytes=bytes(raw)))


def types_hash(types: Iterable[str]) -> str:
    """Return eight characters that stand for the types of a step's children, in order."""
    return urlsafe_b64encode(hashlib.sha256("\n".join(types).encode()).digest()[:6]).decode()


_PER_COUNTER = 4
"""Children in flight per counter. A transaction holds a counter for about ten milliseconds; a step takes longer."""


def children_ids(parent: SagaState) -> list[str]:
    """Return the ids of all children that a saga may have started, ordered by step, position and round."""
    return [
        child_id(parent.saga_id, step.name, position, round_)
        for step in parent.steps
        for position in range(step.fan_out.children)
        for round_ in range(step.round + 1)
        if step.waits_for == "children" and (round_ < step.round or position < step.fan_out.handed_out)
    ]


def counters(step: StepState) -> int:
    """Return the number of counters for the first ends of a step's children. The end of each child reads all
    counters."""
    return min(COUNTERS, math.ceil((step.fan_out.at_once or step.fan_out.children) / _PER_COUNTER))


def parent_of(state: SagaState, step: StepState, position: int) -> Parent:
    """Return a child's reference to its parent."""
    return Parent(state.saga_id, state.saga, step.name, position, step.round, counters(step))


def child_id(parent_id: str, step: str, position: int, round_: int = 0) -> str:
    """Return the id of a child."""
    return id_from(parent_id, step, round_, position)
