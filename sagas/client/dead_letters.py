"""A saga's dead-letter queue: looking without taking, moving messages back, and deleting those nobody needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from botocore.exceptions import BotoCoreError, ClientError

from sagas.aws import code_of, translated
from sagas.core.times import iso
from sagas.errors import SagaError

_HOLD = 120
"""Seconds for which messages are out of others' sight while they are looked at."""
_WAIT = 1
"""Seconds a receive waits: from one on, SQS asks all its servers."""
_BATCH = 10
"""What SQS gives at once."""
_NO_SUCH_ACTION = ("InvalidAction", "UnknownOperationException", "UnsupportedOperation", "NotImplemented")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message in a dead-letter queue.

    Args:
        saga: the saga type it belongs to; empty if the message is none of ours.
        saga_id: the saga.
        step: the step whose message it is.
        message_id: SQS's id.
        receives: how often it was received, by its step and by whoever looked at it since.
        sent_at: when it was sent, ISO 8601 in UTC.
        number: of the message within its saga, and how often it was copied to wait; ``None`` if it is none of ours.
    """

    saga: str
    saga_id: str
    step: str
    message_id: str
    receives: int
    sent_at: str
    number: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Redrive:
    """What a redrive did.

    Args:
        task: the handle of SQS's own task, which moves all messages and goes on by itself; ``None`` where they were
            moved one by one.
        moved: the messages that were moved one by one.
        left: messages that stay, since no queue is known that they came from.
    """

    task: str | None = None
    moved: tuple[DeadLetter, ...] = ()
    left: tuple[DeadLetter, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """A dead letter that stays.

    Args:
        letter: the message.
        why: why somebody may need it.
    """

    letter: DeadLetter
    why: str


@dataclass(frozen=True, slots=True)
class Pruned:
    """What pruning did, or in a dry run would do.

    Args:
        dry_run: nothing was deleted.
        dropped: messages that did nothing any more.
        kept: messages that stay.
    """

    dry_run: bool
    dropped: tuple[DeadLetter, ...] = ()
    kept: tuple[Kept, ...] = ()


class DeadLetterQueue:
    """The dead-letter queue of one saga type.

    Args:
        sqs: a boto3 client.
        url: of the queue.
        sources: URLs of the queues it serves, by step.
    """

    def __init__(self, sqs: Any, url: str, sources: Mapping[str, str]) -> None:
        self._sqs = sqs
        self._url = url
        self._sources = sources

    def peek(self, limit: int) -> list[DeadLetter]:
        """Return up to ``limit`` messages, which stay where they are."""
        with self._held(limit) as held:
            return [_read(message) for message in held.values()]

    def redrive(self) -> Redrive:
        """Have SQS move all messages back; do so by hand where the endpoint cannot."""
        try:
            with translated("SQS"):
                return Redrive(task=self._start_task())
        except SagaError as error:
            cause = error.__cause__
            if isinstance(cause, ClientError) and code_of(cause) in _NO_SUCH_ACTION:
                return self.move(None)
            raise

    def move(self, saga_id: str | None) -> Redrive:
        """Move the messages of one saga, or all, back to their queues: body and attributes as they are."""
        moved: list[DeadLetter] = []
        left: list[DeadLetter] = []
        with translated("SQS"), self._held(None) as held:
            for message_id, message in list(held.items()):
                letter = _read(message)
                if saga_id not in (None, letter.saga_id):
                    continue
                if letter.step not in self._sources:
                    left.append(letter)
                    continue
                self._move(message, self._sources[letter.step])
                del held[message_id]
                moved.append(letter)
        return Redrive(None, tuple(moved), tuple(left))

    def prune(self, why_needed: Callable[[DeadLetter], str], saga_id: str | None, *, dry_run: bool) -> Pruned:
        """Delete messages that nobody needs.

        Args:
            why_needed: tells why a message must stay; nothing if it need not.
            saga_id: look at this saga's messages only.
            dry_run: look, and delete nothing.
        """
        dropped: list[DeadLetter] = []
        kept: list[Kept] = []
        with self._held(None) as held:
            for message_id, message in list(held.items()):
                letter = _read(message)
                if saga_id not in (None, letter.saga_id):
                    continue
                why = why_needed(letter)
                if why:
                    kept.append(Kept(letter, why))
                    continue
                if not dry_run:
                    self._delete(message)
                    del held[message_id]
                dropped.append(letter)
        return Pruned(dry_run, tuple(dropped), tuple(kept))

    def _delete(self, message: Mapping[str, Any]) -> None:
        with translated("SQS"):
            self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])

    def _start_task(self) -> str:
        attributes = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])["Attributes"]
        return str(self._sqs.start_message_move_task(SourceArn=attributes["QueueArn"])["TaskHandle"])

    def _move(self, message: Mapping[str, Any], target: str) -> None:
        """Send first, delete then: a failure between the two leaves two messages, and the saga takes one of them."""
        attributes = message.get("MessageAttributes", {})
        self._sqs.send_message(QueueUrl=target, MessageBody=message["Body"], MessageAttributes=attributes)
        self._delete(message)

    @contextmanager
    def _held(self, limit: int | None) -> Generator[dict[str, dict[str, Any]]]:
        """Receive messages, by id, and make those visible again that are still there in the end."""
        held: dict[str, dict[str, Any]] = {}
        try:
            while limit is None or len(held) < limit:
                wanted = _BATCH if limit is None else min(_BATCH, limit - len(held))
                received = self._receive(wanted)
                if not received:
                    break
                held |= {message["MessageId"]: message for message in received}
            yield held
        finally:
            self._release([message["ReceiptHandle"] for message in held.values()])

    def _receive(self, count: int) -> list[dict[str, Any]]:
        with translated("SQS"):
            return self._received(count).get("Messages", [])

    def _received(self, count: int) -> dict[str, Any]:
        return self._sqs.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=count,
            VisibilityTimeout=_HOLD,
            WaitTimeSeconds=_WAIT,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
        )

    def _release(self, receipts: list[str]) -> None:
        for begin in range(0, len(receipts), _BATCH):
            entries = [
                {"Id": str(number), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
                for number, receipt in enumerate(receipts[begin : begin + _BATCH])
            ]
            try:
                self._sqs.change_message_visibility_batch(QueueUrl=self._url, Entries=entries)
            except (ClientError, BotoCoreError):
                # They come back by themselves when the time they are hidden for is over.
                return


def _read(message: Mapping[str, Any]) -> DeadLetter:
    """Read who a message belongs to: from its attributes, or from its body if somebody sent it without."""
    attributes = {
        name: str(value.get("StringValue", "")) for name, value in message.get("MessageAttributes", {}).items()
    }
    known = {**_body_of(message), **attributes}
    system: Mapping[str, str] = message.get("Attributes", {})
    return DeadLetter(
        saga=str(known.get("saga", "")),
        saga_id=str(known.get("saga_id", "")),
        step=str(known.get("step", "")),
        message_id=message["MessageId"],
        receives=int(system.get("ApproximateReceiveCount", 1)),
        sent_at=iso(int(system.get("SentTimestamp", 0)) / 1000),
        number=_number_of(known),
    )


def _number_of(body: Mapping[str, Any]) -> tuple[int, int] | None:
    dispatch, hops = body.get("dispatch"), body.get("hops", 0)
    return (dispatch, hops) if type(dispatch) is int and type(hops) is int else None


def _body_of(message: Mapping[str, Any]) -> dict[str, Any]:
    try:
        body: Any = json.loads(message["Body"])
    except ValueError:
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}
