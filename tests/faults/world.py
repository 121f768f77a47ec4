"""One deployment whose every request can be disturbed: the real engine and handler, everything around them in memory.

Time moves only when nothing else can happen. Lambda delivers each message to the real handler, the supervisor comes by
every minute, clients repeat what got no answer.
"""

from __future__ import annotations

import io
import json
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any, Literal
from unittest.mock import patch

from botocore.exceptions import BotoCoreError
from msgspec.structs import replace

from sagas.authoring.context import Context
from sagas.core.states import SagaState, SagaStatus
from sagas.core.text import epoch
from sagas.engine.attempt.course import Chain
from sagas.engine.operate.signals import Signals
from sagas.engine.registry import Registry
from sagas.errors import Conflict, SagaError
from sagas.handlers import bulk as bulk_handler
from sagas.handlers import now as now_handler
from sagas.handlers import step as step_handler
from sagas.handlers.telemetry import Telemetry
from sagas.messaging.routes import Routes
from sagas.messaging.work import BULK, NOW
from sagas.store.control.mapping import OVERTAKEN
from sagas.store.index import listing
from sagas.store.journal.chain import look_through_tombstone
from sagas.store.journal.entries import NEVER_STARTED, Entry
from sagas.store.journal.tombstones import tombstone_in
from sagas.store.tables import StoreSettings, unpacked
from sagas.testing.faults import Fault, Point, ProcessDied, Wire
from sagas.testing.tables import refusal
from tests.faults.families import FAMILIES
from tests.faults.mailbox import Letter, Mailbox
from tests.faults.sagas import CLASSES, STAGE
from tests.support.aws import REGION, LambdaContext
from tests.support.bench import ManualClock
from tests.support.engine import Engine
from tests.support.tables import StrictTables

LIFETIME = 40.0
"""Seconds a function may act."""
TICK = 60.0
"""Seconds from one visit of the supervisor to the next."""
_PATIENCE = 120.0
"""Seconds an operation or the supervisor may be paused."""
RETENTION = 30 * 86_400.0
"""Seconds for which sagas are kept: longer than any scenario takes that does not wait for it."""
_START = 1_790_000_000.0
_BASE = "https://sqs.eu-central-1.amazonaws.com/123456789012"
_WORKING = {BULK: bulk_handler, NOW: now_handler}
"""The functions behind the service's own queues."""
_MOST_RECEIVES = 10
_MOST_EVENTS = 400
_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": REGION,
    "POWERTOOLS_SERVICE_NAME": "faults",
    "POWERTOOLS_METRICS_NAMESPACE": "Sagas",
    "POWERTOOLS_LOG_LEVEL": "CRITICAL",
    "SAGAS_MAX_RECEIVES": str(_MOST_RECEIVES),
}


@dataclass(frozen=True, slots=True)
class Began:
    """User code began to run."""

    name: str
    undo: bool
    attempt: int
    key: str
    attempt_key: str
    invocation: int
    at: float
    deadline: float
    dispatch: int
    sent: int


@dataclass(frozen=True, slots=True)
class Effect:
    """It took effect."""

    name: str
    undo: bool
    attempt: int
    key: str
    at: float
    deadline: float


@dataclass(frozen=True, slots=True)
class Entered:
    """A journal entry was written; ``late`` when its saga was being purged already, which clears it once more.
    ``looked``: the attempts of the current step that only looked, as the entry tells of them."""

    saga_id: str
    seq: int
    action: str
    step: str
    attempt: int
    status: str
    at: float
    late: bool = False
    looked: tuple[str, int] = ("", 0)


Event = Began | Effect | Entered
Rows = list[dict[str, Any]]


class CrashWorld:
    """What there is of AWS, and who acts in it."""

    def __init__(self) -> None:
        self._registries = Registry(CLASSES), Registry(FAMILIES)
        self.registry = self._registries[0]
        self.chained = False
        """Whether all steps of a saga share a queue and a function, which goes on with what is next."""
        self.settings = StoreSettings(
            "faults", "faults-sagas", "faults-audit", "faults-payloads", shards=2, region=REGION
        )
        self.settings = replace(
            self.settings, retention=RETENTION, key_retention=2 * RETENTION, joins_table="faults-joins"
        )
        self.clock = ManualClock(_START)
        self.tables = StrictTables()
        self.mailbox = Mailbox(self.clock, _MOST_RECEIVES)
        self.objects: dict[str, bytes] = {}
        answers = {"dynamodb": self.tables.answer, "sqs": self.mailbox.answer, "s3": self._object}
        self.wire = Wire(answers, self._others, self._watch)
        self.events: list[Event] = []
        self.refused: list[str] = []
        self.wrong: list[str] = []
        """What a write did that no write may do."""
        self._engine: Engine | None = None
        self._logger = logging.getLogger("tests.faults")
        self._logger.addHandler(logging.NullHandler())
        self._logger.propagate = False
        self._invocations = count(1)
        self._handling: list[tuple[int, Letter, float]] = []
        self._horizon = 0.0
        self._tick_at = 0.0
        self._seen: list[Letter] = []
        self.lost_items = False
        """Whether DynamoDB deleted control items by their time to live."""
        self.counted = False
        """Whether the scenario counted deliveries, of which a repeated request may make more."""
        self.echo = False
        """Whether the last three messages are delivered again after each delivery."""

    @property
    def routes(self) -> Routes:
        """Which queue belongs to which step."""
        queues = {
            one.definition.name: {
                step.name: f"{one.definition.name}-{'steps' if self.chained else step.name}"
                for step in one.definition.steps
            }
            for one in self.registry
        }
        return Routes(_BASE, queues, {name: name for name in _WORKING})

    def reset(self, *, chained: bool = False, families: bool = False) -> None:
        """Begin again, on tables that have no more than the id of their service; with ``families`` those sagas are
        deployed that have children, and these."""
        self.registry, self.chained = self._registries[families], chained
        self.clock = ManualClock(_START)
        self.mailbox.clock = self.clock
        self.tables.clear()
        owned = {"saga_id": {"S": "pauses"}, "service": {"S": self.settings.service}}
        self.tables.answer("PutItem", {"TableName": self.settings.sagas_table, "Item": owned})
        self.mailbox.clear()
        self.objects.clear()
        self.events.clear()
        self.refused.clear()
        self.wrong.clear()
        self._handling.clear()
        self._seen.clear()
        self.echo = self.counted = self.lost_items = False
        self._engine = None
        self._horizon, self._tick_at = float("inf"), self.clock.now() + TICK
        STAGE.fail, STAGE.reject, STAGE.refuse, STAGE.looked = {}, set(), False, set()
        STAGE.unreadable = 0
        STAGE.perform, STAGE.during = self._perform, lambda name, ctx: None
        if families:  # the first visit asks once how all sagas of all types ended, which makes many requests
            with self.wire.aside():
                self.engine.finder.run("recover", TICK)
            self._engine = None

    def deploy(self, *classes: type[Any], settle: float = 0.0) -> None:
        """From now on functions have the code of these sagas alone; without any, of those that there were first. What
        does not fit waits for a release for ``settle`` seconds."""
        self.registry = Registry(classes, None, settle) if classes else self._registries[0]
        self._engine = None

    # What answers, and what is seen.

    def _object(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "PutObject":
            self.objects[request["Key"]] = request["Body"]
            return {}
        if operation == "ListObjectsV2":
            at = datetime.fromtimestamp(_START, UTC)
            keys = sorted(key for key in self.objects if key.startswith(request["Prefix"]))
            return {"Contents": [{"Key": key, "Size": 1, "LastModified": at} for key in keys], "IsTruncated": False}
        if operation == "DeleteObjects":
            for one in request["Delete"]["Objects"]:
                self.objects.pop(one["Key"], None)
            return {}
        assert operation == "GetObject", operation
        if STAGE.unreadable:
            STAGE.unreadable -= 1
            raise refusal("SlowDown", operation)
        if request["Key"] not in self.objects:  # a purge was faster
            raise refusal("NoSuchKey", operation)
        body = self.objects[request["Key"]]
        return {"Body": io.BytesIO(body), "ContentLength": len(body)}

    def _watch(self, name: str, parameters: dict[str, Any], answer: Any) -> None:
        if name == "PutItem" and parameters["TableName"] == self.settings.audit_table:
            self._entered(parameters["Item"])
        if name == "UpdateItem" and sets(parameters, "cancel_requested_at"):
            (saga_id,) = (value["S"] for value in parameters["Key"].values())
            item = self.tables.tables[parameters["TableName"]][saga_id,]
            self.wrong += ["a cancel was accepted past the pivot"] if past_pivot(item) else []
        if name == "TransactWriteItems":
            for write in parameters["TransactItems"]:
                if "Put" in write and write["Put"]["TableName"] == self.settings.audit_table:
                    self._entered(write["Put"]["Item"])

    def _entered(self, item: dict[str, Any]) -> None:
        step, attempt = item.get("step", {}).get("S", ""), int(item.get("attempt", {}).get("N", 0))
        saga_id, action, status = (item[name]["S"] for name in ("saga_id", "action", "status"))
        control = self.tables.tables.get(self.settings.sagas_table, {}).get((saga_id,), {})
        seq, late = int(item["seq"]["N"]), "purge" in control
        details: dict[str, Any] = unpacked(item["details"]) if "details" in item else {}
        looked = (details["looked"]["step"], details["looked"]["attempts"]) if "looked" in details else ("", 0)
        self.events.append(Entered(saga_id, seq, action, step, attempt, status, self.clock.now(), late, looked))

    def _perform(self, name: str, ctx: Context) -> None:
        """The code runs: on the record; its effect is a request of its own."""
        invocation, letter, deadline = self._handling[-1]
        undo = ctx.idempotency_key.endswith(":undo")
        mine = json.loads(letter.body)["dispatch"]
        known = [json.loads(other.body) for other in [letter, *self.mailbox.letters] if other.queue not in _WORKING]
        sent = max(body["dispatch"] for body in known if body["saga_id"] == ctx.saga_id)
        now, key = self.clock.now(), ctx.idempotency_key
        self.events.append(
            Began(ctx.step, undo, ctx.attempt, key, ctx.attempt_key, invocation, now, deadline, mine, sent)
        )

        def take_effect() -> None:
            self.events.append(Effect(ctx.step, undo, ctx.attempt, key, self.clock.now(), deadline))

        self.wire.request(f"effect {name}", {}, take_effect)

    # Who acts.

    @property
    def engine(self) -> Engine:
        """The execution environment at hand; after a death it is a new one."""
        if self._engine is None:
            self._engine = Engine(
                self.registry,
                self.settings,
                self.routes,
                clock=self.clock,
                logger=self._logger,
                chain=Chain.parse("*" if self.chained else ""),
            )
        return self._engine

    def _run(self, act: Callable[[], None], limit: float) -> bool:
        """Run one process; ``False`` if it died. It may be paused until ``limit``, and as long as who waits for it."""
        before, self._horizon = self._horizon, min(limit, self._horizon)
        try:
            with self.wire.process():
                act()
        except ProcessDied:
            self._engine = None
            return False
        finally:
            self._horizon = before
        return True

    def deliver(self, letter: Letter) -> None:
        """Lambda: invoke the handler, and delete the message unless it is reported failed."""
        deadline = self.clock.now() + LIFETIME
        function: Any = _WORKING.get(letter.queue, step_handler)

        def handle() -> None:
            answer = function.handler({"Records": [letter.record]}, LambdaContext(LIFETIME))
            if not answer["batchItemFailures"]:
                with suppress(BotoCoreError):
                    self.wire.request("delete message", {}, lambda: self.mailbox.delete(letter))

        self._handling.append((next(self._invocations), letter, deadline))
        try:
            with patch.object(function, "_engine", lambda: self.engine):
                self._run(handle, deadline)
        finally:
            self._handling.pop()

    def supervise(self) -> None:
        """The supervisor's visit: what it finds it hands out. One that dies, or finds the tables out of reach, is
        forgotten."""
        self._find("recover")

    def _find(self, task: Literal["recover", "purge"]) -> None:
        def visit() -> None:
            with suppress(SagaError):
                self.engine.finder.run(task, 60.0)

        self._run(visit, self.clock.now() + _PATIENCE)

    def keep_no_longer(self) -> None:
        """Time passes until no saga is to be kept any longer, and the supervisor comes to purge."""
        self._purge_after(RETENTION)

    def end_purges(self) -> None:
        """Purges that wait for what a process may write that lost its lease come to their end."""
        if any(state.purge is not None for state in self.states()):
            self._purge_after(OVERTAKEN)

    def _purge_after(self, seconds: float) -> None:
        """One visit of the supervisor may die."""
        self.clock.advance(seconds)
        self._tick_at = self.clock.now()  # what the supervisor came by for meanwhile is not made up for
        for _ in range(3):
            self.clock.advance(TICK)
            self._find("purge")
            while (letter := self.mailbox.receive()) is not None:
                self.deliver(letter)

    def purge_once(self) -> None:
        """An operator has every saga there is purged, and does not repeat what got no answer, or was refused."""
        self._once(lambda state: self.engine.purger.purge(state.saga, state.saga_id, "asked for", "ada"))

    def compensate_once(self) -> None:
        """Likewise: an operator gives up on every saga there is."""
        self._once(lambda state: self.engine.operations.compensate(state.saga, state.saga_id, "enough", "ada"))

    def cancel_once(self) -> None:
        """Likewise: a caller cancels every saga there is."""
        self._once(lambda state: self.engine.operations.cancel(state.saga, state.saga_id, "ada"))

    def resume_once(self, saga: str) -> bool:
        """Likewise: an operator resumes a type. Return whether it is still paused."""
        self._once(lambda state: self.engine.pausing.resume(saga, "ada"))
        return self._is_paused(saga)

    def _once(self, operation: Callable[[SagaState], object]) -> None:
        def act() -> None:
            for state in self.asked():
                with suppress(SagaError):
                    operation(state)

        self._run(act, self.clock.now() + _PATIENCE)

    def abandon(self) -> None:
        """A function takes the lease of every saga, and dies before it does anything."""
        with self.wire.aside():
            for state in self.states():
                taken = replace(state, lease=self.engine.advancer.lease(), token=state.token + 1)
                self.engine.control.claim(state, taken, TICK)

    def lose_items(self) -> None:
        """The control items of sagas that are over are lost: deleted by hand, or by a restore."""
        self.lost_items = True
        for state in self.states():
            if state.ended:
                self.tables.forget(self.settings.sagas_table, state.saga_id)

    def call(self, operation: Callable[[Engine], Any]) -> None:
        """A client of the API: repeats what got no answer, and accepts a refusal."""
        for _ in range(8):
            answered = [False]

            def act(answered: list[bool] = answered) -> None:
                try:
                    operation(self.engine)
                    answered[0] = True
                except Conflict as error:
                    self.refused.append(str(error))
                    answered[0] = "is changing" not in str(error) and "may still" not in str(error)
                except SagaError:
                    pass

            if self._run(act, self.clock.now() + _PATIENCE) and answered[0]:
                return
            self.clock.advance(11.0)
        raise AssertionError("a client never got an answer")

    def start(self, name: str = "pair", key: str | None = "key") -> None:
        self.call(lambda engine: engine.starter.start(name, {"item": "book"}, key=key))

    def operate(self, operation: str, *arguments: Any) -> None:
        """Cancel, retry, compensate or resolve every saga there is, but for children: they are their parent's."""
        for state in self.asked():
            self._operate(state, operation, *arguments)

    def operate_children(self, operation: str, *arguments: Any) -> None:
        """Likewise the children that wait for an operator."""
        for state in self.states():
            if state.parent is not None and state.status is SagaStatus.DEAD_LETTERED:
                self._operate(state, operation, *arguments)

    def _operate(self, state: SagaState, operation: str, *arguments: Any) -> None:
        def act(engine: Engine) -> None:
            getattr(engine.operations, operation)(state.saga, state.saga_id, *arguments, "ada")

        self.call(act)

    def purge(self) -> None:
        """Have every saga there is purged at once; children are, with their parent."""
        for state in self.asked():
            self.call(lambda engine, state=state: engine.purger.purge(state.saga, state.saga_id, "asked for", "ada"))

    def cancel(self) -> None:
        self.operate("cancel")

    def signal(self, value: str = "yes") -> None:
        """Send every saga there is what its step ``answer`` waits for."""
        for state in self.states():
            self.call(
                lambda engine, state=state: engine.signals.send(state.saga, state.saga_id, "answer", value, "ada")
            )

    # What happens by itself.

    def settle(self, most: int = _MOST_EVENTS, strict: bool = True) -> None:
        """Let things happen until nothing does, or ``most`` of them."""
        for _ in range(most):
            if not self.happen():
                return
        if strict:
            raise AssertionError("it never comes to rest: " + ", ".join(map(str, self.events[-8:])))

    def steps(self, most: int) -> None:
        """Let ``most`` things happen."""
        self.counted = True
        self.settle(most, strict=False)

    def stall(self) -> None:
        """Every message is lost, while those of others are handled; and the supervisor comes when that counts as a
        stall: it finds what is due, and has that recovered."""
        with self.wire.aside():
            for one in self.registry:
                for step in one.definition.steps:
                    passed = self.clock.now() + RETENTION
                    self.engine.recovery.watermarks.note(one.definition.name, step.name, passed, self.clock.now())
        self.silence()

    def silence(self) -> None:
        """Every message is lost, and nobody's is handled; and the supervisor comes when its patience ends."""
        self.mailbox.lose()
        self.clock.advance(max(one.definition.stale_after.total_seconds() for one in self.registry))
        self._tick_at = self.clock.now()
        self.steps(2)

    def until(self, action: str, step: str) -> None:
        """Let things happen until that is journaled, or nothing happens any more."""
        while not any(isinstance(one, Entered) and (one.action, one.step) == (action, step) for one in self.events):
            if not self.happen():
                return

    def happen(self) -> bool:
        """One delivery, or one visit of the supervisor, whichever is next; ``False`` when all is at rest."""
        letter = self.mailbox.receive()
        if letter is not None:
            self.deliver(letter)
            if self.echo:
                self._seen = [*self._seen[-2:], letter]
                for seen in self._seen:
                    self.deliver(self.mailbox.again(seen))
            return True
        visible = self.mailbox.next_visible
        if visible is None and all(map(self._at_rest, self.states())):
            return False
        upcoming = min(self._tick_at, visible or self._tick_at)
        if upcoming > self._horizon:
            return False
        self.clock.advance(max(0.0, upcoming - self.clock.now()))
        if upcoming == self._tick_at:
            self._tick_at += TICK
            self.supervise()
        return True

    def _at_rest(self, state: SagaState) -> bool:
        parked = state.paused and self._is_paused(state.saga)
        return _at_rest(state) or parked or (bool(state.joins) and self._waits_for_an_operator(state))

    def _waits_for_an_operator(self, parent: SagaState) -> bool:
        """Whether a child of that saga is on the list of those that need a person, and has not ended."""
        children = (state for state in self.states() if state.parent and state.parent.saga_id == parent.saga_id)
        return any(child.status is SagaStatus.DEAD_LETTERED and child.attention for child in children)

    def _is_paused(self, saga: str) -> bool:
        """What the table says, which no process is asked for."""
        items = self.tables.items(self.settings.sagas_table)
        return any(f"of:{saga}" in item for item in items if item["saga_id"]["S"] == "pauses")

    def _others(self, point: Point) -> None:
        """What others do while a process lingers. By the point's bound:

        1: the same message is delivered a second time; 2: likewise, but when a short lease has expired; 3: a cancel;
        4: a cancel when a short lease has expired; 5: nothing in particular; 6: what has ended is purged; 7: what
        FAILED is undone; 8: a cancel, and what has ended is purged; 9: a signal, whose sender dies once it is accepted.
        A process that is dead by then lingers until all is at rest, one that only pauses as long as it may act.
        """
        if point.bound == 9:
            with patch.object(Signals, "_take", _die):
                self._once(lambda state: self.engine.signals.send(state.saga, state.saga_id, "answer", "yes", "ada"))
            return
        horizon, dead = self._horizon, point.fault is Fault.LATE
        before, self._engine = self._engine, None
        self._horizon = float("inf") if dead else horizon - 1.0
        if point.bound in (2, 4):
            self.clock.advance(11.0)
        if point.bound in (1, 2) and self._handling:
            self.deliver(self.mailbox.again(self._handling[-1][1]))
        if point.bound in (3, 4, 8):
            self.cancel()
        if point.bound == 7:
            self.compensate_once()
        self.settle(strict=dead)
        if point.bound in (6, 8) and not dead:  # a purge counts on it that what is dead cannot act any more
            self.purge_once()
        self._engine, self._horizon = before, horizon

    def states(self) -> list[SagaState]:
        """Every saga that has a control item, as the table has it. Not a process's request."""
        ids = [item["saga_id"]["S"] for item in self.tables.items(self.settings.sagas_table) if "steps" in item]
        with self.wire.aside():
            found = [self.engine.control.get(saga_id) for saga_id in ids]
        return [state for state in found if state is not None]

    def asked(self) -> list[SagaState]:
        """Those that a caller asked for: whose parent is no other saga."""
        return [state for state in self.states() if state.parent is None]

    def joins(self) -> list[dict[str, Any]]:
        """What the table of joins holds."""
        return self.tables.items(self.settings.joins_table)

    def never_started(self) -> list[tuple[str, str]]:
        """The ids of the children that were decided never to start, each with that of the parent."""
        return never_started_in(self.tables.items(self.settings.audit_table))

    def entries(self, saga_id: str) -> Rows:
        """A saga's journal, as the table has it."""
        return rows_of(self.tables.items(self.settings.audit_table), saga_id)

    def everything(self, saga_id: str) -> list[tuple[int, Entry | None]]:
        """A saga's journal, as the store reads it. Not a process's request."""
        with self.wire.aside():
            return self.engine.journal.everything(saga_id)

    def leftovers(self) -> list[str]:
        """What should be gone of sagas without a control item; those that were never more than begun have none yet."""
        there = {item["saga_id"]["S"] for item in self.tables.items(self.settings.sagas_table)}
        gone = defaultdict[str, Rows](list)
        for row in self.tables.items(self.settings.audit_table):
            if row["saga_id"]["S"] not in there:
                gone[row["saga_id"]["S"]].append(row)
        found: list[str] = []
        for saga_id, rows in gone.items():
            tombstone = tombstone_in(rows[0])
            if len(rows) > 1:
                found.append(f"{len(rows)} entries of {saga_id} are left")
            if tombstone is None:
                continue
            found += [f"a purge left {name}" for name in ("payload", "payload_ref", "salt") if name in rows[0]]
            found += [f"a purge left {key}" for key in self.objects if key.split("/")[2] == saga_id]
            if tombstone.state.attention:
                found.append(f"{saga_id} was purged, {tombstone.state.status}, though it needs a person")
            finding = look_through_tombstone(saga_id, rows[0]["saga"]["S"], tombstone)
            if finding.bad is not None:
                found.append(f"what a purge left of {saga_id} does not verify: {finding}")
            if [one.seq for one in tombstone.actions] != list(range(1, tombstone.state.seq + 1)):
                found.append(f"of the audit trail of {saga_id} {len(tombstone.actions)} actions are left")
        return found

    def told_otherwise(self) -> list[str]:
        """What the journals alone would tell of sagas that are over, and is not so."""
        found: list[str] = []
        with self.wire.aside():
            for state in self.states():
                left = self.engine.reader.remains.of(state.saga_id) if state.ended else None
                unsure = bool(state.cancel.at)
                told, known = left and _seen(left.state, unsure), _seen(state, unsure)
                if left is not None and told != known:
                    found.append(f"the journal of {state.saga_id} tells of {told}, not of {known}")
        return found

    def lost_payloads(self) -> list[str]:
        """The entries whose payload is stored aside, but is not there."""
        rows = self.tables.items(self.settings.audit_table)
        return [row["seq"]["N"] for row in rows if "payload_ref" in row and row["payload_ref"]["S"] not in self.objects]

    @property
    def letters(self) -> list[Letter]:
        """The messages in the queues."""
        return self.mailbox.letters

    @property
    def dead_letters(self) -> list[Letter]:
        """The messages in the dead-letter queues."""
        return self.mailbox.dead


def _die(*_given: object) -> None:
    raise ProcessDied


def sets(request: dict[str, Any], attribute: str) -> bool:
    """Whether an update gives an attribute a value."""
    names: dict[str, str] = request.get("ExpressionAttributeNames", {})
    return any(one == attribute and f"{alias} = " in request["UpdateExpression"] for alias, one in names.items())


def past_pivot(item: dict[str, Any]) -> bool:
    """Whether the pivot of a saga has completed, or may have, given its control item."""
    steps = (step["M"] for step in item.get("steps", {}).get("L", []))
    return any("pivot" in step and (step["status"]["S"] == "COMPLETED" or "lost" in step) for step in steps)


def rows_of(items: Iterable[dict[str, Any]], saga_id: str) -> Rows:
    """Return what is to be checked of a saga's journal entries, given the audit table's items."""
    return [
        {
            "seq": int(row["seq"]["N"]),
            "token": int(row["token"]["N"]),
            "action": row["action"]["S"],
            "status": row["status"]["S"],
            "step": row.get("step", {}).get("S"),
            "attempt": int(row.get("attempt", {}).get("N", 0)),
            "at": epoch(row["at"]["S"]),
            "error": _error_in(row["details"]["M"]),
            "payload": row.get("payload", {}).get("S"),
            "cause": row["details"]["M"].get("cause", {}).get("S", ""),
        }
        for row in items
        if row["saga_id"]["S"] == saga_id
    ]


def _error_in(details: dict[str, Any]) -> str:
    """The type of an entry's error. A step whose value does not fit is postponed without one while a release is
    awaited."""
    return "TypeChanged" if "because" in details else details.get("error", {}).get("M", {}).get("type", {}).get("S", "")


def never_started_in(items: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return which children were decided never to start, and their parents, given the audit table's items."""
    return [(row["saga_id"]["S"], row["correlation_id"]["S"]) for row in items if row["action"]["S"] == NEVER_STARTED]


def _seen(state: SagaState, unsure: bool) -> object:
    """What readers see of a saga that is over. The control item alone tells whether a last attempt that was lost before
    a cancel was its last, that a cancel came too late, and which undo the supervisor gave up."""
    counts = [(one.name, one.attempts.made, one.undo_attempts.made, one.result_seq) for one in state.steps]
    sure = None if unsure else ([one.status.value for one in state.steps], state.error_seq)
    return state.status.value, counts, state.in_doubt, state.resolution_seq, sure


def _at_rest(state: SagaState) -> bool:
    parked = state.status is SagaStatus.DEAD_LETTERED and not state.cancel.at
    return state.ended or parked


@contextmanager
def surroundings() -> Generator[None]:
    """What a function finds around it. No request leaves, and no metric is written."""

    def unwritten(*_given: object, **_more: object) -> None: ...

    # One request after the other: which is the nth must not be left to threads.
    ordered = patch.object(listing, "AT_ONCE", 1)
    with patch.dict(os.environ, _ENVIRONMENT), patch.object(Telemetry, "measure", unwritten), ordered:
        step_handler.reset()
        yield
        step_handler.reset()


@contextmanager
def world() -> Generator[CrashWorld]:
    """Make a world."""
    with surroundings():
        yield CrashWorld()
