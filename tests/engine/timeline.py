"""A world whose time moves only when a test says so: SQS's delays are noted down instead of waited for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4

import pytest
from botocore.client import BaseClient

from sagas.engine.clock import uuid7
from sagas.engine.engine import Engine
from sagas.handlers import step as step_handler
from sagas.messaging.limits import LONGEST_DELAY
from sagas.messaging.message import Message
from sagas.messaging.queues import Queues
from tests.engine.conftest import World
from tests.support.aws import REGION, Stack
from tests.support.databases import emulator


class StillClock:
    """A clock that stands still until it is moved. It begins at the real time, which moto stamps messages with."""

    def __init__(self) -> None:
        self.time = round(time.time(), 3)
        self.dice = 0.5
        self.slept: list[float] = []
        self._count = 0

    def now(self) -> float:
        return round(self.time, 3)

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.time += seconds

    def chance(self) -> float:
        return self.dice

    def new_id(self) -> str:
        return uuid7(self.now(), self._next().to_bytes(10, "big"))

    def new_owner(self) -> str:
        return f"{round(self.now() * 1000):011x}{self._next():08x}"

    def new_salt(self) -> str:
        return f"{self._next():022d}"

    def _next(self) -> int:
        self._count += 1
        return self._count


class Timeline:
    """A world, its clock, and what was asked of SQS: how long messages are to be hidden, or their copies delayed."""

    def __init__(self, world: World, clock: StillClock) -> None:
        self.world = world
        self.clock = clock
        self.hidden: list[int] = []
        self.delayed: list[tuple[int, int]] = []
        """Seconds and hops of each message that was sent to arrive later."""

    @property
    def engine(self) -> Engine:
        return self.world.engine

    def start(self, name: str) -> str:
        return self.world.start(name, {"item": "train"})

    def step(self, name: str, saga_id: str, position: int = -1) -> dict[str, Any]:
        """How a step reads in the API."""
        return self.world.show(name, saga_id)["steps"][position]

    def status(self, name: str, saga_id: str) -> str:
        return str(self.world.show(name, saga_id)["status"])

    def run(self, rounds: int = 100) -> None:
        """Deliver until nothing is left, moving the clock past each delay."""
        for _ in range(rounds):
            noted = len(self.hidden), len(self.delayed)
            if not sum(self.world.deliver(saga, step) for saga, step in self.world.stack.steps()):
                return
            asked = [*self.hidden[noted[0] :], *(seconds for seconds, _ in self.delayed[noted[1] :])]
            self.clock.time += max(asked, default=0)
        raise AssertionError("messages keep coming")

    def dead_letters(self, name: str) -> int:
        """How many messages the saga's dead-letter queue has."""
        url, attribute = self.world.stack.dead[name], "ApproximateNumberOfMessages"
        answer = self.world.stack.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[attribute])
        return int(answer["Attributes"][attribute])


def _noting(monkeypatch: pytest.MonkeyPatch) -> Callable[[World], Timeline]:
    """Stop the clock and have delays noted; return what makes the timeline of a world."""
    hide, send = Queues.delay, Queues.send
    clock = StillClock()
    made: list[Timeline] = []

    def hide_noting(queues: Queues, message: Message, seconds: float) -> None:
        made[0].hidden.append(math.ceil(max(seconds, 0.0)))
        hide(queues, message, 0)

    def send_noting(queues: Queues, message: Message, delay: float = 0.0) -> None:
        if delay > 0:
            made[0].delayed.append((min(math.ceil(delay), LONGEST_DELAY), message.hops))
        send(queues, message)

    def make(world: World) -> Timeline:
        made.append(Timeline(world, clock))
        return made[0]

    monkeypatch.setattr("sagas.engine.engine.SystemClock", lambda: clock)
    monkeypatch.setattr(Queues, "delay", hide_noting)
    monkeypatch.setattr(Queues, "send", send_noting)
    return make


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that DynamoDB is asked for, as they are: of circuit breakers after ``breaker``."""
    seen: list[str] = []
    send = cast("Any", BaseClient)._make_api_call

    def listening(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        if self.meta.service_model.service_name == "dynamodb":
            key: dict[str, Any] = parameters.get("Key") or parameters.get("Item") or {}
            ours = str(key.get("saga_id", {}).get("S", "")).startswith("breaker#")
            seen.append(f"breaker {operation}" if ours else operation)
        return send(self, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", listening)
    return seen


@pytest.fixture
def timeline(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Timeline]:
    """Make a timeline for some saga classes, on moto."""
    make = _noting(monkeypatch)
    return lambda *classes, **environment: make(world(*classes, **environment))


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Timeline]:
    """Make a timeline for some saga classes, on the emulator, which counts receives as SQS does."""
    url = emulator().endpoint_url
    given = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}
    make = _noting(monkeypatch)

    def deploy(*classes: type[Any], **environment: str) -> Timeline:
        for key, value in (given | environment).items():
            monkeypatch.setenv(key, value)
        stack = Stack(*classes, prefix=f"t{uuid4().hex[:8]}", endpoint_url=url)
        for key, value in (stack.environment | {"AWS_ENDPOINT_URL": url or ""} | environment).items():
            monkeypatch.setenv(key, value)
        step_handler.reset()
        return make(World(stack))

    return deploy
