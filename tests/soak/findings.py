"""Reading everything from the tables and queues once all is at rest, and checking it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sagas.core.ids import child_id
from sagas.core.states import SagaState, SagaStatus
from sagas.engine.registry import Registry
from sagas.store.journal.journal import entry_if_any
from tests.faults.invariants import check_chain, check_order, check_rest
from tests.faults.mailbox import Letter
from tests.faults.world import Began, Entered, Event, Rows, rows_of
from tests.soak.books import Books, Place, check_books
from tests.soak.driver import Course
from tests.soak.faults import Struck
from tests.soak.harbour import Harbour
from tests.soak.lives import INITIALLY
from tests.soak.sagas import BOOKINGS, CLASSES, SHORT_LEASES
from tests.soak.work import Order, parts_of

_REVIVED = frozenset({"SagaRetried", "CompensationStarted", "CancelRequested", "SagaResolved"})
_UNDONE = (SagaStatus.COMPENSATED, SagaStatus.CANCELLED)
_UNSURE = frozenset({"ConnectTimeoutError", "ReadTimeoutError"})


@dataclass(frozen=True, slots=True)
class Findings:
    """What a run came to.

    Args:
        ends: of the sagas, by state.
        calm_ends: likewise of those that nothing disturbed.
        entries: in the journal.
        executions: on record.
        actions: of the journal.
        errors: of executions, by type.
        violations: each in a sentence.
        trails: what happened, line by line, to the sagas that violate something.
    """

    ends: Counter[str]
    calm_ends: Counter[str]
    entries: int
    executions: int
    actions: Counter[str]
    errors: Counter[str]
    violations: list[str]
    trails: list[str]


@dataclass(frozen=True, slots=True)
class Remains:
    """What one saga left, as ``check_rest`` asks for it."""

    state: SagaState
    rows: Rows
    events: Sequence[Event]
    dead_letters: Sequence[Letter] = ()
    objects: frozenset[str] = frozenset()
    registry: Registry = field(default_factory=lambda: Registry(CLASSES))
    letters: Sequence[Letter] = ()

    def states(self) -> list[SagaState]:
        """The saga."""
        return [self.state]

    def entries(self, saga_id: str) -> Rows:
        """Its journal."""
        return self.rows

    def lost_payloads(self) -> list[str]:
        """Its entries whose payload is stored aside, but is not there."""
        return [str(row["seq"]) for row in self.rows if row["payload_ref"] and row["payload_ref"] not in self.objects]


def findings(harbour: Harbour, courses: Iterable[Course], faults: Sequence[Struck]) -> Findings:
    """Read and check.

    Args:
        harbour: the stack, at rest.
        courses: what was started.
        faults: what struck.
    """
    by_id = {course.life.saga_id: course for course in courses}
    orders = {saga_id: course.life.request for saga_id, course in by_id.items()} | _of_children(by_id)
    states = harbour.states(orders)
    stored, executions = _stored(harbour), _executions(harbour)
    journal = defaultdict[str, Rows](list) | {saga_id: _rows(saga_id, items) for saga_id, items in stored.items()}
    letters, objects = harbour.letters(), frozenset(harbour.payloads())
    registry = Registry(CLASSES)
    found = [f"{saga_id}: started by nobody" for saga_id in harbour.saga_ids() if saga_id not in orders]
    found += [f"{saga_id}: there is no such saga" for saga_id in by_id if saga_id not in states]
    trails = list[str]()
    for saga_id, state in states.items():
        course = by_id[state.parent.saga_id if state.parent else saga_id]
        entries, began = journal[saga_id], executions[saga_id]
        own = _in_order(saga_id, began, entries)
        where = f"{state.saga} {saga_id}" if course.life.faulty else f"undisturbed {state.saga} {saga_id}"
        one = check_rest(Remains(state, entries, own, _dead(letters, saga_id), objects, registry))
        one += check_chain(state, [(int(item["seq"]["N"]), entry_if_any(item)) for item in stored[saga_id]])
        one += check_order(own, alone=state.saga not in SHORT_LEASES)
        one += [
            *(check_child(states, state) if state.parent else _course(course, state, entries)),
            *_mismatches(entries),
        ]
        found += [f"{where}: {sentence}" for sentence in one]
        trails += _trail(saga_id, own, faults) if one else []
    found += _letters(letters, states, journal)
    found += [f"{name}: {count} messages are left" for name, count in harbour.left().items()]
    found += _books(harbour, orders, states, journal)
    return Findings(
        ends=_ends(by_id, states, faulty=True),
        calm_ends=_ends(by_id, states, faulty=False),
        entries=sum(map(len, journal.values())),
        executions=sum(map(len, executions.values())),
        actions=Counter(entry["action"] for entries in journal.values() for entry in entries),
        errors=Counter(entry["error"] for entries in journal.values() for entry in entries if entry["error"]),
        violations=found,
        trails=trails,
    )


def _ends(by_id: Mapping[str, Course], states: Mapping[str, SagaState], *, faulty: bool) -> Counter[str]:
    own = ((states[saga_id], course) for saga_id, course in by_id.items() if saga_id in states)
    return Counter(state.status.value for state, course in own if course.life.faulty is faulty)


def _dead(letters: list[Letter], saga_id: str) -> list[Letter]:
    return [letter for letter in letters if _saga_of(letter) == saga_id]


def _saga_of(letter: Letter) -> str:
    return str(json.loads(letter.body)["saga_id"])


def _stored(harbour: Harbour) -> defaultdict[str, list[dict[str, Any]]]:
    """The entries of each saga in order, as they are stored."""
    stored: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for item in harbour.journal():
        stored[item["saga_id"]["S"]].append(item)
    for items in stored.values():
        items.sort(key=lambda item: int(item["seq"]["N"]))
    return stored


def _rows(saga_id: str, items: list[dict[str, Any]]) -> Rows:
    return [row | _more(item) for row, item in zip(rows_of(items, saga_id), items, strict=True)]


def _more(item: Mapping[str, Any]) -> dict[str, str]:
    return {"payload_ref": item.get("payload_ref", {}).get("S", "")}


def _executions(harbour: Harbour) -> Mapping[str, list[Began]]:
    began: defaultdict[str, list[Began]] = defaultdict(list)
    for row in harbour.rows("ExecutionsTable"):
        began[row["saga_id"]["S"]].append(
            Began(
                name=row["step"]["S"],
                undo=row["undo"]["BOOL"],
                attempt=int(row["attempt"]["N"]),
                key=row["key"]["S"],
                attempt_key=row["attempt_key"]["S"],
                invocation=0,
                at=float(row["at"]["N"]),
                deadline=float(row["deadline"]["N"]),
                dispatch=0,
                sent=0,
            )
        )
    return began


def _in_order(saga_id: str, began: list[Began], entries: Rows) -> list[Event]:
    names = ("seq", "action", "step", "attempt", "status", "at")
    entered = [Entered(saga_id, **{name: entry[name] for name in names}) for entry in entries]
    events: list[Event] = [*began, *entered]
    return sorted(events, key=lambda event: event.at)


def _trail(saga_id: str, own: list[Event], faults: Sequence[Struck]) -> list[str]:
    """What happened to a saga, and struck it, line by line."""
    told = [(event.at, _line(event)) for event in own]
    told += [(fault.at, f"    {fault.kind}: {fault.coordinate}") for fault in faults if saga_id in fault.coordinate]
    begun = min((at for at, _ in told), default=0.0)
    return [saga_id, *(f"{at - begun:8.3f} {line}" for at, line in sorted(told))]


def _line(event: Event) -> str:
    if isinstance(event, Entered):
        return f"{event.seq} {event.action} {event.step or ''} {event.attempt or ''} {event.status}"
    return f"  {'undo of ' if event.undo else ''}{event.name}, execution {event.attempt}"


def _course(course: Course, state: SagaState, entries: Rows) -> Iterator[str]:
    """What people were told, and how it ended. A function that a busy machine was too slow for is disturbed, too."""
    life, status = course.life, state.status.value
    yield from course.wrong
    late = any(entry["error"] in ("Lost", "TimedOut") for entry in entries)
    disturbed = life.faulty or late or any(entry["action"] == "StepLost" for entry in entries)
    allowed = life.ends | life.when_disturbed if disturbed else life.ends
    if status not in allowed:
        yield f"it ended {status}, not one of {sorted(allowed)}"
    if course.cancelled not in ("", "asked", "refused") and state.status is SagaStatus.COMPLETED:
        yield "an accepted cancel ended COMPLETED"
    if course.cancelled == "refused" and state.status is SagaStatus.CANCELLED and life.then != "cancel":
        yield "a refused cancel was carried out"


def _mismatches(entries: Rows) -> Iterator[str]:
    for entry in entries:
        if entry["error"] == "Mismatch":
            yield f"entry {entry['seq']}: {entry['step']} was given a result that nobody returned"


def _letters(letters: list[Letter], states: Mapping[str, SagaState], journal: Mapping[str, Rows]) -> Iterator[str]:
    """A dead letter belongs to a saga that waits for a person, or that has waited for one."""
    for letter in letters:
        saga_id = _saga_of(letter)
        where = f"a dead letter of {letter.queue} {saga_id}"
        actions = [entry["action"] for entry in journal[saga_id]]
        if saga_id not in states:
            yield f"{where}, which does not exist"
        elif "StepDeadLettered" not in actions:
            yield f"{where}, which was never dead-lettered"
        elif states[saga_id].status is not SagaStatus.DEAD_LETTERED:
            since = actions[actions.index("StepDeadLettered") :]
            if not _REVIVED.intersection(since):
                yield f"{where}, which nobody revived"


def _of_children(by_id: Mapping[str, Course]) -> dict[str, dict[str, Any]]:
    """The requests of all children that there may be, by their ids."""
    return {
        child_id(saga_id, "parts", position): asdict(part)
        for saga_id, course in by_id.items()
        if course.life.saga == "fleet"
        for position, part in enumerate(parts_of(Order(**course.life.request)))
    }


def check_child(states: Mapping[str, SagaState], child: SagaState) -> Iterator[str]:
    """Tell what is wrong with a child: it is over with its parent, and as its parent is."""
    parent = states[child.parent.saga_id if child.parent else ""]
    right = (SagaStatus.COMPLETED,) if parent.status is SagaStatus.COMPLETED else _UNDONE
    if child.status not in right:
        yield f"it is {child.status}, its parent {parent.saga_id} {parent.status}"


def _books(
    harbour: Harbour,
    orders: Mapping[str, Mapping[str, Any]],
    states: Mapping[str, SagaState],
    journal: Mapping[str, Rows],
) -> list[str]:
    books = Books(*(tuple(harbour.rows(f"{name}Table")) for name in ("Stock", "Ledger", "Shipments")))
    unsure: frozenset[Place] = frozenset(
        (saga_id, entry["step"]) for saga_id in states for entry in journal[saga_id] if entry["error"] in _UNSURE
    )
    return check_books(books, states, orders, BOOKINGS, INITIALLY, unsure)
