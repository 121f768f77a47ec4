"""Which id a child has: it follows from its parent, so that starting it again starts nothing."""

from __future__ import annotations

import hashlib
import uuid

from sagas.core.states import SagaState


def children_ids(parent: SagaState) -> list[str]:
    """Return the ids of all children that a saga may have started, by step, position and round."""
    return [
        child_id(parent.saga_id, step.name, position, round_)
        for step in parent.steps
        for position in range(step.children)
        for round_ in range(step.round + 1)
        if step.waits_for == "children" and (round_ < step.round or position < step.handed_out)
    ]


def child_id(parent_id: str, step: str, position: int, round_: int = 0) -> str:
    """Return the id of a child: a UUID of version 8 from SHA-256 (RFC 9562, section 5.8).

    Args:
        parent_id: the saga that starts it.
        step: its step.
        position: which child of the step, from 0.
        round_: how often the step's failed children had been started anew by then.
    """
    raw = bytearray(hashlib.sha256(f"{parent_id}\n{step}\n{round_}\n{position}".encode()).digest()[:16])
    raw[6] = 0x80 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    return str(uuid.UUID(bytes=bytes(raw)))
