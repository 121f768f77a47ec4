"""Results in a message. With them, the step that takes them need not read the journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Meta

from sagas.errors import Problem
from sagas.messaging.message.pending_commit import Count, is_json
from sagas.paths import Place

CARRY_LIMIT = 16 * 1024
"""Maximum bytes of payload text in one message. Payloads above about this size are in S3 and not in the journal."""
MOST_CARRIED = 200
"""Maximum results in one message, including hashes without a payload."""


class CarriedInput(msgspec.Struct, frozen=True, array_like=True):
    """A saga's request, or a step's result. The journal is authoritative, so the hash must match it.

    Args:
        seq: the number of the journal entry.
        hash: the hash of payload and salt, in base64url.
        salt: the salt of the journal entry, in base64url; empty without a payload.
        payload: the JSON text; ``None`` if it must be read from the journal.
        hidden: the paths to the hidden parts of the payload.
    """

    seq: Count
    hash: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
    salt: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,64}\Z")] = ""
    payload: str | None = None
    hidden: tuple[Place, ...] = ()


def fitting(inputs: Iterable[CarriedInput], limit: int = CARRY_LIMIT) -> tuple[CarriedInput, ...]:
    """Return the inputs for a message: all hashes, and as many payloads as fit.

    The largest payloads are dropped first. Of equally large payloads, the older is dropped first. ``limit`` is in bytes
    of payload text and paths. The result is in order of ``seq``, and empty if there are more than ``MOST_CARRIED``
    inputs.
    """
    carried = sorted(inputs, key=lambda carried_input: carried_input.seq)
    if len(carried) > MOST_CARRIED:
        return ()
    texts = (("".join(map("".join, each.hidden)), each.payload or "") for each in carried)
    sizes = [sum(len(text.encode()) for text in both) for both in texts]
    total = sum(sizes)
    for place in sorted(range(len(carried)), key=lambda place: -sizes[place]):
        if total <= limit:
            break
        carried[place] = CarriedInput(carried[place].seq, carried[place].hash)
        total -= sizes[place]
    return tuple(carried)


def problems_in(inputs: Sequence[CarriedInput]) -> list[Problem]:
    """Return the problems of received inputs. The types of their fields have been checked before."""
    seqs = [carried.seq for carried in inputs]
    problems = [Problem("$.inputs", "not in the order of seq")] if any(a >= b for a, b in pairwise(seqs)) else []
    for place, carried in enumerate(inputs):
        if carried.payload is not None and not is_json(carried.payload):
            problems.append(Problem(f"$.inputs[{place}][3]", "not JSON"))
    return problems
