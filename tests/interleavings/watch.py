"""What must not happen at any moment, told from two contents of the tables: before a write and after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sagas.core.text import epoch
from sagas.engine.attempt.attempt import SKEW
from sagas.engine.attempt.course import RECORDING
from sagas.engine.clock import claimed_at
from sagas.store.journal.entries import NEVER_STARTED
from sagas.store.tables import StoreSettings, unpacked
from tests.faults.mailbox import Letter
from tests.faults.world import past_pivot
from tests.interleavings.replay import NAMED
from tests.interleavings.snapshot import Execution
from tests.support.tables import StrictTables

_NOTHING: dict[str, Any] = {}
_SHORTEST = 5.0 + RECORDING + SKEW
"""Seconds that a function must have left to go on with a step: all here take 5 at most."""


class Violation(Exception):
    """Something happened that must not."""


def wrong_start(execution: Execution, begun: frozenset[Execution], most: int) -> None:
    """Look at user code that begins.

    Args:
        execution: which.
        begun: those before it.
        most: how many are allowed.

    Raises:
        Violation: it is one too many, or another had the same number, or another key.
    """
    if execution.attempt > most:
        raise Violation(f"execution {execution.attempt} of {execution.name} begins, {most} are allowed")
    for other in begun:
        same = (other.name, other.undo) == (execution.name, execution.undo)
        same = same and saga_of(other.key) == saga_of(execution.key)
        if same and other.attempt_key == execution.attempt_key:
            raise Violation(f"two executions have the number {execution.attempt_key}")
        if same and other.key != execution.key:
            raise Violation(f"{execution.name} was given the keys {other.key} and {execution.key}")


def wrong_write(
    settings: StoreSettings, patience: int, before: StrictTables, after: StrictTables, letter: Letter | None
) -> None:
    """Look at a write.

    Args:
        settings: the tables' names.
        patience: after how many stalls the saga is to be given up.
        before: the tables before it.
        after: the tables after it.
        letter: the message at hand, if the writer has one.

    Raises:
        Violation: it breaks a rule that holds for each write by itself.
    """
    rows = after.tables.get(settings.sagas_table, {}).values()
    others = (row for row in rows if "#" not in row["saga_id"]["S"] and row["saga_id"]["S"] != "pauses")
    if any("status" not in row for row in others):
        raise Violation("a control item came into being that is none")
    sent = any("#signal#" in row["saga_id"]["S"] for row in rows)
    passed = any("passed" in row for row in rows)
    for saga_id in _changed(settings, before, after):
        own = letter if letter is not None and json.loads(letter.body)["saga_id"] == saga_id else None
        was, now = (_Stored(_item(one, settings, saga_id), _journal(one, settings, saga_id)) for one in (before, after))
        if not was.item and any("purge" in row for row in rows) and _never_started(was) and not now.entries:
            continue  # a child that never started is forgotten with its parent
        _check(was, now, patience, own, sent=sent)
        if not passed and any(_stalled(entry) for entry in now.entries.values()):
            raise Violation("a stall is counted that no queue has shown")


def _stalled(entry: dict[str, Any]) -> bool:
    """Whether an entry tells of a message that was lost. What is purged tells of nothing."""
    return entry["action"]["S"] == "SagaRecovered"


def _never_started(stored: _Stored) -> bool:
    return [entry["action"]["S"] for entry in stored.entries.values()] == [NEVER_STARTED]


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is stored of one saga: its control item, and its entries by number."""

    item: dict[str, Any]
    entries: dict[int, dict[str, Any]]


def _changed(settings: StoreSettings, before: StrictTables, after: StrictTables) -> set[str]:
    """The ids of the sagas of which something was written or deleted. Items are never changed in place."""
    ids = set[str]()
    for name in (settings.sagas_table, settings.audit_table):
        was, now = before.tables.get(name, {}), after.tables.get(name, {})
        ids |= {key[0] for key in was.keys() | now.keys() if was.get(key) is not now.get(key)}
    return ids


def _check(was: _Stored, now: _Stored, patience: int, letter: Letter | None, *, sent: bool) -> None:
    """Look at what a write made of one saga."""
    old, new, entries = was.item, now.item, now.entries
    purging = "purge" in old
    for seq, entry in was.entries.items():
        if entries.get(seq) != entry and not (purging and _purged(seq, entries)):
            raise Violation(f"entry {seq}, {entry['action']['S']}, was replaced")
    if not new:
        if old and (not purging or len(entries) > 1):
            raise Violation("the control item is gone before all else is")
        return
    if not old and ("purge" in entries[1] or len(entries) > 1):
        raise Violation("a saga that was over is created again")
    if entries[1]["action"]["S"] == NEVER_STARTED:
        raise Violation("a child is created that was never to start")
    if _number(new, "recovery_attempts") > patience + 1:
        raise Violation("it stalls beyond its patience, and is not given up")
    if old != new:
        found = (*_pointer(old, new, entries), *_claim(old, new, entries, letter), *_waits(new, sent=sent))
        found += (*_named(_number(new, "seq"), entries),)
        for wrong in (*found, *_cancel(old, new)):
            raise Violation(wrong)


def _named(seq: int, entries: dict[int, dict[str, Any]]) -> Iterator[str]:
    """What an operator does to a state follows that state."""
    reason = str(unpacked(entries[seq]["details"]).get("reason", "")) if seq in entries else ""
    if reason.startswith(NAMED) and reason != f"{NAMED}{seq - 1}":
        yield f"entry {seq} is of a call that named another state: {reason}"


def saga_of(key: str) -> str:
    """Return whose a step's idempotency key is."""
    return key.split(":")[0]


def _purged(seq: int, entries: dict[int, dict[str, Any]]) -> bool:
    """Whether this is what a purge does to an entry: the first becomes the tombstone, and then the others go."""
    return "purge" in entries.get(1, _NOTHING) and (seq == 1 or seq not in entries)


def _journal(tables: StrictTables, settings: StoreSettings, saga_id: str) -> dict[int, dict[str, Any]]:
    rows = tables.tables.get(settings.audit_table, {})
    return {seq: row for (owner, seq), row in rows.items() if owner == saga_id}


def _item(tables: StrictTables, settings: StoreSettings, saga_id: str) -> dict[str, Any]:
    row = tables.tables.get(settings.sagas_table, {}).get((saga_id,), _NOTHING)
    return row if "steps" in row else _NOTHING


def _number(item: dict[str, Any], name: str) -> int:
    return int(item.get(name, {}).get("N", 0))


def _pointer(old: dict[str, Any], new: dict[str, Any], entries: dict[int, dict[str, Any]]) -> Iterator[str]:
    seq, moved = _number(new, "seq"), _number(new, "seq") - _number(old, "seq")
    if old and moved not in (0, 1):
        yield f"the pointer moved by {moved}"
    if seq not in entries:
        yield f"the pointer is at entry {seq}, which is not there"
    elif moved and entries[seq]["status"] != new["status"]:
        yield f"entry {seq} says {entries[seq]['status']['S']}, the saga is {new['status']['S']}"
    for name in ("token", "dispatch"):
        if _number(new, name) < _number(old, name):
            yield f"the {name} went back"


def _claim(
    old: dict[str, Any], new: dict[str, Any], entries: dict[int, dict[str, Any]], letter: Letter | None
) -> Iterator[str]:
    """An execution is counted: it is about to begin."""
    for was, step in zip(_steps(old), _steps(new), strict=False):
        name = step["name"]["S"]
        forward = _number(step, "attempts") > _number(was, "attempts")
        undo = _number(step, "undo_attempts") > _number(was, "undo_attempts")
        undo = undo and "many" not in step  # no code undoes children
        if not forward and not undo:
            continue
        done = ("StepCompleted", "WaitStarted", "ChildrenStarted") if forward else ("StepCompensated",)
        if any(entry["action"]["S"] in done and entry["step"]["S"] == name for entry in entries.values()):
            yield f"{name} is executed again (undo: {undo}), although its result was journaled"
        yield from _hold(name, old, new)
        if forward and "cancel_requested_at" in old:
            yield f"{name} is claimed after a cancel was accepted"
        if forward and any(entry["action"]["S"] == "CompensationStarted" for entry in entries.values()):
            yield f"{name} is claimed after undoing began"
        if letter is not None and json.loads(letter.body)["dispatch"] != _number(old, "dispatch"):
            yield f"a stale message runs {name}"


def _hold(name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """What is claimed is free, or its holder commits and goes on, under a token and a lease of their own."""
    if "lease_owner" not in old:
        return
    if _number(new, "seq") == _number(old, "seq"):
        yield f"{name} is claimed while another holds the lease"
    elif _number(new, "token") != _number(old, "token") + 1 or new["lease_owner"] == old["lease_owner"]:
        yield f"{name} is claimed with the token or the lease of the step before"
    elif epoch(new["act_until"]["S"]) - claimed_at(new["lease_owner"]["S"]) < _SHORTEST:
        yield f"{name} is claimed at the end of a function"


def _cancel(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    if "cancel_requested_at" in new and "cancel_requested_at" not in old and past_pivot(old):
        yield "a cancel was accepted past the pivot"


def _waits(new: dict[str, Any], *, sent: bool) -> Iterator[str]:
    if sent and any("late" in step for step in _steps(new)):
        yield "a wait was in vain, although a signal for it was accepted"


def _steps(item: dict[str, Any]) -> list[dict[str, Any]]:
    return [step["M"] for step in item.get("steps", {}).get("L", [])]
