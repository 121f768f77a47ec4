"""Whether a saga's audit trail is what was written: each entry's hash covers all before it.

An entry has the hash of its predecessor, and the control item that of the last one. So of each entry but the last its
successor tells whether it was changed, and of the last the control item; and entries that are missing, or that were put
in behind the last, are found by their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sagas.store.journal.entries import Entry, Tombstone


class Wrong(StrEnum):
    """What is wrong with an entry."""

    CHANGED = "changed"
    MISSING = "missing"
    INSERTED = "inserted"
    CUT_OFF = "cut off"


@dataclass(frozen=True, slots=True)
class Bad:
    """The first entry that is not what was written.

    Args:
        seq: which. CUT_OFF: all from there on are gone.
        wrong: what is wrong with it.
    """

    seq: int
    wrong: Wrong


@dataclass(frozen=True, slots=True)
class Finding:
    """What a look at an audit trail found.

    Args:
        entries: how many committed entries were looked at.
        bad: the first entry that is not what was written; ``None`` when all are.
    """

    entries: int
    bad: Bad | None


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found of one saga.

    Args:
        finding: what a look at its entries found.
        purged_at: when it was purged (epoch seconds): only what that left was looked at; 0 if it was not.
    """

    finding: Finding
    purged_at: float = 0.0


def look_through(found: Sequence[tuple[int, Entry | None]], seq: int, head: bytes) -> Finding:
    """Look through a saga's entries."""
    committed = [(number, entry) for number, entry in found if number <= seq]
    gap = _gap([number for number, _ in committed], seq)
    bad = gap or next((Bad(number, Wrong.CHANGED) for number, entry in committed if entry is None), None)
    entries = [entry for _, entry in committed if entry is not None]
    broken = _broken(entries, head if bad is None else None)
    bad = min((one for one in (bad, broken) if one is not None), key=lambda one: one.seq, default=None)
    if bad is None:
        bad = next((Bad(number, Wrong.INSERTED) for number, _ in found if number > seq + 1), None)
    return Finding(len(committed), bad)


def look_through_tombstone(saga_id: str, saga: str, tombstone: Tombstone) -> Finding:
    """Look through what a purge left of a saga's entries."""
    actions, state = tombstone.actions, tombstone.state
    bad = _gap([action.seq for action in actions], state.seq, actions[0].seq if actions else 1)
    head = tombstone.link
    for action in actions:
        head = action.hash_after(head, saga_id, saga)
    if bad is None and head != state.head:
        # A purge leaves no hashes between the first and the last: which entry it is cannot be told.
        bad = Bad(actions[0].seq, Wrong.CHANGED)
    return Finding(len(actions), bad)


def _gap(numbers: Sequence[int], seq: int, first: int = 1) -> Bad | None:
    there = set(numbers)
    missing = next((number for number in range(first, seq + 1) if number not in there), None)
    if missing is None:
        return None
    return Bad(missing, Wrong.MISSING if any(number > missing for number in there) else Wrong.CUT_OFF)


def _broken(entries: Sequence[Entry], head: bytes | None) -> Bad | None:
    """The first entry whose hash is not what its successor, or the control item, says."""
    running = b""
    for position, entry in enumerate(entries):
        if entry.seq != position + 1:
            return None
        if entry.link != running:
            # It is the entry itself, if its link was taken away, or if what comes after it was made for what is before.
            after = entries[position + 1].link if position + 1 < len(entries) else head
            itself = not entry.link or after == entry.hash_after(running)
            return Bad(entry.seq if itself else max(position, 1), Wrong.CHANGED)
        running = entry.hash_after(running)
    return Bad(len(entries), Wrong.CHANGED) if head is not None and running != head else None
