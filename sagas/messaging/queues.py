"""Sending messages, and having one come back later."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from sagas.aws import HOT, connect, translated
from sagas.errors import NotFound, Unavailable
from sagas.messaging.limits import LONGEST_DELAY, LONGEST_HIDING
from sagas.messaging.message.message import Message
from sagas.messaging.routes import Routes
from sagas.messaging.work import NOW, OneSaga, Work

_COUNTS = [f"ApproximateNumberOfMessages{which}" for which in ("", "NotVisible", "Delayed")]
_BATCH = 10
"""Messages that one request may send."""
_REQUEST = 1_000_000
"""Bytes that they may have together: SQS accepts 1 MiB."""
_ATTRIBUTES = 300
"""Bytes of a message's attributes, at most."""


class Queues:
    """The queues of the sagas.

    Args:
        routes: which queue belongs to which step.
        region: AWS region; ``None`` takes the environment's.
        endpoint_url: ``None`` takes the environment's.
    """

    def __init__(self, routes: Routes, region: str | None = None, endpoint_url: str | None = None) -> None:
        self._routes = routes
        self._region = region
        self._endpoint_url = endpoint_url

    @cached_property
    def _client(self) -> Any:
        return connect("sqs", HOT, region=self._region, endpoint_url=self._endpoint_url)

    def connect(self) -> None:
        """Make the client, which the first request does otherwise."""
        _ = self._client

    def send(self, message: Message, delay: float = 0.0) -> None:
        """Send ``message`` to its step's queue; one that takes no code of its saga's to ``now``, where that is known.
        ``delay``: seconds before it may be delivered; what goes beyond SQS's 15 minutes is left to the receiver."""
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
        """Send messages to their steps' queues, without delay, ten in a request where they go to the same one."""
        by_queue = dict[str, list[Message]]()
        for message in messages:
            if message.codeless and self.has_work(NOW):
                self.send(message)
                continue
            by_queue.setdefault(self._routes.queue(message.saga, message.step), []).append(message)
        for url, own in by_queue.items():
            for ten in _together(own):
                entries = [
                    {"Id": str(place), "MessageBody": one.body, "MessageAttributes": _attributes_of(one)}
                    for place, one in enumerate(ten)
                ]
                with translated("SQS"):
                    answer = self._client.send_message_batch(QueueUrl=url, Entries=entries)
                if answer.get("Failed"):
                    raise Unavailable(f"SQS SendMessageBatch: {len(answer['Failed'])} of {len(ten)} were not taken")

    def queue_elsewhere(self, record: Mapping[str, Any], message: Message) -> str | None:
        """Return the URL of a message's own queue if its record came from another one, as after a redrive to a wrong
        destination; ``None`` if it came from its own, or none is known."""
        try:
            url = self._routes.queue(message.saga, message.step)
        except NotFound:
            return None
        source = record.get("eventSourceARN")
        return url if isinstance(source, str) and self._routes.by_arn(source) != url else None

    def send_copy(self, record: Mapping[str, Any], delay: float, url: str | None = None) -> None:
        """Send the text and the attributes of a record, as they are, to a queue. ``delay``: seconds before the copy may
        be delivered, at most SQS's 15 minutes."""
        received: dict[str, Any] = record.get("messageAttributes") or {}
        attributes = dict[str, dict[str, Any]]()
        for name, value in received.items():  # Lambda gives them other than SQS takes them
            if value["dataType"].startswith("Binary"):
                kept = {"BinaryValue": base64.b64decode(value["binaryValue"])}
            else:
                kept = {"StringValue": value["stringValue"]}
            attributes[name] = {"DataType": value["dataType"], **kept}
        with translated("SQS"):
            self._client.send_message(
                QueueUrl=url or self._routes.by_arn(record["eventSourceARN"]),
                MessageBody=record["body"],
                MessageAttributes=attributes,
                DelaySeconds=min(math.ceil(delay), LONGEST_DELAY),
            )

    def send_text(self, url: str, text: str, attributes: Mapping[str, str], delay: float = 0.0) -> None:
        """Send a text to a queue that is none of a saga's. ``delay``: seconds before it may be delivered, at most SQS's
        15 minutes."""
        named = {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items() if value}
        seconds = min(math.ceil(max(delay, 0.0)), LONGEST_DELAY)
        with translated("SQS"):
            self._client.send_message(QueueUrl=url, MessageBody=text, MessageAttributes=named, DelaySeconds=seconds)

    def delay(self, message: Message, seconds: float) -> None:
        """Have this same message come back in ``seconds``, at the earliest."""
        self._change_visibility(self._routes.queue(message.saga, message.step), message.receipt, seconds)

    def waiting(self, saga: str, step: str) -> int:
        """Return about how many messages a step's queue holds: to be received, in flight, and delayed."""
        return self._count(self._routes.queue(saga, step))

    def send_work(self, queue: str, work: Sequence[Work], delay: float = 0.0) -> None:
        """Send messages to a work queue, ten in a request. ``delay``: seconds before they may be delivered, at most
        SQS's 15 minutes."""
        url = self._routes.work_queue(queue)
        for start in range(0, len(work), _BATCH):
            ten = work[start : start + _BATCH]
            later = {"DelaySeconds": min(math.ceil(delay), LONGEST_DELAY)} if delay > 0 else {}
            entries = [{"Id": str(place), "MessageBody": one.body, **later} for place, one in enumerate(ten)]
            with translated("SQS"):
                answer = self._client.send_message_batch(QueueUrl=url, Entries=entries)
            if answer.get("Failed"):
                raise Unavailable(f"SQS SendMessageBatch: {len(answer['Failed'])} of {len(ten)} were not taken")

    def has_work(self, queue: str) -> bool:
        """Tell whether this function may send to a work queue of that name."""
        return queue in self._routes.work

    def work_waiting(self, queue: str) -> int:
        """Return about how many messages a work queue holds: to be received, in flight, and delayed."""
        return self._count(self._routes.work_queue(queue))

    def delay_record(self, record: Mapping[str, Any], seconds: float) -> None:
        """Have a received message come back in ``seconds``, whatever it holds."""
        self._change_visibility(self._routes.by_arn(record["eventSourceARN"]), record["receiptHandle"], seconds)

    def _count(self, url: str) -> int:
        with translated("SQS"):
            answer = self._client.get_queue_attributes(QueueUrl=url, AttributeNames=_COUNTS)
        return sum(int(answer["Attributes"].get(name, 0)) for name in _COUNTS)

    def lane(self, saga: str, step: str) -> str:
        """Return the step that stands for all that share a step's queue."""
        return self._routes.lane(saga, step)

    def make_visible_now(self, source_arn: str, receipt: str) -> None:
        """Have a message that will never succeed come back at once, so that its redrive policy gets it soon."""
        self._change_visibility(self._routes.by_arn(source_arn), receipt, 0)

    def _change_visibility(self, url: str, receipt: str, seconds: float) -> None:
        timeout = min(math.ceil(max(seconds, 0.0)), LONGEST_HIDING)
        with translated("SQS"):
            self._client.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=timeout)


def _attributes_of(message: Message) -> dict[str, Any]:
    named = {"saga": message.saga, "saga_id": message.saga_id, "step": message.step}
    return {key: {"DataType": "String", "StringValue": value} for key, value in named.items()}


def _together(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Split messages into requests: at most ten each, and no more bytes than SQS accepts."""
    ten, size = list[Message](), 0
    for message in messages:
        own = len(message.body.encode()) + _ATTRIBUTES
        if ten and (len(ten) == _BATCH or size + own > _REQUEST):
            yield ten
            ten, size = [], 0
        ten.append(message)
        size += own
    if ten:
        yield ten
