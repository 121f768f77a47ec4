"""Verifies a saga's audit trail: each entry's hash covers all entries before it.

An entry contains the hash of its predecessor, and the control item contains the hash of the last entry. So the
successor or the control item reveals a changed entry. The numbers reveal missing entries, and entries that were
inserted after the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from sagas.store.journal.entries import Entry, Tombstone


class Wrong(StrEnum):
    """What is wrong with an entry."""

    CHANGED = "changed"
    MISSING = "missing"
    INSERTED = "inserted"
    CUT_OFF = "cut off"


class Bad(Struct, frozen=True):
    """The first entry that differs from what was written.

    Args:
        seq: its number. CUT_OFF: this entry and all later ones are missing.
        wrong: what is wrong with the entry.
    """

    seq: int
    wrong: Wrong


class ChainFinding(Struct, frozen=True):
    """Result of verifying an audit trail.

    Args:
        entries: the number of committed entries that were verified.
        bad: the first entry that differs from what was written; ``None`` if no entry differs.
    """

    entries: int
    bad: Bad | None


class Verified(Struct, frozen=True):
    """Result of verifying one saga.

    Args:
        finding: the result for its entries.
        purged_at: epoch seconds of the purge, if only the saga's tombstone was verified; else 0.
    """

    finding: ChainFinding
    purged_at: float = 0.0


def look_through(numbered: Sequence[tuple[int, Entry | None]], seq: int, head: bytes) -> ChainFinding:
    """Verify a saga's entries."""
    committed = [(number, entry) for number, entry in numbered if number <= seq]
    gap = _gap([number for number, _ in committed], seq)
    bad = gap or next((Bad(number, Wrong.CHANGED) for number, entry in committed if entry is None), None)
    entries = [entry for _, entry in committed if entry is not None]
    broken = _broken(entries, head if bad is None else None)
    bad = min((entry for entry in (bad, broken) if entry is not None), key=lambda entry: entry.seq, default=None)
    if bad is None:
        bad = next((Bad(number, Wrong.INSERTED) for number, _ in numbered if number > seq + 1), None)
    return ChainFinding(len(committed), bad)


def look_through_tombstone(saga_id: str, saga: str, tombstone: Tombstone) -> ChainFinding:
    """Verify the actions in the tombstone of a purged saga."""
    actions = tombstone.actions
    state = tombstone.state
    bad = _gap([action.seq for action in actions], state.seq, actions[0].seq if actions else 1)
    head = tombstone.link
    for action in actions:
        head = action.hash_after(head, saga_id, saga)
    if bad is None and head != state.head:
        # A tombstone only has the first and the last hash, so the changed entry is unknown.
        bad = Bad(actions[0].seq, Wrong.CHANGED)
    return ChainFinding(len(actions), bad)


def _gap(numbers: Sequence[int], seq: int, first: int = 1) -> Bad | None:
    existing = set(numbers)
    missing = next((number for number in range(first, seq + 1) if number not in existing), None)
    if missing is None:
        return None
    return Bad(missing, Wrong.MISSING if any(number > missing for number in existing) else Wrong.CUT_OFF)


def _broken(entries: Sequence[Entry], head: bytes | None) -> Bad | None:
    """Return the first entry whose hash differs from the one in its successor or in the control item."""
    running = b""
    for position, entry in enumerate(entries):
        if entry.seq != position + 1:
            return None
        if entry.link != running:
            # If the entry's link is missing, or its successor fits the earlier entries, this entry was changed.
            # Otherwise its predecessor was changed.
            after = entries[position + 1].link if position + 1 < len(entries) else head
            itself = not entry.link or after == entry.hash_after(running)
            return Bad(entry.seq if itself else max(position, 1), Wrong.CHANGED)
        running = entry.hash_after(running)
    return Bad(len(entries), Wrong.CHANGED) if head is not None and running != head else None
