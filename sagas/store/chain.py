"""Whether a saga's audit trail is what was written: each entry's hash covers all before it.

An entry has the hash of its predecessor, and the control item that of the last one. So of each entry but the last its
successor tells whether it was changed, and of the last the control item; and entries that are missing, or that were put
in behind the last, are found by their numbers. Version 0.1.0 wrote no hashes: what it wrote is covered from the first
entry on that has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from sagas.store.entries import Entry, Tombstone


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
        chained_from: the first entry whose hash was kept when it was written; those before are covered since then.
            ``None`` when nothing has a hash.
        bad: the first entry that is not what was written; ``None`` when all are.
    """

    entries: int
    chained_from: int | None
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
    """Look through a saga's entries.

    Args:
        found: all entries there are, by number, in order; ``None`` for one that is no entry of any version.
        seq: the last committed one, as the control item has it.
        head: its hash, likewise; empty when it has none.
    """
    committed = [(number, entry) for number, entry in found if number <= seq]
    gap = _gap([number for number, _ in committed], seq)
    bad = gap or next((Bad(number, Wrong.CHANGED) for number, entry in committed if entry is None), None)
    entries = [entry for _, entry in committed if entry is not None]
    broken = _broken(entries, head if bad is None else b"")
    bad = min((one for one in (bad, broken) if one is not None), key=lambda one: one.seq, default=None)
    if bad is None:
        bad = next((Bad(number, Wrong.INSERTED) for number, _ in found if number > seq + 1), None)
    # The first entry whose hash was kept when it was written has it in its successor. Unsalted ones are 0.1.0's.
    linked = ((before.seq if before.salt else entry.seq) for before, entry in pairwise(entries) if entry.link)
    return Finding(len(committed), next(linked, seq if head else None), bad)


def look_through_tombstone(saga_id: str, saga: str, tombstone: Tombstone) -> Finding:
    """Look through what a purge left of a saga's entries.

    Args:
        saga_id: whose.
        saga: the saga type's name.
        tombstone: what is left.
    """
    actions, state = tombstone.actions, tombstone.state
    bad = _gap([action.seq for action in actions], state.seq, actions[0].seq if actions else 1)
    if not state.head:
        return Finding(len(actions), None, bad)
    head = tombstone.link
    for action in actions:
        head = action.hash_after(head, saga_id, saga)
    if bad is None and head != state.head:
        # A purge leaves no hashes between the first and the last: which entry it is cannot be told.
        bad = Bad(actions[0].seq, Wrong.CHANGED)
    return Finding(len(actions), actions[0].seq if actions else None, bad)


def _gap(numbers: Sequence[int], seq: int, first: int = 1) -> Bad | None:
    there = set(numbers)
    missing = next((number for number in range(first, seq + 1) if number not in there), None)
    if missing is None:
        return None
    return Bad(missing, Wrong.MISSING if any(number > missing for number in there) else Wrong.CUT_OFF)


def _broken(entries: Sequence[Entry], head: bytes) -> Bad | None:
    """The first entry whose hash is not what its successor, or the control item, says.

    Args:
        entries: in order; where one is missing, those behind it are not looked at.
        head: the hash of the last one; empty when it is not known.
    """
    running, proven = b"", 0
    for position, entry in enumerate(entries):
        if entry.seq != position + 1:
            return None
        if entry.link:
            if entry.link != running:
                # It is the entry itself, if what comes after it was made for what is before it.
                after = entries[position + 1].link if position + 1 < len(entries) else head
                return Bad(entry.seq if after == entry.hash_after(running) else proven + 1, Wrong.CHANGED)
            proven = position
        elif position and entry.salt:
            return Bad(entry.seq, Wrong.CHANGED)  # its hash of the one before was taken away
        running = entry.hash_after(running)
    return Bad(proven + 1, Wrong.CHANGED) if head and entries and running != head else None
