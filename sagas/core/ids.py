"""Which id a saga has: its idempotency key decides it, and a child's follows from its parent, so that starting either
again starts nothing. And what a caller's key, correlation id and reason may look like: the API checks them, and the
client before it sends one."""

from __future__ import annotations

import hashlib
import math
import uuid

from sagas.core.states import COUNTERS, Parent, SagaState, StepState

LONGEST_KEY = 256
"""Characters it may have."""
KEY_PATTERN = r"^[!-~]([ -~]*[!-~])?$"
"""No others: HTTP names no encoding for them, so that one key would arrive as several, and it cuts spaces off."""

LONGEST_CORRELATION_ID = 128
"""Characters a caller's correlation id may have; :data:`KEY_PATTERN` holds for it, too."""

LONGEST_CANCEL_REASON = 500
"""Characters of the reason that a cancel may have: until it is journaled, it is in the control item."""

LONGEST_REASON = 4_000
"""Characters of any other reason: a page of the audit trail, which shows a hundred of them, must fit into an answer."""


def id_for_key(saga: str, key: str) -> str:
    """Return the saga id that an idempotency key decides."""
    return id_from(saga, key)


def id_from(*parts: object) -> str:
    """Return the id that follows from these: a UUID of version 8 from SHA-256 (RFC 9562, section 5.8)."""
    raw = bytearray(hashlib.sha256("\n".join(map(str, parts)).encode()).digest()[:16])
    raw[6] = 0x80 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    return str(uuid.UUID(bytes=bytes(raw)))


_PER_COUNTER = 4
"""Children under way for each counter: a transaction takes some ten milliseconds of it, and their steps far longer."""


def children_ids(parent: SagaState) -> list[str]:
    """Return the ids of all children that a saga may have started, by step, position and round."""
    return [
        child_id(parent.saga_id, step.name, position, round_)
        for step in parent.steps
        for position in range(step.fan_out.children)
        for round_ in range(step.round + 1)
        if step.waits_for == "children" and (round_ < step.round or position < step.fan_out.handed_out)
    ]


def counters(step: StepState) -> int:
    """Return how many counters the first ends of a step's children are counted in: a child's end reads all of them."""
    return min(COUNTERS, math.ceil((step.fan_out.at_once or step.fan_out.children) / _PER_COUNTER))


def parent_of(state: SagaState, step: StepState, position: int) -> Parent:
    """Return what a child knows of its parent."""
    return Parent(state.saga_id, state.saga, step.name, position, step.round, counters(step))


def child_id(parent_id: str, step: str, position: int, round_: int = 0) -> str:
    """Return the id of a child."""
    return id_from(parent_id, step, round_, position)
