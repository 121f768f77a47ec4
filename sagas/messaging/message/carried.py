"""Results that travel in a message, so that the step which takes them need not read the journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Meta

from sagas.errors import Problem
from sagas.messaging.message.pending_commit import Count, is_json

CARRY_LIMIT = 16 * 1024
"""Bytes of payload text in one message: about what a journal entry holds before its payload goes to S3."""
MOST_CARRIED = 200
"""Results in one message, hashes without a payload included."""


class CarriedInput(msgspec.Struct, frozen=True, array_like=True):
    """A saga's request, or the result of one of its steps. The journal stays the authority: the hash tells.

    Args:
        seq: of its entry in the journal.
        hash: of the payload with the salt, in base64url.
        salt: of its entry, in base64url; empty without a payload.
        payload: JSON text; ``None`` if it is to be read from the journal.
    """

    seq: Count
    hash: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
    salt: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,64}\Z")] = ""
    payload: str | None = None


def fitting(inputs: Iterable[CarriedInput], limit: int = CARRY_LIMIT) -> tuple[CarriedInput, ...]:
    """Return what of ``inputs`` a message is to carry: all hashes, and the payloads as far as they fit.

    The largest payloads are left out first; of equal ones the older. ``limit``: bytes of payload text. Returns in order
    of ``seq``; nothing if there are more than ``MOST_CARRIED``.
    """
    known = sorted(inputs, key=lambda one: one.seq)
    if len(known) > MOST_CARRIED:
        return ()
    sizes = [len((one.payload or "").encode()) for one in known]
    total = sum(sizes)
    for place in sorted(range(len(known)), key=lambda place: -sizes[place]):
        if total <= limit:
            break
        known[place] = CarriedInput(known[place].seq, known[place].hash)
        total -= sizes[place]
    return tuple(known)


def problems_in(inputs: Sequence[CarriedInput]) -> list[Problem]:
    """Return what is wrong with carried inputs as they were received; each has the types of its fields."""
    seqs = [one.seq for one in inputs]
    found = [Problem("$.inputs", "not in the order of seq")] if any(a >= b for a, b in pairwise(seqs)) else []
    for place, one in enumerate(inputs):
        if one.payload is not None and not is_json(one.payload):
            found.append(Problem(f"$.inputs[{place}][3]", "not JSON"))
    return found
