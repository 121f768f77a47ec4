"""Reads all messages of a queue once, page by page, however many there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from sagas.aws import translated

_HOLD = 120
"""Minimum seconds for which a message, once read, is hidden from other readers."""
_LONGEST_HOLD = 11 * 3600
"""Maximum seconds for which a message is hidden: SQS allows 12 hours."""
_WAIT = 1
"""Seconds that a receive waits. If it waits at least one second, SQS asks all its servers."""
_BATCH = 10
"""SQS returns at most this many messages at once."""
_SYSTEM = ("ApproximateReceiveCount", "SentTimestamp", "DeadLetterQueueSourceArn")
MOST_HELD = 20_000
"""A walk hides at most this many messages. SQS allows 120,000 in flight, and other readers need some."""

_ROUNDS = 3
"""The walk ends once all messages came back this often and none was new. SQS returns rarely received ones first."""

Received = dict[str, Any]
OnProgress = Callable[[int], None]
"""Called after each page with the number of messages read so far."""


class QueueWalk:
    """A walk through a queue. At the end of a ``with`` block, the remaining messages become visible again. SQS cannot
    list a queue: messages that were received come back. So the walk hides each message for twice as long as it has
    taken so far. Then messages come back ever more rarely, and the walk gets to the others. If it hides more than
    :data:`MOST_HELD` messages, it releases the oldest, which SQS puts at the end of the queue. It stores ids and
    receipts, but no bodies. ``clock`` is a monotonic clock in seconds."""

    def __init__(
        self, sqs: Any, url: str, on_progress: OnProgress | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sqs = sqs
        self._url = url
        self._on_progress = on_progress
        self._clock = clock
        self._seen: set[str] = set()
        self._held: dict[str, str] = {}

    def __enter__(self) -> QueueWalk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._release(len(self._held))

    def messages(self, limit: int | None = None) -> Iterator[Received]:
        """Yield each message once, until SQS returns no message, or only messages that were yielded before."""
        began = self._clock()
        again = 0
        looked = 0
        while (limit is None or looked < limit) and again <= _ROUNDS * len(self._seen):
            hold = min(max(_HOLD, 2 * (self._clock() - began)), _LONGEST_HOLD)
            with translated("SQS", quoted=True):
                answer = self._sqs.receive_message(
                    QueueUrl=self._url,
                    MaxNumberOfMessages=_BATCH if limit is None else min(_BATCH, limit - looked),
                    VisibilityTimeout=int(hold),
                    WaitTimeSeconds=_WAIT,
                    MessageAttributeNames=["All"],
                    MessageSystemAttributeNames=[*_SYSTEM],
                )
            page: list[Received] = answer.get("Messages", [])
            if not page:
                return
            for message in page:
                self._held.pop(message["MessageId"], None)  # added again at the end, so the oldest stay first
                self._held[message["MessageId"]] = message["ReceiptHandle"]
            new = [message for message in page if message["MessageId"] not in self._seen]
            again = 0 if new else again + len(page)
            for message in new:
                self._seen.add(message["MessageId"])
                yield message
            looked += len(new)
            self._release(len(self._held) - MOST_HELD)
            if self._on_progress is not None and new:
                self._on_progress(looked)

    def delete(self, message: Mapping[str, Any]) -> None:
        with translated("SQS", quoted=True):
            self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        self._held.pop(message["MessageId"], None)

    def _release(self, count: int) -> None:
        """Make the ``count`` oldest hidden messages visible again."""
        while count > 0:
            batch = list(self._held)[: min(_BATCH, count)]
            entries = [
                {"Id": str(number), "ReceiptHandle": self._held.pop(message_id), "VisibilityTimeout": 0}
                for number, message_id in enumerate(batch)
            ]
            count -= len(batch)
            try:
                self._sqs.change_message_visibility_batch(QueueUrl=self._url, Entries=entries)
            except (ClientError, BotoCoreError):
                # The messages become visible anyway when their time has passed.
                return
