"""What can happen next: a request lands, a message is delivered, a process dies, time passes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from sagas.core.text import epoch
from tests.faults.mailbox import Letter
from tests.interleavings.processes import Processes
from tests.interleavings.replay import LIFETIME, LOST, WORKING, Answer, Process, Replay, Request
from tests.interleavings.snapshot import DISTURBANCES, Actor, Execution, Mail, Shelf, Snapshot
from tests.interleavings.watch import Violation, saga_of, wrong_start, wrong_write

_MOST_LOOKS = 5
"""Times in a row that a saga is looked at, by a message and by those that follow from it. No story takes more."""
_WRITES = ("UpdateItem", "PutItem", "TransactWriteItems", "SendMessage", "SendMessageBatch")
_OPERATIONS = {
    "cancel": "cancel {id}",
    "signal": "signal {id} answer",
    "retry": "retry {id} again",
    "compensate": "compensate {id} enough",
    "resolve": "resolve {id} seen",
    "purge": "purge {id} asked",
    "start": "start",
}
WORKERS = 2
"""How many messages are handled at once."""
TICK = 60.0
"""Seconds from one visit of the supervisor to the next."""
Act = Callable[[], Snapshot]
_PLACES = {name: place for place, name in enumerate(DISTURBANCES)}
_HANDS = 5.0
"""Seconds that a person takes at least."""
PROBE_POLL = 3600.0
"""Seconds in which all must come to rest."""
_MOST_RECEIVES = 10


class Move(NamedTuple):
    """Something that can happen. ``after`` is where it leads, or what is wrong with it."""

    what: str
    after: Snapshot | Violation


class Moves:
    """Finds what can happen next.

    Args:
        replay: runs the processes.
        budget: how often each disturbance may happen; those not named never do, but for ``switch``.
        queued: whether the supervisor only finds. Then it may come by while it is still there.
        passed: whether the queues have handled what was sent long after.
    """

    def __init__(
        self, replay: Replay, budget: Mapping[str, int], *, queued: bool = False, passed: bool = False
    ) -> None:
        self.replay = replay
        self._queued, self._passed = queued, passed
        self.shelf = Shelf()
        self._known = Processes(replay)
        self._bounded = "switch" in budget
        self._purges = "purge" in budget
        self._waits_for_people = replay.has_children and "resolve" in budget
        self._budget = tuple(budget.get(name, 0) for name in DISTURBANCES)
        self.saga_id = ""
        self._began = 0.0

    # Where it begins.

    def begin(self, now: float) -> Snapshot:
        """The moment after the saga was started."""
        nothing, self._began = frozenset[Execution](), now
        at = Snapshot(self.shelf.empty, Mail(), now, now + TICK, (), (), self._budget, nothing)
        at = self._spawned(at, Process("start", now))
        while at.actors:
            at = self._landed(at, at.actors[0])
        [item] = self.items(at.tables)
        self.saga_id = item["saga_id"]["S"]
        if self._passed:
            tables = self.shelf.copy(at.tables)
            self.replay.pass_by(tables, now)
            at = at._replace(tables=self.shelf.number(tables))
        return at

    # Processes.

    def process(self, actor: Actor) -> Process:
        """What an actor was started for."""
        return self._known.process(actor)

    def request(self, actor: Actor) -> Request | None:
        """What an actor asks for next."""
        return self._known.request(actor)

    def _spawned(self, at: Snapshot, process: Process) -> Snapshot:
        return self._with(at, self._known.begun(process))

    def _with(self, at: Snapshot, actor: Actor) -> Snapshot:
        """Add an actor, unless it has ended already."""
        request = self.request(actor)
        if request is None:
            return at
        if request.name == "effect":
            execution = Execution(**request.parameters)
            executions = self.replay.executions(execution.name, undo=execution.undo)
            wrong_start(execution, at.begun, executions * self._budgets(at))
            at = at._replace(begun=at.begun | {execution})
        return at._replace(actors=tuple(sorted((*at.actors, actor))))

    def _without(self, at: Snapshot, actor: Actor) -> Snapshot:
        left = list(at.actors)
        left.remove(actor)
        return at._replace(actors=tuple(left))

    def _workers(self, at: Snapshot) -> int:
        return sum(self.process(actor).kind == "worker" for actor in at.actors)

    def happened(self, at: Snapshot, name: str) -> int:
        """How often a disturbance has happened."""
        return self._budget[_PLACES[name]] - at.budget[_PLACES[name]]

    def _budgets(self, at: Snapshot) -> int:
        """How many budgets of executions there can be: the first, and one for each time an operator asked, or asked
        again because the process died."""
        retried = self.happened(at, "retry")
        again = self.happened(at, "crash") + self.happened(at, "late") if retried else 0
        return 1 + retried + again + self.happened(at, "redrive")

    def _process(self, at: Snapshot, kind: str, letter: Letter | None = None, number: int = 0) -> Process:
        """What is started now, of the version that is deployed."""
        return Process(kind, at.now, letter, number, self.happened(at, "deploy") % 2)

    # What a request does.

    def _effective(self, at: Snapshot, request: Request, actor: Actor | None) -> tuple[Snapshot, Answer]:
        """Carry a request out."""
        if request.service == "dynamodb":
            number, answer = self.shelf.answer(request, at.tables)
            if number != at.tables:
                letter = self.process(actor).letter if actor else None
                letter = None if letter is not None and letter.queue in WORKING else letter
                before, after = self.shelf[at.tables], self.shelf[number]
                wrong_write(self.replay.settings, self.replay.max_recovery_attempts, before, after, letter)
            return at._replace(tables=number), answer
        if request.name == "effect":
            if actor is not None:
                self._check_effect(at, request, self.process(actor))
            return at, Answer()
        if request.service == "caller":
            self._check_answer(at, request)
            return at, Answer()
        if request.name == "SendMessageBatch":
            self._check_hops(request)
        mail, answer = at.mail.answer(request, at.now)
        return at._replace(mail=mail), answer

    def _check_hops(self, request: Request) -> None:
        """What is looked at again and again never comes to rest."""
        if any(json.loads(one["MessageBody"])["hops"] > _MOST_LOOKS for one in request.parameters["Entries"]):
            raise Violation("a saga is looked at again without end")

    def _check_answer(self, at: Snapshot, request: Request) -> None:
        """A call that names a state is answered as done if and only if the next entry is its own."""
        told = request.parameters
        rows = self.shelf[at.tables].items(self.replay.settings.audit_table)
        place = {"saga_id": {"S": told["saga_id"]}, "seq": {"N": str(told["seq"] + 1)}, "actor": {"S": told["actor"]}}
        recorded = any(place.items() <= row.items() for row in rows)
        if told["acted"] != recorded:
            raise Violation(f"a call of {told['actor']} is answered as {'done' if told['acted'] else 'refused'}")

    def _check_effect(self, at: Snapshot, request: Request, process: Process) -> None:
        entries, saga_id = (
            self.shelf[at.tables].items(self.replay.settings.audit_table),
            saga_of(request.parameters["key"]),
        )
        own = [entry["action"]["S"] for entry in entries if entry["saga_id"]["S"] == saga_id]
        turned = "CompensationStarted" in own or "SagaFailed" in own
        if turned and not request.parameters["undo"] and at.now <= process.deadline:
            raise Violation(f"{request.parameters['name']} takes effect after undoing began")

    def _landed(self, at: Snapshot, actor: Actor, answer: Answer | None = None, times: int = 1) -> Snapshot:
        """The actor's request is carried out ``times`` times, and it gets the last answer, or ``answer``."""
        request = self.request(actor)
        assert request is not None
        after, got = at, Answer()
        for _ in range(times):
            after, got = self._effective(after, request, actor)
        return self._with(self._without(after, actor), self._known.told(actor, answer or got, at.now))

    # What may happen.

    def of(self, at: Snapshot) -> Iterator[Move]:
        """Everything that can happen at a moment; nothing when all is at rest."""
        for what, act in self._all(at):
            try:
                yield Move(what, act())
            except Violation as violation:
                yield Move(what, violation)

    def _all(self, at: Snapshot) -> Iterator[tuple[str, Act]]:
        for actor in at.actors:
            if self._commutes(at, actor):
                yield from self._of_one(at, actor)
                return
        for actor in dict.fromkeys(at.actors):
            yield from self._by_actor(at, actor)
        for request in dict.fromkeys(at.airborne):
            yield f"{request.name} lands at last", lambda request=request: self._touchdown(at, request)
        yield from self._deliveries(at)
        yield from self._visits(at)
        yield from self._by_people(at)
        if spent := self._spent(at, "deploy"):
            yield "the other version is deployed", lambda: spent
        yield from self._deleted(at)
        yield from self._time(at)

    def _commutes(self, at: Snapshot, actor: Actor) -> bool:
        """Whether an actor's request cannot tell, and nobody can tell, what others did before it.

        Then nothing is missed by carrying it out at once. A message may be sent at once because it may be delivered
        later; entries that are read as a step's input never change, but by a purge. Only as long as no time passes
        meanwhile.
        """
        request = self.request(actor)
        assert request is not None
        journal = self.replay.settings.audit_table
        if request.name == "BatchGetItem" and not self._purges and [*request.parameters["RequestItems"]] == [journal]:
            asked, got = request.parameters["RequestItems"], self.shelf.answer(request, at.tables)[1].give(request.name)
            return all(len(got["Responses"][name]) == len(asked[name]["Keys"]) for name in asked)
        return request.service in ("sqs", "lambda", "caller") and self._timeless(at)

    def _timeless(self, at: Snapshot) -> bool:
        return not at.budget[_PLACES["pause"]]

    def _spent(self, at: Snapshot, name: str) -> Snapshot | None:
        """The same moment with one disturbance less to come; ``None`` if there is none left."""
        place = _PLACES[name]
        if not at.budget[place]:
            return None
        return at._replace(budget=(*at.budget[:place], at.budget[place] - 1, *at.budget[place + 1 :]))

    def _by_actor(self, at: Snapshot, actor: Actor) -> Iterator[tuple[str, Act]]:
        turned = self._turned(at, actor)
        if turned is not None:
            yield from self._of_one(turned, actor)

    def _turned(self, at: Snapshot, actor: Actor) -> Snapshot | None:
        """It is an actor's turn; ``None`` if another would be interrupted once too often.

        Bounding interruptions, not steps, keeps small what is left out: Musuvathi and Qadeer, "Iterative context
        bounding for systematic testing of multithreaded programs", PLDI 2007.
        """
        if not self._bounded or at.turn == actor.process:
            return at
        interrupted = any(other.process == at.turn for other in at.actors)
        after = self._spent(at, "switch") if interrupted else at
        return after and after._replace(turn=actor.process)

    def _of_one(self, at: Snapshot, actor: Actor) -> Iterator[tuple[str, Act]]:
        request = self.request(actor)
        assert request is not None
        who = f"{self._known.name(actor)}: {request.name}"
        yield who, lambda: self._landed(at, actor)
        if spent := self._spent(at, "crash"):
            yield f"{who}: dies before", lambda: self._died(spent, actor)
        real = request.service in ("dynamodb", "sqs")
        if real and (spent_late := self._spent(at, "late")):
            airborne = (*spent_late.airborne, request)
            yield f"{who}: dies, it is in the air", lambda: self._died(spent_late, actor)._replace(airborne=airborne)
        if real and (spent_lost := self._spent(at, "lost")):
            yield f"{who}: the answer is lost", lambda: self._landed(spent_lost, actor, LOST)
            yield f"{who}: cannot be sent", lambda: self._landed(spent_lost, actor, LOST, 0)
        if real and (spent_repeat := self._spent(at, "repeat")):
            yield f"{who}: is sent twice", lambda: self._landed(spent_repeat, actor, None, 2)
        if request.name in _WRITES and (spent_echo := self._spent(at, "echo")):
            copied = (*spent_echo.airborne, request)
            yield f"{who}: a copy is in the air", lambda: self._landed(spent_echo._replace(airborne=copied), actor)
        if request.service == "dynamodb" and (spent_outage := self._spent(at, "outage")):
            yield f"{who}: nothing gets through any more", lambda: self._cut_off(spent_outage, actor)

    def _died(self, at: Snapshot, actor: Actor) -> Snapshot:
        kind = self.process(actor).kind
        at = self._without(at, actor)
        return at._replace(unanswered=(*at.unanswered, kind)) if kind.split()[0] in _OPERATIONS else at

    def _cut_off(self, at: Snapshot, actor: Actor) -> Snapshot:
        """None of the actor's requests to DynamoDB is sent, until it asks for something else."""
        while (request := self.request(actor)) is not None and request.service == "dynamodb":
            at = self._landed(at, actor, LOST, 0)
            actor = self._known.told(actor, LOST, at.now)
        return at

    def _fused(self, at: Snapshot, what: str, act: Act) -> Iterator[tuple[str, Act]]:
        """Start a process and carry out its first request in one go: nobody can tell when a process was started."""
        if not self._timeless(at):
            yield what, act
            return
        try:
            after = act()
        except Violation as violation:
            yield what, partial(_again, violation)
            return
        new = next((actor for actor in after.actors if actor.history == 0 and actor not in at.actors), None)
        if new is None:
            yield what, act
            return
        for first, move in self._by_actor(after, new):
            yield f"{what}; {first}", move

    def _touchdown(self, at: Snapshot, request: Request) -> Snapshot:
        left = list(at.airborne)
        left.remove(request)
        return self._effective(at._replace(airborne=tuple(left)), request, None)[0]

    def _deliveries(self, at: Snapshot) -> Iterator[tuple[str, Act]]:
        room = self._workers(at) < WORKERS
        for letter in at.mail.opened:
            which = f"message {letter.message_id}"
            if letter.visible_at <= at.now:
                yield from self._of_visible(at, which, letter, room)
            elif room and letter.receives and not self._timeless(at) and (spent := self._spent(at, "duplicate")):
                yield f"{which} again", partial(self._delivered, spent, letter.message_id)

    def _of_visible(self, at: Snapshot, which: str, letter: Letter, room: bool) -> Iterator[tuple[str, Act]]:
        if room:
            yield from self._fused(at, f"{which} is delivered", partial(self._delivered, at, letter.message_id))
        if room and (spent := self._spent(at, "duplicate")):
            yield f"{which} is delivered twice", partial(self._twice, spent, letter)
        if spent := self._spent(at, "loss"):
            yield f"{which} is lost", partial(spent._replace, mail=at.mail.without(letter.message_id))

    def _twice(self, at: Snapshot, letter: Letter) -> Snapshot:
        """Both deliveries may wait before their first request, so that this stands for one at any time."""
        once = self._delivered(at, letter.message_id)
        return once if once.mail.dead != at.mail.dead else self._delivered(once, letter.message_id)

    def _delivered(self, at: Snapshot, message_id: str) -> Snapshot:
        at = at._replace(mail=at.mail.receive(message_id, at.now))
        letter = next(letter for letter in at.mail.opened if letter.message_id == message_id)
        if letter.receives > _MOST_RECEIVES:
            return at._replace(mail=at.mail.bury(message_id))
        return self._spawned(at, self._process(at, "worker", letter))

    def _visits(self, at: Snapshot) -> Iterator[tuple[str, Act]]:
        if not self._queued and any(self.process(actor).kind.startswith("supervisor") for actor in at.actors):
            return
        if at.tick <= at.now:
            later = at._replace(tick=at.tick + TICK)
            yield from self._fused(at, "the supervisor comes", partial(self._visited, later, "supervisor"))
        elif spent := self._spent(at, "visit"):
            kind = "supervisor, once more" if self._queued else "supervisor, impatient"
            yield from self._fused(at, "the supervisor comes early", lambda: self._visited(spent, kind))

    def _visited(self, at: Snapshot, kind: str) -> Snapshot:
        number = sum(at.budget) + 1  # a nonce of its own for each
        return self._spawned(at, self._process(at, kind, number=number))

    def _by_people(self, at: Snapshot) -> Iterator[tuple[str, Act]]:
        for name, kind in _OPERATIONS.items():
            if spent := self._spent(at, name):
                if name == "purge" and self.status(at) not in _OVER:
                    continue
                parked = self._parked(at)
                if self._waits_for_people and name in ("retry", "resolve") and not parked:
                    continue
                children = (f"{row['saga']['S']}/{row['saga_id']['S']}" for row in parked)
                who = next(children, f"{self.replay.name}/{self.saga_id}")
                process = self._process(spent, kind.format(id=who), number=50 + sum(at.budget))
                yield from self._fused(
                    at, f"{name} is asked for", lambda spent=spent, process=process: self._spawned(spent, process)
                )
        if at.mail.dead and not at.actors and (spent_redrive := self._spent(at, "redrive")):
            then = at.now + _HANDS
            yield "dead letters are redriven", lambda: spent_redrive._replace(mail=at.mail.redrive(then), now=then)

    # Time.

    def _time(self, at: Snapshot) -> Iterator[tuple[str, Act]]:
        idle = not at.actors and not at.airborne and all(letter.visible_at > at.now for letter in at.mail.opened)
        if idle and at.tick > at.now:
            if at.unanswered:
                yield "who got no answer asks again", lambda: self._asked_again(at)
            elif not self._at_rest(at) and not (self._parked(at) and self._spent(at, "retry")):
                coming = min([at.tick, *(letter.visible_at for letter in at.mail.opened)])
                yield "time passes", lambda: self._later(at, coming)
            return
        if spent := self._spent(at, "pause"):
            coming = min((moment for moment in self._moments(at) if moment > at.now), default=0.0)
            if coming:
                yield f"{coming - at.now:.0f} s pass", lambda: self._later(spent, coming)

    def _asked_again(self, at: Snapshot) -> Snapshot:
        later = at._replace(now=at.now + LIFETIME, unanswered=at.unanswered[1:])
        return self._spawned(later, self._process(later, at.unanswered[0], number=90))

    def _moments(self, at: Snapshot) -> Iterator[float]:
        """When something begins to be possible, or ends."""
        yield at.tick
        yield from (letter.visible_at for letter in at.mail.opened)
        yield from (self.process(actor).deadline for actor in at.actors)
        if self.replay.chained:  # too late to go on with another step
            yield from (self.process(actor).deadline - 6.0 for actor in at.actors)
        for item in self.items(at.tables):
            for name in ("lease_expires_at", "act_until", "not_before", "lost_until"):
                if name in item:
                    yield epoch(item[name]["S"])

    def _later(self, at: Snapshot, now: float) -> Snapshot:
        """Time passes; processes that are over time are stopped."""
        if now > self._began + PROBE_POLL:
            raise Violation("it never comes to rest")
        alive = tuple(actor for actor in at.actors if self.process(actor).deadline > now)
        return at._replace(now=now, actors=alive)

    def _deleted(self, at: Snapshot) -> Iterator[tuple[str, Act]]:
        item = self.item(at.tables)
        if item and item["status"]["S"] in _OVER and (spent := self._spent(at, "deletion")):
            table = self.replay.settings.sagas_table
            gone = self.shelf.without(at.tables, table, self.saga_id)
            yield "the control item is lost", lambda: spent._replace(tables=gone)

    def items(self, tables: int) -> list[dict[str, Any]]:
        """The control items of the saga and its children."""
        return [row for row in self.shelf[tables].items(self.replay.settings.sagas_table) if "steps" in row]

    def _parked(self, at: Snapshot) -> list[dict[str, Any]]:
        """The control items of the children that wait for an operator. An operator retries each of them later."""
        rows = self.items(at.tables) if self._waits_for_people else []
        return [row for row in rows if row["saga_id"]["S"] != self.saga_id and row["status"]["S"] == "DEAD_LETTERED"]

    def item(self, tables: int) -> dict[str, Any]:
        """The saga's control item."""
        return next((row for row in self.items(tables) if row["saga_id"]["S"] == self.saga_id), _NOTHING)

    def status(self, at: Snapshot) -> str:
        """The saga's status; ``EXPIRED`` when there is none."""
        return self.item(at.tables).get("status", {"S": "EXPIRED"})["S"]

    def _at_rest(self, at: Snapshot) -> bool:
        return not at.mail.letters and all(map(_still, self.items(at.tables)))


def _still(item: dict[str, Any]) -> bool:
    """Whether a saga is over, or waits for an operator."""
    parked = item["status"]["S"] == "DEAD_LETTERED" and "cancel_requested_at" not in item
    return parked or (item["status"]["S"] in _OVER and "purge" not in item)


def _again(violation: Violation) -> Snapshot:
    raise violation


_NOTHING: dict[str, Any] = {}
_OVER = ("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED")
