"""Derives the events that a service publishes from a change of a control item, or from a journal.

A commit moves the pointer ``seq`` of the control item. So the images of the item before and after a write show what was
committed. The journal alone does not show that, because an entry may never be committed. Only a few attributes are
read, so this version can also publish changes that a newer version made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import msgspec

from sagas.core.events import FACTS
from sagas.core.states import SagaState, SagaStatus
from sagas.core.text import iso
from sagas.store.journal.entries import WORKER, Entry

ENDS: Mapping[str, str] = {
    "COMPLETED": "SagaCompleted",
    "COMPENSATED": "SagaCompensated",
    "CANCELLED": "SagaCancelled",
    "FAILED": "SagaFailed",
    "COMPENSATION_FAILED": "SagaCompensationFailed",
}
"""The event that is published when a saga reaches a final status."""
SAGA_EVENTS = ("SagaStarted", *ENDS.values(), "SagaNeedsAttention", "SagaWaiting")
STEP_EVENTS = tuple(name for name, kind in FACTS.items() if kind.published)
"""Events that are published only on request. Each is named after its entry's action."""
_STUCK = ("DEAD_LETTERED", "FAILED", "COMPENSATION_FAILED")
_WAITS = ("signal", "time")


class Detail(TypedDict):
    """The detail of an event."""

    id: str
    type: str
    saga_id: str
    seq: int
    status: str
    at: str
    correlation_id: str
    step: NotRequired[str]
    attempt: NotRequired[int]
    waiting_for: NotRequired[str]
    waits_until: NotRequired[str]
    request: NotRequired[Any]
    result: NotRequired[Any]


class OutboxEvent(msgspec.Struct, frozen=True):
    """One event: its name and detail."""

    name: str
    detail: Detail


def events_of_change(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[OutboxEvent]:
    """Return the events of a write to a control item, without step events."""
    if new is None or "status" not in new or "name_shard" not in new:
        return []  # the item was deleted, or is not that of a saga
    if old is None:
        return [_event("SagaStarted", new, new["created_at"]["S"])]
    events: list[OutboxEvent] = []
    at = new["updated_at"]["S"]
    status = new["status"]["S"]
    moved = _seq(new) > _seq(old)
    if moved and status != old["status"]["S"] and status in ENDS:
        events.append(_event(ENDS[status], new, at))
    if moved and (step := _waiting(new)) is not None:
        before = _waiting(old)
        if before is None or before["name"] != step["name"]:
            more = {"step": step["name"]["S"], "waiting_for": step["kind"]["S"]}
            until = {"waits_until": new["not_before"]["S"]} if "not_before" in new else {}
            events.append(_event("SagaWaiting", new, at, **more, **until))
    if "attention" in new and "attention" not in old:
        events.append(_event("SagaNeedsAttention", new, at))
    return events


def committed_in(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> range:
    """Return the numbers of the entries that a write to a control item committed."""
    if old is None or new is None or "seq" not in new or "seq" not in old or "name_shard" not in new:
        return range(0)
    return range(_seq(old) + 1, _seq(new) + 1)


def events_of_entries(state: SagaState, entries: Sequence[Entry], since: float, *, steps: bool) -> list[OutboxEvent]:
    """Return the events of a saga from its journal. These are the events of its commits, with the same ids. ``since``:
    epoch seconds; earlier entries are skipped."""
    # A FAILED child does not need an operator: its parent has failed, too, or tolerates the failure.
    stuck = _STUCK if state.parent is None else [status for status in _STUCK if status != SagaStatus.FAILED]
    events: list[OutboxEvent] = []
    answered = _answered(entries)
    before = ""
    for entry in entries:
        changed = entry.status != before
        before = entry.status
        if entry.at < since:
            continue
        names = ["SagaStarted"] if entry.seq == 1 else []
        names += [ENDS[entry.status]] if changed and entry.status in ENDS else []
        names += ["SagaWaiting"] if entry.action == "WaitStarted" and entry.seq not in answered else []
        if (changed and entry.status in stuck) or _needs_attention(state, entry, changed=changed):
            names.append("SagaNeedsAttention")
        for name in names:
            detail = _detail(name, entry.saga, entry.saga_id, entry.seq, entry.status, iso(entry.at))
            detail["correlation_id"] = state.correlation_id or entry.correlation_id or entry.saga_id
            if name == "SagaWaiting" and entry.step is not None:
                _add_wait(detail, state, entry.step, entry.details)
            events.append(OutboxEvent(name, detail))
        if steps:
            events += events_of_entry(entry)
    return events


def _answered(entries: Sequence[Entry]) -> set[int]:
    """Return the numbers of the entries that began a wait whose signal had been accepted before."""
    answered = set[int]()
    begun = dict[str | None, Entry]()
    for entry in entries:
        if entry.action == "WaitStarted":
            begun[entry.step] = entry
        elif entry.action == "SignalReceived" and (wait := begun.get(entry.step)) is not None:
            by_itself = entry.actor == WORKER  # ctx.signal, before the wait began
            if by_itself or entry.details["sent_at"] < iso(wait.at):
                answered.add(wait.seq)
    return answered


def _needs_attention(state: SagaState, entry: Entry, *, changed: bool) -> bool:
    """Whether, from an entry on, the saga needs an operator for another reason than its status."""
    in_doubt = changed and entry.status in ENDS and entry.seq == state.seq and bool(state.in_doubt)
    overdue = entry.action == "SagaTimedOut" and "pivot" in entry.details
    unanswered = entry.action == "MessageResent" and bool(entry.details.get("attention"))
    return in_doubt or overdue or unanswered or entry.action == "SagaRecoveryExhausted"


def _add_wait(detail: Detail, state: SagaState, name: str, details: Mapping[str, Any]) -> None:
    """Add what the saga waits for at a step. ``details`` are those of the entry that started the wait."""
    detail["step"] = name
    if kind := next((step.waits_for for step in state.steps if step.name == name), ""):
        detail["waiting_for"] = kind
    if "until" in details:
        detail["waits_until"] = str(details["until"])


def events_of_entry(entry: Entry) -> list[OutboxEvent]:
    """Return the step event of an entry, if it has one."""
    if entry.action not in STEP_EVENTS:
        return []
    detail = _detail(entry.action, entry.saga, entry.saga_id, entry.seq, entry.status, iso(entry.at))
    detail["correlation_id"] = entry.correlation_id or entry.saga_id
    if entry.step is not None:
        detail["step"] = entry.step
    if entry.attempt is not None:
        detail["attempt"] = entry.attempt
    return [OutboxEvent(entry.action, detail)]


def event_schema(source: str = "sagas.SERVICE") -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the events on the bus."""
    detail = msgspec.json.schema(Detail)["$defs"]["Detail"]
    detail["additionalProperties"] = False
    detail["properties"]["seq"]["minimum"] = 1
    detail["properties"]["status"] = {"type": "string", "enum": [status.value for status in SagaStatus]}
    for name in ("at", "waits_until"):
        detail["properties"][name]["format"] = "date-time"
    detail["properties"]["waiting_for"] = {"type": "string", "enum": list(_WAITS)}
    properties = {
        "source": {"const": source},
        "detail-type": {"type": "string", "enum": [*SAGA_EVENTS, *STEP_EVENTS]},
        "detail": detail,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of a saga service",
        "description": "Published at least once, in any order: detail.id identifies events, detail.seq orders them.",
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }


def _event(name: str, item: Mapping[str, Any], at: str, **more: str) -> OutboxEvent:
    saga_id = item["saga_id"]["S"]
    detail = _detail(name, item["saga"]["S"], saga_id, _seq(item), item["status"]["S"], at)
    # If the correlation id is too long for the item, only the journal has it.
    detail["correlation_id"] = item["correlation_id"]["S"] if "correlation_id" in item else saga_id
    return OutboxEvent(name, Detail(**detail, **more))  # pyright: ignore[reportArgumentType] - the optional ones


def _detail(name: str, saga: str, saga_id: str, seq: int, status: str, at: str) -> Detail:
    return Detail(
        id=f"{saga_id}:{seq}:{name}", type=saga, saga_id=saga_id, seq=seq, status=status, at=at, correlation_id=saga_id
    )


def _waiting(item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the step at which the saga waits for a signal or a time; ``None`` for a step that polls, and for a wait
    whose signal was accepted."""
    if item["status"]["S"] != "WAITING" or "polling" in item:
        return None
    steps: list[dict[str, Any]] = item["steps"]["L"]
    cursor = int(item["cursor"]["N"])
    step: dict[str, Any] = steps[cursor]["M"] if cursor < len(steps) else {}
    waits = step.get("status", {}).get("S") == "WAITING" and step.get("kind", {}).get("S") in _WAITS
    return step if waits and "sig" not in step else None


def _seq(item: Mapping[str, Any]) -> int:
    return int(item["seq"]["N"])
