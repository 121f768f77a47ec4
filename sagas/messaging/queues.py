"""Sends messages to the queues, and delays and postpones received messages."""

from __future__ import annotations

import base64
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from sagas.aws import HOT, connect, translated
from sagas.core.rules import SHORT_WAIT
from sagas.errors import NotFound, Unavailable
from sagas.messaging.message import Message
from sagas.messaging.routes import LONGEST_DELAY, LONGEST_HIDING, Routes, backoff
from sagas.messaging.work import NOW, OneSaga, Work

_COUNTS = [f"ApproximateNumberOfMessages{which}" for which in ("", "NotVisible", "Delayed")]
_BATCH = 10
"""Maximum messages in one request."""
_REQUEST = 1_000_000
"""Maximum bytes of messages in one request. SQS's limit is 1 MiB."""
_ATTRIBUTES = 300
"""Maximum bytes of a message's attributes."""


class Queues:
    """The queues of the sagas.

    Args:
        routes: the queues of the steps.
        region: the AWS region; ``None`` for the environment's region.
        endpoint_url: the URL of SQS; ``None`` for the environment's URL.
    """

    def __init__(self, routes: Routes, region: str | None = None, endpoint_url: str | None = None) -> None:
        self._routes = routes
        self._region = region
        self._endpoint_url = endpoint_url

    @cached_property
    def _client(self) -> Any:
        return connect("sqs", HOT, region=self._region, endpoint_url=self._endpoint_url)

    def connect(self) -> None:
        """Create the client now instead of with the first request."""
        _ = self._client

    def send(self, message: Message, delay: float = 0.0) -> None:
        """Send ``message`` to its step's queue. If it needs no user code and there is a queue ``now``, send it there.
        It is delivered after ``delay`` seconds, at most SQS's 15 minutes. After those, the receiver must delay it
        again."""
        if message.codeless and self.has_work(NOW):
            self.send_work(NOW, [OneSaga(message.saga_id, message.dispatch).work()], delay)
            return
        url = self._routes.queue(message.saga, message.step)
        attributes = _attributes_of(message)
        seconds = min(math.ceil(max(delay, 0.0)), LONGEST_DELAY)
        with translated("SQS"):
            self._client.send_message(
                QueueUrl=url, MessageBody=message.body, MessageAttributes=attributes, DelaySeconds=seconds
            )

    def send_all(self, messages: Sequence[Message]) -> None:
        """Send messages to their steps' queues without delay, up to ten per request to a queue."""
        by_queue = dict[str, list[Message]]()
        for message in messages:
            if message.codeless and self.has_work(NOW):
                self.send(message)
                continue
            by_queue.setdefault(self._routes.queue(message.saga, message.step), []).append(message)
        for url, waiting in by_queue.items():
            for batch in _batches(waiting):
                entries = [
                    {"Id": str(place), "MessageBody": message.body, "MessageAttributes": _attributes_of(message)}
                    for place, message in enumerate(batch)
                ]
                with translated("SQS"):
                    answer = self._client.send_message_batch(QueueUrl=url, Entries=entries)
                if answer.get("Failed"):
                    raise Unavailable(
                        f"SQS SendMessageBatch: {len(answer['Failed'])} of {len(batch)} messages were not accepted"
                    )

    def queue_elsewhere(self, record: Mapping[str, Any], message: Message) -> str | None:
        """Return the URL of a message's own queue if its record came from another one, for example after a redrive to
        the wrong queue. ``None`` if it came from its own queue, or if its step has no queue."""
        try:
            url = self._routes.queue(message.saga, message.step)
        except NotFound:
            return None
        source = record.get("eventSourceARN")
        return url if isinstance(source, str) and self._routes.by_arn(source) != url else None

    def send_copy(self, record: Mapping[str, Any], delay: float, url: str | None = None) -> None:
        """Send the text and attributes of a record unchanged to a queue. ``delay``: seconds until the copy can be
        delivered, at most SQS's 15 minutes."""
        received: dict[str, Any] = record.get("messageAttributes") or {}
        attributes = dict[str, dict[str, Any]]()
        for name, value in received.items():  # Lambda and SQS spell the names differently
            if value["dataType"].startswith("Binary"):
                content = {"BinaryValue": base64.b64decode(value["binaryValue"])}
            else:
                content = {"StringValue": value["stringValue"]}
            attributes[name] = {"DataType": value["dataType"], **content}
        with translated("SQS"):
            self._client.send_message(
                QueueUrl=url or self._routes.by_arn(record["eventSourceARN"]),
                MessageBody=record["body"],
                MessageAttributes=attributes,
                DelaySeconds=min(math.ceil(delay), LONGEST_DELAY),
            )

    def send_text(self, url: str, text: str, attributes: Mapping[str, str], delay: float = 0.0) -> None:
        """Send a text to a queue that is not a saga's. ``delay``: seconds until it can be delivered, at most SQS's
        15 minutes."""
        named = {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items() if value}
        seconds = min(math.ceil(max(delay, 0.0)), LONGEST_DELAY)
        with translated("SQS"):
            self._client.send_message(QueueUrl=url, MessageBody=text, MessageAttributes=named, DelaySeconds=seconds)

    def delay(self, message: Message, seconds: float) -> None:
        """Hide a message for at least ``seconds``, after which it returns. Its step may no longer be deployed, but the
        queue that delivered it is there."""
        url = self._routes.by_arn(message.source) if message.source else self._routes.queue(message.saga, message.step)
        self._change_visibility(url, message.receipt, seconds)

    def waiting(self, saga: str, step: str) -> int:
        """Return the approximate number of messages in a step's queue: visible, in flight and delayed."""
        return self._count(self._routes.queue(saga, step))

    def send_work(self, queue: str, work: Sequence[Work], delay: float = 0.0) -> None:
        """Send messages to a work queue, up to ten per request. ``delay``: seconds until they can be delivered, at most
        SQS's 15 minutes."""
        url = self._routes.work_queue(queue)
        for start in range(0, len(work), _BATCH):
            batch = work[start : start + _BATCH]
            delays = {"DelaySeconds": min(math.ceil(delay), LONGEST_DELAY)} if delay > 0 else {}
            entries = [{"Id": str(place), "MessageBody": message.body, **delays} for place, message in enumerate(batch)]
            with translated("SQS"):
                answer = self._client.send_message_batch(QueueUrl=url, Entries=entries)
            if answer.get("Failed"):
                raise Unavailable(
                    f"SQS SendMessageBatch: {len(answer['Failed'])} of {len(batch)} messages were not accepted"
                )

    def has_work(self, queue: str) -> bool:
        """Whether this function can send to a work queue with this name."""
        return queue in self._routes.work

    def work_waiting(self, queue: str) -> int:
        """Return the approximate number of messages in a work queue: visible, in flight and delayed."""
        return self._count(self._routes.work_queue(queue))

    def dead_letters(self, saga: str) -> int:
        """Return the approximate number of messages in a saga's dead-letter queue."""
        return self._count(self._routes.dead_letters(saga))

    def delay_record(self, record: Mapping[str, Any], seconds: float) -> None:
        """Hide a received message of any kind for ``seconds``, after which it returns."""
        self._change_visibility(self._routes.by_arn(record["eventSourceARN"]), record["receiptHandle"], seconds)

    def _count(self, url: str) -> int:
        with translated("SQS"):
            answer = self._client.get_queue_attributes(QueueUrl=url, AttributeNames=_COUNTS)
        return sum(int(answer["Attributes"].get(name, 0)) for name in _COUNTS)

    def representative(self, saga: str, step: str) -> str:
        """Return the step that stands for all steps that share this step's queue."""
        return self._routes.representative(saga, step)

    def make_visible_now(self, source_arn: str, receipt: str) -> None:
        """Make a message that can never succeed visible at once, so it soon reaches the dead-letter queue."""
        self._change_visibility(self._routes.by_arn(source_arn), receipt, 0)

    def _change_visibility(self, url: str, receipt: str, seconds: float) -> None:
        timeout = min(math.ceil(max(seconds, 0.0)), LONGEST_HIDING)
        with translated("SQS"):
            self._client.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=timeout)


def _attributes_of(message: Message) -> dict[str, Any]:
    named = {"saga": message.saga, "saga_id": message.saga_id, "step": message.step}
    return {key: {"DataType": "String", "StringValue": value} for key, value in named.items()}


def _batches(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Split messages into requests, each within SQS's limits on messages and bytes."""
    batch = list[Message]()
    size = 0
    for message in messages:
        added = len(message.body.encode()) + _ATTRIBUTES
        if batch and (len(batch) == _BATCH or size + added > _REQUEST):
            yield batch
            batch = []
            size = 0
        batch.append(message)
        size += added
    if batch:
        yield batch


_SPARE_RECEIVES = 3
"""Receives in reserve, so that a postponement never moves a message to the dead-letter queue."""
_MOST_HOPS = 2_000
"""Maximum copies of one message before it is given up. A copy is delayed by at least one second per hop, up to 15
minutes. So this many copies take more than 16 days. The retries of a step take 14 days at most, and SQS keeps messages
for 14 days. Such a message is in a loop, or its circuit breaker never closes."""
_RECEIVES_PER_COPY = 3
"""Each copy counts as this many tries, so the backoff of a copy continues where that of the original stopped."""


class Postponing:
    """Postpones messages. For a short wait, the message is hidden. For a long wait, a delayed copy is sent.

    A hidden message counts towards the 120,000 messages in flight that SQS allows, and its next delivery costs a
    receive. A delayed copy does neither.

    Args:
        queues: the queues of the messages.
        environment: the function's environment. ``SAGAS_MAX_RECEIVES`` is the number of receives after which the queue
            gives a message up.
        logger: logs messages that are given up.
        chance: returns a random number from 0 to 1, so messages that failed together do not return together.
    """

    def __init__(
        self, queues: Queues, environment: Mapping[str, str], logger: logging.Logger, chance: Callable[[], float]
    ) -> None:
        self._queues = queues
        self._chance = chance
        self._most_receives = int(environment.get("SAGAS_MAX_RECEIVES", "1000"))
        self._logger = logger

    def postpone(self, message: Message, seconds: float, *, copies: bool = True) -> bool:
        """Have ``message`` or a copy return in ``seconds``. A copy waits at least one second per earlier copy. Returns
        whether a copy was sent: the original can then be deleted."""
        if not copies or (seconds <= SHORT_WAIT and message.receives + _SPARE_RECEIVES < self._most_receives):
            self._queues.delay(message, seconds)
            return False
        if message.hops >= _MOST_HOPS:
            details = {"hops": message.hops, "message_id": message.message_id}
            self._logger.error("message given up", extra=details)
            self._queues.delay(message, 0)  # uses up the receives, so SQS dead-letters it
            return False
        delay = min(max(seconds, message.hops), LONGEST_DELAY)
        self._queues.send(replace(message, hops=message.hops + 1), delay)
        return True

    def after_failure(self, message: Message, *, copies: bool) -> bool:
        """Have a message that could not be handled return after a backoff of up to a minute. Returns whether a copy was
        sent: the original can then be deleted."""
        tries = message.receives + _RECEIVES_PER_COPY * message.hops
        return self.postpone(message, backoff(tries, self._chance()), copies=copies)
