"""The engine on moto under a clock that only the test moves, with deaths on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sagas.core.states import SagaState
from sagas.core.times import epoch
from sagas.engine.attempt import Invocation
from sagas.engine.clock import uuid7
from sagas.engine.engine import Engine, build_engine, settings_from
from sagas.engine.outcome import Done, Later, Outcome
from sagas.engine.registry import Registry
from sagas.messaging.message import parse_record
from sagas.messaging.routes import Routes
from tests.support.aws import LambdaContext, Stack


class Death(BaseException):
    """The process dies here. Not an Exception: nothing may catch it."""


class ManualClock:
    """Time stands still until the test moves it; ids are reproducible."""

    def __init__(self, now: float = 1_790_000_000.0) -> None:
        self._now = now
        self._count = 0
        self.slept: list[float] = []

    def now(self) -> float:
        return round(self._now, 3)

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._now += seconds

    def chance(self) -> float:
        return 0.5

    def new_id(self) -> str:
        self._count += 1
        return uuid7(self._now, self._count.to_bytes(10, "big"))

    def new_owner(self) -> str:
        self._count += 1
        return f"{round(self._now * 1000):011x}{self._count:08x}"

    def new_salt(self) -> str:
        self._count += 1
        return f"{self._count:022d}"


def once(monkeypatch: Any, target: Any, name: str, *, before: bool = True) -> None:
    """Have the process die at the next call of a method: before it takes effect, or after."""
    original: Callable[..., Any] = getattr(target, name)

    def dying(*arguments: Any, **keywords: Any) -> Any:
        monkeypatch.setattr(target, name, original)
        if not before:
            original(*arguments, **keywords)
        raise Death

    monkeypatch.setattr(target, name, dying)


class Bench:
    """One engine. ``lifetime``: seconds a function may act; ``carry``: whether messages bring inputs."""

    def __init__(self, *classes: type[Any], lifetime: float = 40.0, carry: bool = True) -> None:
        self.stack = Stack(*classes)
        self.clock = ManualClock()
        self.lifetime = lifetime
        self.carry = carry
        self.last: Outcome | None = None
        self.engine = self.deploy(*classes)

    def deploy(self, *classes: type[Any]) -> Engine:
        """Another deployment on the same tables and queues, as a second execution environment is."""
        environment = self.stack.environment
        routes = Routes.parse(environment["SAGAS_QUEUES"])
        registry = Registry(classes or self.stack.classes)
        return build_engine(registry, settings_from(environment), routes, clock=self.clock, carry=self.carry)

    def start(self, name: str, request: Any) -> str:
        return self.engine.starter.start(name, request).state.saga_id

    def deliver(self, saga: str, step: str, engine: Engine | None = None) -> Outcome | None:
        """Deliver one message and obey the outcome; one to come back later is visible again at once."""
        records = self.stack.receive(saga, step)
        return self.handle(saga, step, records[0], engine) if records else None

    def handle(self, saga: str, step: str, record: Any, engine: Engine | None = None) -> Outcome:
        chosen = engine or self.engine
        receipt = {"QueueUrl": self.stack.queues[saga][step], "ReceiptHandle": record["receiptHandle"]}
        try:
            self.last = chosen.worker.handle(parse_record(record), self._invocation())
        except BaseException:
            self.stack.sqs.change_message_visibility(**receipt, VisibilityTimeout=0)
            raise
        if isinstance(self.last, Done):
            self.stack.sqs.delete_message(**receipt)
        else:
            self.stack.sqs.change_message_visibility(**receipt, VisibilityTimeout=0)
        return self.last

    def _invocation(self) -> Invocation:
        context: Any = LambdaContext(self.lifetime)
        return Invocation(self.clock.now() + self.lifetime, lambda_context=context)

    def run(self, rounds: int = 100) -> None:
        """Deliver until the queues are empty; time jumps to when postponed messages are due."""
        for _ in range(rounds):
            outcomes = [self.deliver(saga, step) for saga, step in self.stack.steps()]
            if not any(outcomes):
                return
            waits = [outcome.until for outcome in outcomes if isinstance(outcome, Later)]
            if waits and not any(isinstance(outcome, Done) for outcome in outcomes):
                self.clock.advance(max(0.0, min(waits) - self.clock.now()) + 0.001)
        raise AssertionError("messages keep coming")

    def lose_messages(self) -> None:
        """SQS forgets everything."""
        for saga, step in self.stack.steps():
            url = self.stack.queues[saga][step]
            for record in self.stack.receive(saga, step, most=10):
                self.stack.sqs.delete_message(QueueUrl=url, ReceiptHandle=record["receiptHandle"])

    def recover(self, stale_after: float | None = None) -> list[str]:
        return self.engine.recovery.run(60.0, stale_after).recovered

    def state(self, saga_id: str) -> SagaState:
        found = self.engine.control.get(saga_id)
        assert found is not None
        return found

    def show(self, saga_id: str) -> dict[str, Any]:
        return {**self.engine.reader.show(self.state(saga_id).saga, saga_id)}

    def actions(self, saga_id: str) -> list[str]:
        return [str(entry["action"]) for entry in self.stack.entries(saga_id)]

    def entry(self, saga_id: str, action: str) -> dict[str, Any]:
        return next(entry for entry in self.stack.entries(saga_id) if entry["action"] == action)

    def at(self, saga_id: str, action: str) -> float:
        return epoch(self.entry(saga_id, action)["at"])
