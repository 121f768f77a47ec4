"""What must hold between parents and children when all is at rest, whatever was disturbed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from sagas.core.ids import child_id
from sagas.core.states import SagaState, SagaStatus, StepState
from tests.faults.world import Began, Entered, Event, Rows

_UNDONE = (SagaStatus.COMPENSATED, SagaStatus.CANCELLED)
_HOW = {
    SagaStatus.COMPLETED: "completed",
    SagaStatus.FAILED: "failed",
    SagaStatus.COMPENSATION_FAILED: "stuck",
    SagaStatus.COMPENSATED: "undone",
    SagaStatus.CANCELLED: "undone",
}


class Families(Protocol):
    """What there is of parents and children when all is at rest."""

    @property
    def events(self) -> Sequence[Event]: ...

    def states(self) -> list[SagaState]: ...
    def joins(self) -> list[dict[str, Any]]: ...
    def never_started(self) -> list[tuple[str, str]]: ...
    def entries(self, saga_id: str) -> Rows: ...


def check_families(remains: Families) -> list[str]:
    """Return what is violated between parents and children, each in a sentence."""
    there = {state.saga_id: state for state in remains.states()}
    found = [*_orphans(remains, there)]
    for state in there.values():
        for step in state.steps:
            if step.waits_for == "children":
                found += _family(remains, there, state, step)
                found += _results(remains, state, step)
                found += _order(remains.events, state, step)
    return found


def _orphans(remains: Families, there: dict[str, SagaState]) -> Iterator[str]:
    """What is left of a parent that was purged, and what it never knew."""
    for state in there.values():
        whose = state.parent
        if whose is None:
            continue
        parent = there.get(whose.saga_id)
        step = next((one for one in parent.steps if one.name == whose.step), None) if parent else None
        if step is None and state.purge is None:
            yield f"a child is left {state.status}, whose parent is gone"
        elif step is not None and whose.round == step.round and whose.position >= step.fan_out.handed_out:
            yield f"child {whose.position} is there, which was never handed out"
    for join in {item["join"]["S"] for item in remains.joins()}:
        if join.split("#")[0] not in there:
            yield f"joins are left whose parent is gone: {join}"
    for _, parent_id in remains.never_started():
        if parent_id not in there:
            yield "it is left that a child was never to start, whose parent is gone"


def _family(remains: Families, there: dict[str, SagaState], parent: SagaState, step: StepState) -> Iterator[str]:
    never = {saga_id for saga_id, _ in remains.never_started()}
    begun = {event.saga_id for event in remains.events if isinstance(event, Entered)} - never
    completed = 0
    for round_ in range(step.round + 1):
        items = [item for item in remains.joins() if item["join"]["S"] == f"{parent.saga_id}#{step.name}#{round_}"]
        outcomes = {item["part"]["S"]: item["how"]["S"] for item in items if "how" in item}
        yield from _counts(items, outcomes)
        for position in range(step.fan_out.handed_out if round_ == step.round else step.fan_out.children):
            saga_id, what = child_id(parent.saga_id, step.name, position, round_), f"child {position} of round {round_}"
            own = {part.split("#")[0]: how for part, how in outcomes.items() if part.endswith(f"#{position:05d}")}
            child = there.get(saga_id)
            completed += child is not None and child.status is SagaStatus.COMPLETED
            if child is not None and saga_id in never:
                yield f"{what} is there, though it was never to start"
            if child is not None:
                yield from (f"{what} {wrong}" for wrong in _joined(parent, child, own))
            elif parent.ended and saga_id in begun:
                yield f"{what} was begun and never came to be"
            elif parent.ended and saga_id not in never and own.get("f") != "carried":
                yield f"{what} was handed out, and neither started nor closed"
    if parent.status is SagaStatus.COMPLETED and completed < step.fan_out.children - step.fan_out.tolerate:
        yield f"the saga is COMPLETED, of its {step.fan_out.children} children {completed} are"


def _joined(parent: SagaState, child: SagaState, own: dict[str, str]) -> Iterator[str]:
    """What is wrong with a child, given its outcomes by phase."""
    if child.resolution_seq and not child.ended and not parent.resolution_seq:
        yield "was resolved, and its parent waits for its end"
    if not child.ended:
        if parent.ended or parent.status is SagaStatus.DEAD_LETTERED:
            yield f"is left {child.status}, and its parent is {parent.status}"
        return
    if parent.status in _UNDONE and not parent.resolution_seq and child.status not in _UNDONE:
        yield f"is {child.status}, its parent {parent.status}"
    if child.past_pivot and child.status is SagaStatus.COMPLETED and own.get("f") == "completed":
        return  # it stays as it is: that its parent cannot have it undone is no end of its own
    latest = own[max(own, key=lambda phase: 0 if phase == "f" else int(phase[1:]))] if own else ""
    if "f" not in own or (latest != _HOW[child.status] and not child.resolution_seq):
        yield f"is {child.status}, its outcomes are {own}"


def _counts(items: list[dict[str, Any]], outcomes: dict[str, str]) -> Iterator[str]:
    """The counters say what the outcomes say."""
    told = Counter(f"{part.split('#')[0]}_{how}" for part, how in outcomes.items())
    summed = Counter[str]()
    for item in items:
        if "how" not in item:
            summed.update({name: int(value["N"]) for name, value in item.items() if name not in ("join", "part")})
    if told != summed:
        yield f"{dict(told)} ended, {dict(summed)} are counted"


def _results(remains: Families, parent: SagaState, step: StepState) -> Iterator[str]:
    """What the step resulted in are its children's results, in order: here each results in its number."""
    entries = remains.entries(parent.saga_id)
    ended = [entry for entry in entries if (entry["action"], entry["step"]) == ("ChildrenEnded", step.name)]
    if sum(not entry["error"] for entry in ended) > 1:
        yield "the children ended twice"
    for entry in ended:
        if entry["error"] or entry["payload"] is None:
            continue
        got = json.loads(entry["payload"])
        wrong = [number for position, number in enumerate(got) if number not in (position, None)]
        if wrong or len(got) != step.fan_out.children or got.count(None) > step.fan_out.tolerate:
            yield f"the children resulted in {got}"


def _order(events: Sequence[Event], parent: SagaState, step: StepState) -> Iterator[str]:
    """No code of a child begins once its parent is over, but for what it was told to undo by hand."""
    own = {
        child_id(parent.saga_id, step.name, position, round_)
        for round_ in range(step.round + 1)
        for position in range(step.fan_out.children)
    }
    closed = False
    for event in events:
        if isinstance(event, Entered) and event.saga_id == parent.saga_id:
            closed = closed or (event.action == "StepCompensated" and event.step == step.name)
        if isinstance(event, Began) and closed and event.key.split(":")[0] in own:
            yield f"{event.name} of a child (undo: {event.undo}) began when its parent's step was undone"
