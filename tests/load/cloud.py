"""What there is of AWS: SQS and its event source mappings, Lambda's concurrency, DynamoDB that throttles or is away."""

from __future__ import annotations

import heapq
import io
import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from unittest.mock import patch

from botocore.exceptions import ConnectTimeoutError
from msgspec.structs import replace

from sagas.authoring.definition.definition import definition_of
from sagas.cdk.layout.step_groups import SHARED, StepGroup
from sagas.cdk.options.function_options import FunctionOptions
from sagas.core.ids import id_for_key
from sagas.engine.attempt.course import Chain
from sagas.engine.registry import Registry
from sagas.errors import SagaError
from sagas.handlers import bulk as bulk_handler
from sagas.handlers import now as now_handler
from sagas.handlers import step as step_handler
from sagas.messaging.routes import Routes
from sagas.messaging.work import BULK, NOW
from sagas.store.tables import StoreSettings
from sagas.testing.expressions import Item
from sagas.testing.faults import ProcessDied, Wire
from sagas.testing.tables import refusal
from tests.load.simulation import Simulation
from tests.support.aws import REGION, LambdaContext
from tests.support.engine import Engine
from tests.support.tables import StrictTables

_BASE = "https://sqs.eu-central-1.amazonaws.com/123456789012"
TICK = 60.0
"""Seconds from one visit of the supervisor to the next."""
_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": REGION,
    "POWERTOOLS_SERVICE_NAME": "load",
    "POWERTOOLS_METRICS_NAMESPACE": "Sagas",
    "POWERTOOLS_LOG_LEVEL": "CRITICAL",
    "SAGAS_MAX_RECEIVES": "14",
}


@dataclass(eq=False, slots=True)
class _Letter:
    body: str
    message_id: str
    sent_at: float
    visible_at: float
    receives: int = 0
    gone: bool = False


@dataclass(slots=True)
class Lane:
    """A queue and the function behind it.

    Args:
        visibility: seconds a received message is hidden.
        lifetime: seconds the function may run.
        most: receives after which a message is dead.
        concurrency: executions at once.
    """

    visibility: float
    lifetime: float
    most: int
    concurrency: int
    letters: dict[str, _Letter] = field(default_factory=dict[str, _Letter])
    ready: deque[_Letter] = field(default_factory=deque[_Letter])
    waiting: list[tuple[float, int, _Letter]] = field(default_factory=list[tuple[float, int, _Letter]])
    running: int = 0
    dead: list[_Letter] = field(default_factory=list[_Letter])
    wakes: set[float] = field(default_factory=set[float])


class _Tables(StrictTables):
    """The index of what is due, without evaluating an expression for every item."""

    def _query(self, request: Item) -> Item:
        if request.get("IndexName") != "open" or not request.get("ScanIndexForward", True):
            return super()._query(request)
        values = list(request["ExpressionAttributeValues"].values())
        shard, until = values[0], values[1]["S"] if len(values) > 1 else "9"
        found = [
            {name: item[name] for name in ("saga_id", "open_shard", "due")}
            for item in self.items(request["TableName"])
            if item.get("open_shard") == shard and item["due"]["S"] <= until
        ]
        found.sort(key=lambda item: (item["due"]["S"], item["saga_id"]["S"]))
        return self._page(request, found, ("open_shard", "due", "saga_id"))


class Cloud:
    """One service under load.

    Args:
        simulation: whose time it goes by.
        saga_class: the saga type that is started.
        kin: the types of its children.
        concurrency: executions at once of each step's function.
        ticks: whether the supervisor comes by.
        bulk: executions at once of what works for the supervisor.
        now: executions at once of what ends waits.
        chained: whether all steps share a queue and a function, which runs them one after the other.
    """

    def __init__(
        self,
        simulation: Simulation,
        saga_class: type[Any],
        concurrency: int,
        *,
        kin: tuple[type[Any], ...] = (),
        ticks: bool = True,
        bulk: int = 10,
        now: int = 20,
        chained: bool = False,
    ) -> None:
        self.simulation = simulation
        self.name = definition_of(saga_class).name
        self.lanes: dict[str, Lane] = {}
        queues, chain = dict[str, dict[str, str]](), ""
        for definition in map(definition_of, (saga_class, *kin)):
            groups = [StepGroup(step.name, definition, (step,), FunctionOptions()) for step in definition.steps]
            if chained:
                groups = [StepGroup(SHARED, definition, tuple(definition.steps), FunctionOptions())]
            chain, name = groups[0].chain, definition.name
            queues[name] = {step.name: f"{name}-{group.id}" for group in groups for step in group.steps}
            for group in groups:
                self.lanes[f"{name}-{group.id}"] = Lane(
                    group.visibility_timeout, group.timeout, group.max_receives, concurrency
                )
        self.lanes[BULK] = Lane(302.0, 300.0, 10, bulk)
        self.lanes[NOW] = Lane(32.0, 30.0, 10, now)
        self.bulk_request = 0.0
        """Seconds that each request takes which is made by what works for the supervisor; those of others take none."""
        self._here = threading.local()
        routes = Routes(_BASE, queues, {BULK: BULK, NOW: NOW})
        self.settings = StoreSettings("load", "load-sagas", "load-audit", "load-payloads", shards=2, region=REGION)
        self.settings = replace(self.settings, joins_table="load-joins" if kin else "")
        self.tables = _Tables(now=simulation.now)
        self._logger = logging.getLogger("tests.load")
        self._logger.addHandler(logging.NullHandler())
        self._logger.propagate = False
        registry = Registry((saga_class, *kin))
        self.engine = Engine(
            registry, self.settings, routes, clock=simulation, logger=self._logger, chain=Chain.parse(chain)
        )
        self._ids = count(1)
        self.invocations: Counter[str] = Counter()
        self.refuse: Callable[[str], Exception | None] = lambda operation: None
        """Which requests to DynamoDB fail, and with what."""
        self.loses: Callable[[], bool] = lambda: False
        """Whether a message that is sent gets lost."""
        self.broken: Callable[[str], bool] = lambda queue: False
        """Whether the code behind a queue cannot be imported."""
        self.throttled: Callable[[str], bool] = lambda queue: False
        """Whether the function behind a queue gets no executions. Its messages are received all the same."""
        self.miscounts = False
        """Whether counts of messages lag a minute, and one in ten is zero whatever there is."""
        self._counts: deque[dict[str, int]] = deque(maxlen=7)
        self.ended: dict[str, float] = {}
        """When each saga came to its end, or to an operator, in virtual seconds since the beginning."""
        self.statuses: Counter[str] = Counter()
        self.entries: Counter[str] = Counter()
        self.sent_anew: Counter[str] = Counter()
        self.stalls = 0
        if ticks:
            simulation.after(TICK, self._tick)

    # AWS

    @contextmanager
    def installed(self) -> Generator[None]:
        """Answer every client of this Python process."""
        wire = Wire({"dynamodb": self._dynamodb, "sqs": self._sqs}, watch=self._watch)
        engine = self.engine
        handled = patch.object(step_handler, "_engine", lambda: engine)
        worked = patch.object(bulk_handler, "_engine", lambda: engine)
        ended = patch.object(now_handler, "_engine", lambda: engine)
        told = redirect_stdout(io.StringIO())  # metrics
        with patch.dict(os.environ, _ENVIRONMENT), handled, worked, ended, told, wire.installed():
            yield

    def _dynamodb(self, operation: str, request: Item) -> Item:
        self._take_time()
        error = self.refuse(operation)
        if error is not None:
            raise error
        return self.tables.answer(operation, request)

    def _take_time(self) -> None:
        if self.bulk_request and getattr(self._here, "queue", "") in (BULK, NOW):
            self.simulation.sleep(self.bulk_request)

    def _watch(self, name: str, request: Item, answer: Any) -> None:
        writes = [request] if name == "PutItem" else []
        if name == "TransactWriteItems":
            writes = [write["Put"] for write in request["TransactItems"] if "Put" in write]
        for write in writes:
            if write["TableName"] == self.settings.audit_table:
                self._entered(write["Item"])

    def _entered(self, item: Item) -> None:
        saga_id, action, status = (item[name]["S"] for name in ("saga_id", "action", "status"))
        self.entries[action] += 1
        if action in ("MessageResent", "SagaRecovered"):
            self.sent_anew[saga_id] += 1
            self.stalls += item["details"]["M"]["stall"]["BOOL"]
        if status not in ("PENDING", "RUNNING", "WAITING", "COMPENSATING") and saga_id not in self.ended:
            self.ended[saga_id] = self.simulation.now() - self.simulation.began
            self.statuses[status] += 1

    def _sqs(self, operation: str, request: Item) -> Item:
        self._take_time()
        queue = str(request["QueueUrl"]).rsplit("/", 1)[1]
        lane, now = self.lanes[queue], self.simulation.now()
        if operation in ("SendMessage", "SendMessageBatch"):
            for one in request.get("Entries", [request]):
                letter = _Letter(one["MessageBody"], f"message-{next(self._ids)}", now, 0.0)
                if not self.loses():
                    lane.letters[letter.message_id] = letter
                    self._show(queue, letter, now + one.get("DelaySeconds", 0))
            return {}
        if operation == "GetQueueAttributes":
            return {"Attributes": {"ApproximateNumberOfMessages": str(self._counted(queue))}}
        assert operation == "ChangeMessageVisibility", operation
        message_id, _, receives = request["ReceiptHandle"].partition("/")
        letter = lane.letters.get(message_id)
        if letter is not None and letter.receives == int(receives):
            self._show(queue, letter, now + request["VisibilityTimeout"])
        return {}

    def _counted(self, queue: str) -> int:
        if not self.miscounts:
            return len(self.lanes[queue].letters)
        return 0 if self.simulation.chance() < 0.1 else self._counts[0][queue]

    def miscount(self) -> None:
        """From now on counts are late and wrong."""
        self.miscounts = True
        self._counts.append({queue: len(lane.letters) for queue, lane in self.lanes.items()})
        self.simulation.after(10, self.miscount)

    def _show(self, queue: str, letter: _Letter, at: float) -> None:
        """Have a letter be visible from then on."""
        lane = self.lanes[queue]
        letter.visible_at = at
        heapq.heappush(lane.waiting, (at, next(self._ids), letter))
        self._wake(queue, at)

    def _wake(self, queue: str, at: float) -> None:
        lane = self.lanes[queue]
        if at not in lane.wakes:
            lane.wakes.add(at)
            self.simulation.at(at, lambda: self._poll(queue, at))

    def _poll(self, queue: str, woken_at: float) -> None:
        """The event source mapping: hand out what is visible, as far as there are executions."""
        lane, now = self.lanes[queue], self.simulation.now()
        lane.wakes.discard(woken_at)
        while lane.waiting and (lane.waiting[0][0] <= now or lane.waiting[0][2].gone):
            at, _, letter = heapq.heappop(lane.waiting)
            if not letter.gone and letter.visible_at == at:
                lane.ready.append(letter)
        while lane.ready and lane.running < lane.concurrency:
            letter = lane.ready.popleft()
            if letter.gone:
                continue
            letter.receives += 1
            if letter.receives > lane.most:
                letter.gone = True
                del lane.letters[letter.message_id]
                lane.dead.append(letter)
                continue
            self._show(queue, letter, now + lane.visibility)
            if self.throttled(queue):
                continue
            lane.running += 1
            self.simulation.task(lambda letter=letter: self._invoke(queue, letter))
        if lane.waiting:
            self._wake(queue, lane.waiting[0][0])

    def _invoke(self, queue: str, letter: _Letter) -> None:
        """Lambda: run the handler, and delete the message unless it is reported failed."""
        lane = self.lanes[queue]
        self.invocations[queue] += 1
        sent = str(round(letter.sent_at * 1000))
        attributes = {"ApproximateReceiveCount": str(letter.receives), "SentTimestamp": sent}
        record = {
            "messageId": letter.message_id,
            "receiptHandle": f"{letter.message_id}/{letter.receives}",
            "body": letter.body,
            "attributes": attributes,
            "messageAttributes": {},
            "eventSourceARN": f"arn:aws:sqs:{REGION}:123456789012:{queue}",
        }
        self._here.queue = queue
        working: dict[str, Any] = {BULK: bulk_handler, NOW: now_handler}
        function = working.get(queue, step_handler)
        with suppress(ProcessDied):
            if self.broken(queue):
                raise ProcessDied
            answer = function.handler({"Records": [record]}, LambdaContext(lane.lifetime))
            if not answer["batchItemFailures"] and not letter.gone:
                letter.gone = True
                lane.letters.pop(letter.message_id, None)
        lane.running -= 1
        self._wake(queue, self.simulation.now())

    def _tick(self) -> None:
        def visit() -> None:
            with suppress(SagaError):
                self.engine.finder.run("recover", 55.0)

        self.simulation.task(visit)
        self.simulation.after(TICK, self._tick)

    # Callers

    def start(self, number: int) -> None:
        """Start a saga, as often as it takes."""

        def act() -> None:
            while True:
                try:
                    self.engine.starter.start(self.name, {"item": "book"}, key=f"order-{number}")
                except SagaError:
                    self.simulation.sleep(1 + self.simulation.chance())
                else:
                    return

        self.simulation.task(act)

    def signal(self, number: int, step: str, value: str, told: Callable[[bool], None]) -> None:
        """Send a signal to a saga that was started so, as often as it takes; tell whether it was taken."""

        def act() -> None:
            saga_id = id_for_key(self.settings.service, self.name, f"order-{number}")
            while True:
                try:
                    answer = self.engine.signals.send(self.name, saga_id, step, value, "ann")
                except SagaError:
                    self.simulation.sleep(1 + self.simulation.chance())
                else:
                    return told(answer.accepted)

        self.simulation.task(act)

    def redrive(self) -> None:
        """Move all dead letters back: each gets a new id and a new time of sending."""
        for queue, lane in self.lanes.items():
            dead, lane.dead = lane.dead, []
            for letter in dead:
                again = _Letter(letter.body, f"message-{next(self._ids)}", self.simulation.now(), 0.0)
                lane.letters[again.message_id] = again
                self._show(queue, again, self.simulation.now())

    @property
    def attention(self) -> int:
        """Sagas that need a person."""
        return sum("attention" in item for item in self.tables.items(self.settings.sagas_table))


def throttled(operation: str) -> Exception:
    """DynamoDB's answer to a request too many."""
    return refusal("ThrottlingException", operation)


def contended(operation: str) -> Exception:
    """DynamoDB's answer to a transaction that meets another write."""
    reasons = [{"Code": "TransactionConflict"}]
    return refusal("TransactionCanceledException", operation, CancellationReasons=reasons)


def away() -> Exception:
    """No answer at all."""
    return ConnectTimeoutError(endpoint_url="https://dynamodb.invalid")
