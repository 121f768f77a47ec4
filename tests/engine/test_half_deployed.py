"""A good release is deployed while sagas start, and for a minute half of the functions have the old code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sagas import Saga, step
from sagas.core.commands import Postpone
from sagas.engine.worker import End
from sagas.messaging.message import Message
from sagas.messaging.queues import Queues
from tests.support.bench import Bench
from tests.support.engine import Engine
from tests.support.sagas import LOG

pytestmark = pytest.mark.slow

SETTLE = 900


@dataclass(frozen=True)
class InCents:
    item: str
    cents: int


@dataclass(frozen=True)
class InEuros:
    item: str
    euros: float


def in_euros(old: dict[str, Any]) -> InEuros:
    return InEuros(old["item"], old["cents"] / 100)


class Before(Saga[InCents], name="shop", version="1"):
    @step
    def hold(self, request: InCents) -> str:
        return request.item

    @step
    def insure(self) -> None:
        LOG.append("insure")

    @step
    def pay(self, request: InCents) -> float:
        return request.cents / 100


class After(Saga[InEuros], name="shop", version="2", upcast={"request": in_euros}):
    """A step was renamed, one retired, one added, and the request changed."""

    @step(name="hold")
    def reserve(self, request: InEuros) -> str:
        return request.item

    @step(retired=True)
    def insure(self) -> None:
        LOG.append("insure")

    @step
    def thank(self) -> None:
        LOG.append("thank")

    @step
    def pay(self, request: InEuros) -> float:
        return request.euros


class Copying(Bench):
    """A bench that sends a copy of a message that has to wait, as the step function does."""

    def handle(self, saga: str, step: str, record: Any, engine: Engine | None = None) -> End:
        end = super().handle(saga, step, record, engine)
        if isinstance(end, Postpone) and not end.itself:
            queue = self.stack.queues[saga][step]
            self.stack.sqs.delete_message(QueueUrl=queue, ReceiptHandle=record["receiptHandle"])
            self.stack.sqs.send_message(QueueUrl=queue, MessageBody=record["body"])
        return end


@pytest.mark.usefixtures("bench")
def test_all_end_as_they_should_and_no_message_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Copying(After)
    b.stack.settle_seconds = SETTLE
    send = Queues.send

    def at_once(queues: Queues, message: Message, delay: float = 0.0) -> None:
        send(queues, message)  # the bench's clock runs ahead of the emulator's

    monkeypatch.setattr(Queues, "send", at_once)
    old, new = b.deploy(Before), b.deploy(After)
    expected = dict[str, tuple[str, int]]()
    for number in range(30):
        first = number % 3 == 0 or number < 5
        engine, request = (old, {"item": "a", "cents": 150}) if first else (new, {"item": "a", "euros": 1.5})
        saga_id = engine.starter.start("shop", request).state.saga_id
        expected[saga_id] = ("1", 3) if first else ("2", 3)
        for turn, (saga, name) in enumerate(b.stack.steps()):
            b.deliver(saga, name, (old, new)[(number + turn) % 2])
        b.clock.advance(2)
    b.engine = new
    for _ in range(200):
        b.run()
        b.clock.advance(60)
        b.recover()
        if all(b.state(saga_id).ended for saga_id in expected):
            break
    shown = {saga_id: b.show(saga_id) for saga_id in expected}
    assert {saga_id: (saga["version"], len(saga["steps"])) for saga_id, saga in shown.items()} == expected
    assert {(saga["status"], saga["result"]) for saga in shown.values()} == {("COMPLETED", 1.5)}
    assert LOG.count("insure") == sum(version == "1" for version, _ in expected.values())
    assert LOG.count("thank") == sum(version == "2" for version, _ in expected.values())
    assert b.dead_letters("shop") == 0
