"""A store that goes away for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from sagas.core.commands import Discard
from sagas.errors import Unavailable
from sagas.messaging.message import Message, parse_record
from sagas.messaging.queues import Queues
from tests.support.bench import Bench

REQUEST = {"item": "train"}
DONE = ["book:1", "pay:1", "tell:1"]


@dataclass
class Outage:
    """Requests by these names fail while it lasts. ``after``: their effect happens, but no answer comes."""

    patch: pytest.MonkeyPatch
    bench: Bench
    error: Unavailable
    after: bool = False
    lasting: bool = False
    failed: int = 0

    def of(self, target: Any, *names: str) -> None:
        for name in names:
            self._break(target, name)

    def _break(self, target: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(target, name)

        def failing(*arguments: Any, **keywords: Any) -> Any:
            if not self.lasting:
                return original(*arguments, **keywords)
            self.failed += 1
            if self.after:
                original(*arguments, **keywords)
            raise self.error

        self.patch.setattr(target, name, failing)

    def begins_after(self, calls: int) -> None:
        """Have it begin with so many calls of code, however the last of them ends."""
        left = [calls]

        def counted(*arguments: Any) -> str | None:
            left[0] -= 1
            try:
                return call(*arguments)
            finally:
                self.lasting = self.lasting or left[0] == 0

        call = self.bench.replace_call(counted)


Begin = Callable[..., Outage]


def carried(bench: Bench, saga: str, name: str) -> Message:
    """The message that waits in a step's queue; it stays there."""
    (record,) = bench.stack.receive(saga, name)
    url = bench.stack.queues[saga][name]
    bench.stack.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=record["receiptHandle"], VisibilityTimeout=0)
    return parse_record(record)


def arrive_at_once(patch: pytest.MonkeyPatch) -> None:
    """What SQS is asked to delay arrives at once: moto would go by the real time."""
    send = Queues.send

    def sooner(queues: Queues, message: Message, delay: float = 0.0) -> None:
        send(queues, message)

    patch.setattr(Queues, "send", sooner)


def lost_at(bench: Bench, outage: Outage, name: str) -> Message:
    """Deliver a step's message, whose commit fails; return what waits in its queue then."""
    assert bench.deliver("trip", name) == Discard()
    assert outage.lasting
    return carried(bench, "trip", name)


class Refusals:
    """AWS refuses these operations with a code, as long as ``on``."""

    def __init__(self, patch: pytest.MonkeyPatch, code: str, *operations: str) -> None:
        self.on = True
        self.count = 0
        asked: Callable[..., Any] = cast("Any", BaseClient)._make_api_call

        def call(client: BaseClient, operation: str, parameters: Any) -> Any:
            if self.on and operation in operations:
                self.count += 1
                status = {"HTTPStatusCode": 500 if code.startswith("Internal") else 400}
                raise ClientError({"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": status}, operation)
            return asked(client, operation, parameters)

        patch.setattr(BaseClient, "_make_api_call", call)


WRITES = ("PutItem", "UpdateItem", "TransactWriteItems")
"""Operations that commit an outcome."""
