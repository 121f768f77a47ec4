"""What must hold when all is at rest, whatever was disturbed: read from the tables, the queues and the effects."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

from sagas.core.states import SagaState, SagaStatus, StepStatus
from sagas.engine.registry import Registry, SagaType
from sagas.store.control.mapping import item_of, state_of
from sagas.store.journal.chain import look_through
from sagas.store.journal.entries import Entry
from sagas.store.tables import StoreSettings, unpacked
from sagas.testing.faults import DELAYS, Fault, Plan
from tests.faults.kin import check_families
from tests.faults.mailbox import Letter
from tests.faults.sagas import STAGE
from tests.faults.world import Began, CrashWorld, Effect, Entered, Event, Rows

_REPORTS = frozenset({"StepCompleted", "StepFailed", "StepLost", "WaitStarted", "ChildrenStarted", "StepPostponed"})
_RESULTS = ("StepCompleted", "SignalReceived", "WaitEnded", "ChildrenEnded")
_ASKED = ("WaitStarted", "ChildrenStarted")
_UNDO_REPORTS = frozenset(
    {"StepCompensated", "CompensationAttemptFailed", "CompensationFailed", "CompensationPostponed"}
)
_UNDONE = (SagaStatus.COMPENSATED, SagaStatus.CANCELLED)
_NEEDY = (SagaStatus.FAILED, SagaStatus.COMPENSATION_FAILED, SagaStatus.DEAD_LETTERED)
_BACKWARD = frozenset({"COMPENSATING", "COMPENSATED", "CANCELLED", "COMPENSATION_FAILED"})

_WITHOUT_CODE = ("CodeGone", "TypeChanged")
_NO_LETTER = (*_WITHOUT_CODE, "PivotHolds", "SagaRecoveryExhausted", "WaitTimedOut", "ChildrenFailed")
"""For which a saga is DEAD_LETTERED, and no message dies."""
_NOTICED = 180.0
"""Seconds within which it is noticed that a saga's deadline has passed, if its supervisor dies once."""
_FINAL = frozenset({"COMPLETED", "COMPENSATED", "CANCELLED"})


class Remains(Protocol):
    """What is there when all is at rest."""

    @property
    def registry(self) -> Registry: ...
    @property
    def letters(self) -> Sequence[Letter]: ...
    @property
    def dead_letters(self) -> Sequence[Letter]: ...
    @property
    def events(self) -> Sequence[Event]: ...

    def states(self) -> list[SagaState]: ...
    def entries(self, saga_id: str) -> Rows: ...
    def lost_payloads(self) -> list[str]: ...


def check(world: CrashWorld, points: Plan) -> list[str]:
    """Return what is violated, each in a sentence."""
    found = [*check_rest(world), *_purged(world), *check_families(world), *world.wrong]
    sagas, audit = (world.tables.items(name) for name in (world.settings.sagas_table, world.settings.audit_table))
    found += check_blueprints(sagas, audit)
    found += _listed(sagas, world.settings)
    for state in world.states():
        found += check_chain(state, world.everything(state.saga_id))
        alone = not any(point.fault in DELAYS for point in points)
        found += check_order(_own(world, state), alone=alone)
        found += _time(world, state) if alone else ()
        found += _in_time(world, state)
    return found


def check_blueprints(sagas: Iterable[dict[str, Any]], entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Return what is wrong with blueprints, given the items of both tables: each was stored before a saga named it."""
    named = {item["saga_id"]["S"]: item.get("blueprints", {"SS": []})["SS"] for item in sagas}
    for entry in entries:
        details: dict[str, Any] = unpacked(entry["details"]) if entry["seq"]["N"] == "1" and "details" in entry else {}
        name, saga = details.get("blueprint"), entry["saga"]["S"]
        if name and (f"blueprint#{saga}#{name}" not in named or name not in named.get(f"definition#{saga}", ())):
            yield f"a saga of {saga} names the blueprint {name}, which is not stored"


def _listed(items: Iterable[dict[str, Any]], settings: StoreSettings) -> Iterator[str]:
    """The attention list has the sagas that its rules name, under what is wrong with them now, and no others."""
    for item in items:
        if "status" in item and "name_shard" in item:
            state = state_of(item)
            listed = item.get("incident")
            expected = item_of(state, settings, 1.0).get("incident")
            if listed != expected:
                yield f"the attention list has {state.saga_id} under {listed}, not {expected}"


def _time(world: CrashWorld, state: SagaState) -> Iterator[str]:
    """While nothing is held up, what begins has all the time that it is promised."""
    for event in _own(world, state):
        if isinstance(event, Began):
            promised = world.registry.get(state.saga).step(event.name).code(undo=event.undo).timeout
            if event.deadline - event.at < promised:
                yield f"{event.name} began {event.deadline - event.at:.0f} s before the end of its function"


def _in_time(world: CrashWorld, state: SagaState) -> Iterator[str]:
    """No step begins after its saga's deadline, unless the trail says that the saga goes on past its pivot."""
    said = [entry["at"] for entry in world.entries(state.saga_id) if entry["action"] == "SagaTimedOut"]
    for event in _own(world, state):
        if (
            isinstance(event, Began)
            and not event.undo
            and 0.0 < state.deadline <= event.at < min(said, default=math.inf)
        ):
            yield f"{event.name} began {event.at - state.deadline:.0f} s after the saga's deadline"


def _purged(world: CrashWorld) -> Iterator[str]:
    """What was purged is gone, and has not run since; what lost its control item is only told of."""
    if not world.lost_items:
        yield from world.leftovers()
    there = {state.saga_id for state in world.states()}
    yield from world.told_otherwise()
    gone = {event.saga_id for event in world.events if isinstance(event, Entered)} - there
    for saga_id in gone:
        own = [event for event in world.events if _saga_of(event) == saga_id]
        entered = [event for event in own if isinstance(event, Entered) and event.seq > 1]
        written = Counter(event.seq for event in entered if not event.late)
        if any(times > 1 for times in written.values()):
            yield f"a saga that was purged ran again: {[seq for seq, times in written.items() if times > 1]}"


def check_order(own: list[Event], *, alone: bool) -> list[str]:
    """Return what came after what it must not come after.

    Args:
        own: what one saga's code did and what was journaled of it, in the order of time.
        alone: whether no process can have lost its lease and gone on.
    """
    return [*_order(own), *(_no_repetition(own) if alone else ())]


def check_rest(remains: Remains) -> list[str]:
    """Return what is wrong with what is there when all is at rest, each in a sentence."""
    found = [f"{len(remains.letters)} messages are left in the queues"] if remains.letters else []
    found += [f"entry {entry} points to a payload that is not there" for entry in remains.lost_payloads()]
    for state in remains.states():
        entries, own = remains.entries(state.saga_id), _own(remains, state)
        saga_type = remains.registry.get(state.saga)
        found += _journal(state, entries, own)
        found += _end(remains, state, entries)
        found += _steps(state, saga_type, entries)
        found += _skipped(state, entries, own)
        found += _executions(saga_type, entries, own)
        found += _accounted(state, entries, own)
        found += _outcomes(remains, state, entries)
        found += _pivot(state, entries)
        found += _redriven(entries)
    return found


def _own(remains: Remains, state: SagaState) -> list[Event]:
    return [event for event in remains.events if _saga_of(event) == state.saga_id]


def _saga_of(event: Event) -> str:
    return event.saga_id if isinstance(event, Entered) else event.key.split(":")[0]


def _journal(state: SagaState, entries: Rows, own: list[Event]) -> Iterator[str]:
    if [entry["seq"] for entry in entries] != list(range(1, state.seq + 1)):
        yield f"the journal has entries {[entry['seq'] for entry in entries]}, the saga is at {state.seq}"
    written = Counter(event.seq for event in own if isinstance(event, Entered))
    if any(times > 1 for times in written.values()):
        yield f"an entry was written twice: {[seq for seq, times in written.items() if times > 1]}"
    tokens = [entry["token"] for entry in entries]
    if tokens != sorted(tokens):
        yield f"an entry has a lower token than one before: {tokens}"
    if entries and entries[-1]["status"] != state.status.value:
        yield f"the last entry says {entries[-1]['status']}, the saga is {state.status}"
    for entry, following in pairwise(entries):
        ordered = entry["status"] == "COMPLETED" and following["action"] == "CompensationStarted"
        ordered = ordered and (state.order or following["cause"] == "operator")
        if entry["status"] in _FINAL and following["action"] != "SagaResolved" and not ordered:
            yield f"entry {entry['seq']} says {entry['status']}, but {following['action']} followed"
    turned = False
    for entry in entries:
        turned = turned or entry["action"] == "CompensationStarted"
        if turned and entry["status"] not in _BACKWARD:
            yield f"entry {entry['seq']} says {entry['status']} after undoing began"
    if sum(entry["action"] == "CompensationStarted" for entry in entries) > 1:
        yield "undoing began twice"


def check_chain(state: SagaState, entries: list[tuple[int, Entry | None]]) -> Iterator[str]:
    """Every entry is what was written, as its successor and the control item tell."""
    finding = look_through(entries, state.seq, state.head)
    if finding.bad is not None:
        yield f"the audit trail does not verify: entry {finding.bad.seq} is {finding.bad.wrong}"


def _end(remains: Remains, state: SagaState, entries: Rows) -> Iterator[str]:
    if not state.ended and state.status is not SagaStatus.DEAD_LETTERED:
        yield f"the saga is left {state.status}"
    if state.lease is not None:
        yield "the lease is not free"
    if state.cancel.at and state.status is SagaStatus.COMPLETED:
        yield "an accepted cancel ended COMPLETED"
    of_its_parent = state.parent is not None and state.status is SagaStatus.FAILED
    if state.status in _NEEDY and not of_its_parent and not state.attention and not state.resolution_seq:
        yield f"the saga is {state.status}, and nobody is told"
    if state.ended and state.in_doubt and not state.attention and not state.resolution_seq:
        yield f"{state.in_doubt} is in doubt, and nobody is told"
    dead = [letter.message_id for letter in remains.dead_letters]
    died = state.dead is not None and state.dead.message_id in dead
    causes = [entry["error"] for entry in entries if entry["action"] == "StepDeadLettered"]
    if state.status is SagaStatus.DEAD_LETTERED and not died and causes[-1] not in _NO_LETTER:
        yield f"the saga is DEAD_LETTERED, but its message {state.dead} is not among the dead letters {dead}"
    steps = {step.status for step in state.steps}
    unsettled = state.status is SagaStatus.COMPENSATION_FAILED and not state.resolution_seq
    if unsettled and StepStatus.COMPENSATION_FAILED not in steps:
        yield "the saga is COMPENSATION_FAILED, but no undo failed"
    if state.status is SagaStatus.FAILED and StepStatus.COMPENSATED in steps and not state.resolution_seq:
        yield "the saga is FAILED, but a step was undone"


def _steps(state: SagaState, saga_type: SagaType, entries: Rows) -> Iterator[str]:
    done = Counter(entry["step"] for entry in entries if entry["action"] in _RESULTS and not entry["error"])
    in_vain = Counter(entry["step"] for entry in entries if entry["action"] == "WaitTimedOut")
    undone = Counter(entry["step"] for entry in entries if entry["action"] == "StepCompensated")
    lost = {entry["step"] for entry in entries if entry["action"] == "StepLost" or _late(entry)}
    skipped = {entry["step"] for entry in entries if entry["action"] == "StepSkipped"}
    for step in state.steps:
        if done[step.name] > 1 or undone[step.name] > 1:
            yield f"{step.name} was committed {done[step.name]} times, undone {undone[step.name]} times"
        taken = done[step.name] or step.name in skipped
        if step.signalled and not taken and (in_vain[step.name] or state.status is SagaStatus.COMPLETED):
            yield f"a signal for {step.name} was accepted and not taken"
        if done[step.name] and in_vain[step.name]:
            yield f"{step.name} ended twice: {done[step.name]} results, and in vain"
        has_undo = saga_type.step(step.name).undo is not None or step.waits_for == "children"
        expected = 0 if step.name in skipped else 1
        if state.status is SagaStatus.COMPLETED and (done[step.name], undone[step.name]) != (expected, 0):
            yield f"{step.name} of a COMPLETED saga: completed {done[step.name]}, undone {undone[step.name]} times"
        if state.status in _UNDONE and has_undo and done[step.name] and not undone[step.name]:
            yield f"{step.name} of a {state.status} saga was not undone"
        postponed = [entry for entry in entries if entry["action"] == "StepPostponed" and not entry["error"]]
        began = step.name in (entry["step"] for entry in postponed)
        if state.status in _UNDONE and has_undo and began and not (undone[step.name] or step.name in state.in_doubt):
            yield f"{step.name} of a {state.status} saga was postponed, and not undone"
        if step.status in (StepStatus.RUNNING, StepStatus.COMPENSATING):
            yield f"{step.name} is left {step.status}"
        asked = any(entry["action"] in _ASKED and entry["step"] == step.name for entry in entries)
        known = done[step.name] or asked or undone[step.name] or step.name in state.in_doubt
        if state.ended and step.name in lost and not known and not state.resolution_seq:
            yield f"an execution of {step.name} was lost or late, and nothing tells of it"


def _skipped(state: SagaState, entries: Rows, own: list[Event]) -> Iterator[str]:
    """A skipped step has never begun, and the one that was asked about it last did not let it run."""
    began = {event.name for event in own if isinstance(event, Began) and not event.undo}
    skips = Counter(entry["step"] for entry in entries if entry["action"] == "StepSkipped")
    unbegun = [entry["step"] for entry in entries if entry["action"] == "StepSkipped" and entry["attempt"] < 2]
    for step in state.steps:
        if step.status is StepStatus.SKIPPED and (step.name in began or step.result_seq or not skips[step.name]):
            yield f"{step.name} is SKIPPED, although its code ran or nothing was journaled"
        if step.name in unbegun and step.status is not StepStatus.SKIPPED:
            yield f"{step.name} was skipped before it began, and is {step.status}"
        if skips[step.name] > 1 or (skips[step.name] and step.result_seq):
            yield f"{step.name} has two outcomes"
    for entry in entries:
        if entry["error"] == "Unwanted":
            yield f"{entry['step']} ran, although its condition is false"


def _pivot(state: SagaState, entries: Rows) -> Iterator[str]:
    """Once the pivot has completed, or may have, only an operator has the saga undone; its deadline is told."""
    pivots, past = {step.name for step in state.steps if step.pivot}, False
    told = any(entry["action"] == "SagaTimedOut" for entry in entries)
    for entry in entries:
        turned = entry["action"] == "CompensationStarted" and entry["cause"] != "operator"
        if past and (turned or entry["action"] == "SagaFailed"):
            yield f"past its pivot the saga was undone or ended: {entry['action']}, {entry['cause']}"
        on = entry["status"] in ("PENDING", "RUNNING", "WAITING", "COMPLETED")
        if past and not told and on and 0.0 < state.deadline < entry["at"] - _NOTICED:
            yield "past its pivot the saga went on beyond its deadline, and nobody is told"
        mine = entry["step"] in pivots
        past = past or (mine and (entry["action"] in ("StepCompleted", "StepLost") or _late(entry)))


def _redriven(entries: Rows) -> Iterator[str]:
    """A retry of undos undoes what had failed, and nothing that was passed."""
    failed, retried = set[str](), False
    for before, entry in pairwise(entries):
        if entry["action"] == "SagaRecoveryExhausted":
            return  # then all that is owed counts as failed
        if entry["action"] == "CompensationStarted":
            failed, retried = set[str](), False
        failed |= {entry["step"]} if entry["action"] == "CompensationFailed" else set()
        retried = retried or (entry["action"] == "SagaRetried" and before["status"] == "COMPENSATION_FAILED")
        if retried and entry["action"] == "StepCompensated" and entry["step"] not in failed:
            yield f"a retry undid {entry['step']}, whose undo had not failed"


def _late(entry: dict[str, Any]) -> bool:
    return entry["action"] == "StepFailed" and entry["error"] == "TimedOut"


def _executions(saga_type: SagaType, entries: Rows, own: list[Event]) -> Iterator[str]:
    budgets = 1 + sum(entry["action"] == "SagaRetried" for entry in entries)
    began: dict[tuple[str, bool], list[Began]] = defaultdict(list)
    for event in own:
        if isinstance(event, Began):
            began[event.name, event.undo].append(event)
    for (name, undo), runs in began.items():
        definition = saga_type.step(name)
        policy = definition.undo.retry if undo and definition.undo else definition.retry
        what = f"{'the undo of ' if undo else ''}{name}"
        looks = sum(looked == _code(name, undo=undo) for looked, _ in STAGE.looked)
        if len(runs) > policy.executions * budgets + looks:
            yield f"{what} was executed {len(runs)} times, {policy.executions * budgets} are allowed"
        if len({run.key for run in runs}) > 1:
            yield f"{what} was given several idempotency keys"
        if len({run.attempt_key for run in runs}) < len(runs):
            yield f"two executions of {what} were given the same number: {[run.attempt for run in runs]}"
    if len({runs[0].key for runs in began.values()}) < len(began):
        yield "a step and its undo share an idempotency key"


def _code(name: str, *, undo: bool) -> str:
    """How the stage calls a step or its undo."""
    return f"undo_{name}" if undo else name


def _accounted(state: SagaState, entries: Rows, own: list[Event]) -> Iterator[str]:
    """Each execution has one entry that says what became of it. That there was no code to call says nothing of one, and
    that it is not yet time is said once, as long as nothing else is said. That a wait begins whose code asks nobody any
    more says nothing of its last look."""
    told = Counter(
        (entry["step"], entry["action"] in _UNDO_REPORTS, entry["attempt"])
        for entry in entries
        if entry["action"] in _REPORTS | _UNDO_REPORTS and entry["error"] not in _WITHOUT_CODE
        if entry["action"] != "WaitStarted" or (entry["step"], entry["attempt"]) not in STAGE.looked
    )
    for event in own:
        if not isinstance(event, Began):
            continue
        before = (attempt for step, undo, attempt in told if (step, undo) == (event.name, event.undo))
        looked = (_code(event.name, undo=event.undo), event.attempt) in STAGE.looked
        again = looked and any(attempt < event.attempt for attempt in before)
        if told[event.name, event.undo, event.attempt] not in ((0, 1) if again else (1,)):
            times = told[event.name, event.undo, event.attempt]
            yield f"execution {event.attempt} of {event.name} (undo: {event.undo}) has {times} entries"


def _outcomes(remains: Remains, state: SagaState, entries: Rows) -> Iterator[str]:
    """No outcome that waited in a queue dies there, unless it is committed."""
    committed = {(entry["seq"], entry["token"]) for entry in entries}
    for letter in remains.dead_letters:
        body = json.loads(letter.body)
        outcome = body.get("commit") if body["saga_id"] == state.saga_id else None
        if outcome and (outcome["seq"] + 1, outcome["token"]) not in committed:
            yield f"an outcome of {body['step']} died in its queue"


def _order(own: list[Event]) -> Iterator[str]:
    """What must not come after what."""
    turned, open_runs = False, dict[tuple[str, int], Began]()
    for event in own:
        if isinstance(event, Entered):
            for attempt in range(event.looked[1]):  # they are over, without entries of their own
                open_runs.pop((event.looked[0], attempt + 1), None)
        match event:
            case Entered(action="CompensationStarted" | "SagaFailed" as action):
                turned = turned or action == "CompensationStarted"
                for run in open_runs.values():
                    if event.at < run.deadline:
                        yield f"{action} at {event.at:.0f}, while {run.name} may act until {run.deadline:.0f}"
            case Entered(
                action="StepCompleted"
                | "StepSkipped"
                | "StepFailed"
                | "WaitStarted"
                | "ChildrenStarted"
                | "StepPostponed"
            ):
                open_runs.pop((event.step, event.attempt), None)
            case Began(undo=False):
                open_runs[event.name, event.attempt] = event
            case Effect(undo=False) if turned and event.at <= event.deadline:
                yield f"{event.name} took effect after undoing began"
            case _:
                pass


def _no_repetition(own: list[Event]) -> Iterator[str]:
    """While nobody lingers: nothing begins whose result is known, and only the newest message may run anything."""
    known = set[tuple[str, bool]]()
    for event in own:
        match event:
            case Entered(action="StepCompleted" | "StepCompensated" as action):
                known.add((event.step, action == "StepCompensated"))
            case Began() if (event.name, event.undo) in known:
                yield f"{event.name} (undo: {event.undo}) was repeated, although its result was journaled"
            case Began() if event.dispatch < event.sent:
                yield f"message {event.dispatch} ran {event.name}, although {event.sent} was sent"
            case _:
                pass


def unshaken(points: Plan) -> bool:
    """Whether the run must leave the same journal as the undisturbed one: its client repeated requests, that is all."""
    return bool(points) and all(point.fault is Fault.REPEATED for point in points)
