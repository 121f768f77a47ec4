"""A deployment on moto or the emulator under a clock that only the test moves, with deaths on demand."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from unittest.mock import patch

import pytest
from msgspec.structs import force_setattr

from sagas.core.commands import Discard, Postpone
from sagas.core.states import SagaState
from sagas.core.text import epoch
from sagas.engine.attempt.attempt import Invocation
from sagas.engine.attempt.call import CallsCode
from sagas.engine.clock import uuid7
from sagas.engine.engine import settings_from
from sagas.engine.registry import Registry
from sagas.engine.worker import End
from sagas.handlers import now as now_handler
from sagas.handlers import step as step_handler
from sagas.messaging.message import Message, parse_record
from sagas.messaging.queues import Queues
from sagas.messaging.routes import LONGEST_DELAY
from sagas.messaging.work import Work
from tests.support.aws import HandmadeStack, LambdaContext
from tests.support.engine import Engine, engine_of


class Death(BaseException):
    """The process dies here. Not an Exception: nothing may catch it."""


class ManualClock:
    """Time stands still until the test moves it; ids are reproducible.

    Args:
        now: epoch seconds; those of moto's or an emulator's own clock where what they stamp is compared with it.
    """

    def __init__(self, now: float = 1_790_000_000.0) -> None:
        self.time = now
        self.dice = 0.5
        """What chance says, always."""
        self.slept: list[float] = []
        self._count = 0

    def now(self) -> float:
        return round(self.time, 3)

    def advance(self, seconds: float) -> None:
        self.time += seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.time += seconds

    def chance(self) -> float:
        return self.dice

    def new_id(self) -> str:
        return uuid7(self.time, self._next().to_bytes(10, "big"))

    def new_owner(self) -> str:
        return f"{round(self.time * 1000):011x}{self._next():08x}"

    def new_salt(self) -> str:
        return f"{self._next():022d}"

    def _next(self) -> int:
        self._count += 1
        return self._count


def once(monkeypatch: Any, target: Any, name: str, *, before: bool = True, nth: int = 1) -> None:
    """Have the process die at the next call of a method, or a later one: before it takes effect, or after."""
    original: Callable[..., Any] = getattr(target, name)
    calls = itertools.count(1)

    def dying(*arguments: Any, **keywords: Any) -> Any:
        if next(calls) < nth:
            return original(*arguments, **keywords)
        monkeypatch.setattr(target, name, original)
        if not before:
            original(*arguments, **keywords)
        raise Death

    monkeypatch.setattr(target, name, dying)


class Bench:
    """A deployment on moto or the emulator, the clock it goes by, and the pump that delivers its messages.

    Made by itself it hands messages to the engine's worker and sees its outcomes: :meth:`deliver`. Made by
    :func:`deploy_functions` it hands events to the step function: :meth:`invoke`. :meth:`run` does what it was made
    for.

    Args:
        classes: the saga classes.
        lifetime: seconds a function may act.
        carry: whether messages bring inputs.
        stack: tables and queues that are there already.
        clock: what the engine goes by.
        engine: one that is like the step function's, which is to be invoked.
    """

    def __init__(
        self,
        *classes: type[Any],
        lifetime: float = 40.0,
        carry: bool = True,
        stack: HandmadeStack | None = None,
        clock: ManualClock | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.stack = stack or HandmadeStack(*classes)
        self.clock = clock or ManualClock()
        self.lifetime = lifetime
        self.carry = carry
        self.last: End | None = None
        self.hidden: list[int] = []
        """Seconds for which the step function asked SQS to hide a message."""
        self.delayed: list[tuple[int, int]] = []
        """Seconds and hops of each message that it sent to arrive later."""
        self.engine = engine or self.deploy()
        self._round = self._invoke_all if engine else self._deliver_all

    def deploy(self, *classes: type[Any]) -> Engine:
        """Another deployment on the same tables and queues, as a second execution environment is."""
        environment = self.stack.environment
        settle = float(environment["SAGAS_SETTLE"])
        registry, settings = Registry(classes or self.stack.classes, None, settle), settings_from(environment)
        return Engine(registry, settings, self.stack.routes, clock=self.clock, carry=self.carry)

    def release(self) -> None:
        """Store the service's id and the blueprints, as the first start of a release does: what is counted afterwards
        is like any other."""
        self.engine.pauses.claim_tables()
        for saga in self.engine.registry:
            self.engine.blueprints.name(saga.definition)

    def start(self, name: str, request: Any = None, **options: Any) -> str:
        """Start a saga; return its id."""
        given = {"item": "train"} if request is None else request
        return self.engine.starter.start(name, given, **options).state.saga_id

    def replace_call(self, call: Callable[..., str | None]) -> CallsCode:
        """Have another function call the code of steps and undos. Return the one that it replaces."""
        delivers = self._round == self._deliver_all
        services = (self.engine if delivers else step_handler._engine()).services  # pyright: ignore[reportPrivateUsage]
        replaced = services.call
        force_setattr(services, "call", call)
        return replaced

    # Handed to the worker

    def deliver(self, saga: str, step: str, engine: Engine | None = None) -> End | None:
        """Deliver one message and obey the outcome; one to come back later is visible again at once."""
        records = self.stack.receive(saga, step)
        return self.handle(saga, step, records[0], engine) if records else None

    def handle(self, saga: str, step: str, record: Any, engine: Engine | None = None) -> End:
        chosen = engine or self.engine
        receipt = {"QueueUrl": self.stack.queues[saga][step], "ReceiptHandle": record["receiptHandle"]}
        try:
            self.last, _ = chosen.worker.handle(parse_record(record), self._invocation())
        except BaseException:
            self.stack.sqs.change_message_visibility(**receipt, VisibilityTimeout=0)
            raise
        if isinstance(self.last, Discard):
            self.stack.sqs.delete_message(**receipt)
        else:
            self.stack.sqs.change_message_visibility(**receipt, VisibilityTimeout=0)
        return self.last

    def _invocation(self) -> Invocation:
        context: Any = LambdaContext(self.lifetime)
        return Invocation(self.clock.now() + self.lifetime, lambda_context=context)

    def end_waits(self) -> bool:
        """Have the function behind the queue ``now`` do what there is for it; whether there was anything."""
        records = self.stack.receive_from(self.stack.now, 10)
        if not records:
            return False
        try:
            with patch.object(now_handler, "_engine", lambda: self.engine):
                answer = now_handler.handler({"Records": records}, LambdaContext(self.lifetime))
        except BaseException:
            for record in records:
                receipt = {"QueueUrl": self.stack.now, "ReceiptHandle": record["receiptHandle"]}
                self.stack.sqs.change_message_visibility(**receipt, VisibilityTimeout=0)
            raise
        for record in records:
            receipt = {"QueueUrl": self.stack.now, "ReceiptHandle": record["receiptHandle"]}
            if {"itemIdentifier": record["messageId"]} in answer["batchItemFailures"]:
                self.stack.sqs.change_message_visibility(**receipt, VisibilityTimeout=0)
            else:
                self.stack.sqs.delete_message(**receipt)
        return True

    def _deliver_all(self) -> bool:
        ended = self.end_waits()
        outcomes = [self.deliver(saga, step) for saga, step in self.stack.steps()]
        waits = [outcome.until for outcome in outcomes if isinstance(outcome, Postpone)]
        if waits and not any(isinstance(outcome, Discard) for outcome in outcomes):
            self.clock.advance(max(0.0, min(waits) - self.clock.now()) + 0.001)
        return any(outcomes) or ended

    # Handed to the step function

    def invoke(self, saga: str, step: str, *, remaining: float = 60.0, most: int = 1) -> int:
        """Invoke the step function with what one queue has; return how many records there were."""
        records = self.stack.receive(saga, step, most)
        if records:
            answer = step_handler.handler({"Records": records}, LambdaContext(remaining))
            self.stack.settle(saga, step, records, answer)
        return len(records)

    def _invoke_all(self) -> bool:
        hidden, delayed = len(self.hidden), len(self.delayed)
        count = sum(self.invoke(saga, step) for saga, step in self.stack.steps()) + self.end_waits()
        asked = [*self.hidden[hidden:], *(seconds for seconds, _ in self.delayed[delayed:])]
        self.clock.advance(max(asked, default=0))
        return count > 0

    # Either way

    def run(self, rounds: int = 200) -> None:
        """Deliver until the queues are empty; time jumps to when postponed messages are due."""
        for _ in range(rounds):
            if not self._round():
                return
        raise AssertionError("messages keep coming")

    def lose_messages(self) -> None:
        """SQS forgets everything."""
        for url in (self.stack.now, *(self.stack.queues[saga][step] for saga, step in self.stack.steps())):
            for record in self.stack.receive_from(url, 10):
                self.stack.sqs.delete_message(QueueUrl=url, ReceiptHandle=record["receiptHandle"])

    def dead_letters(self, name: str) -> int:
        """How many messages the saga's dead-letter queue has."""
        attribute = "ApproximateNumberOfMessages"
        answer = self.stack.sqs.get_queue_attributes(QueueUrl=self.stack.dead[name], AttributeNames=[attribute])
        return int(answer["Attributes"][attribute])

    def recover(self, stale_after: float | None = None) -> list[str]:
        report = self.engine.recovery.run(60.0, stale_after)
        return report.recovered + report.given_up

    def state(self, saga_id: str) -> SagaState:
        found = self.engine.control.get(saga_id)
        assert found is not None
        return found

    def show(self, saga_id: str) -> dict[str, Any]:
        """How the saga reads in the API."""
        return {**self.engine.reader.show(self.state(saga_id).saga, saga_id)}

    def status(self, saga_id: str) -> str:
        return str(self.show(saga_id)["status"])

    def step(self, saga_id: str, position: int = -1) -> dict[str, Any]:
        """How a step reads in the API."""
        return self.show(saga_id)["steps"][position]

    def actions(self, saga_id: str) -> list[str]:
        return [str(entry["action"]) for entry in self.stack.entries(saga_id)]

    def entry(self, saga_id: str, action: str) -> dict[str, Any]:
        return next(entry for entry in self.stack.entries(saga_id) if entry["action"] == action)

    def at(self, saga_id: str, action: str) -> float:
        return epoch(self.entry(saga_id, action)["at"])


B = TypeVar("B", bound=Bench)


Make = Callable[..., Bench]
"""Makes a bench for some saga classes."""


def deploy_functions(monkeypatch: pytest.MonkeyPatch, stack: HandmadeStack, kind: type[B], **environment: str) -> B:
    """Make a bench of that kind whose messages go through the step function, under a clock that stands still.

    It begins at the real time, which moto and the emulator stamp messages with. What SQS is asked to delay is noted
    and arrives at once.

    Args:
        monkeypatch: undoes it after the test.
        stack: where.
        kind: :class:`Bench`, or a subclass of it.
        environment: further variables of the functions.
    """
    clock, variables = ManualClock(round(time.time(), 3)), stack.environment | environment
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sagas.engine.engine.SystemClock", lambda: clock)
    step_handler.reset()
    bench = kind(stack=stack, clock=clock, engine=engine_of(variables))
    hide, send, send_work = Queues.delay, Queues.send, Queues.send_work

    def hide_noting(queues: Queues, message: Message, seconds: float) -> None:
        bench.hidden.append(math.ceil(max(seconds, 0.0)))
        hide(queues, message, 0)

    def send_noting(queues: Queues, message: Message, delay: float = 0.0) -> None:
        if delay > 0:
            bench.delayed.append((min(math.ceil(delay), LONGEST_DELAY), message.hops))
        send(queues, message)

    def send_work_noting(queues: Queues, queue: str, work: Sequence[Work], delay: float = 0.0) -> None:
        bench.delayed += [(math.ceil(delay), one.hops) for one in work if delay > 0]
        send_work(queues, queue, work)

    monkeypatch.setattr(Queues, "send_work", send_work_noting)
    monkeypatch.setattr(Queues, "delay", hide_noting)
    monkeypatch.setattr(Queues, "send", send_noting)
    return bench
