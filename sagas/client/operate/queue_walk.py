"""Going once through all messages of a queue, however many it holds, with no more than a page of them at hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from sagas.aws import translated

_HOLD = 120
"""Seconds for which a message is out of others' sight once it was looked at, at least."""
_LONGEST_HOLD = 11 * 3600
"""At most: SQS hides no message for more than 12 hours."""
_WAIT = 1
"""Seconds a receive waits: from one on, SQS asks all its servers."""
_BATCH = 10
"""What SQS gives at once."""
_SYSTEM = ("ApproximateReceiveCount", "SentTimestamp", "DeadLetterQueueSourceArn")
MOST_HELD = 20_000
"""Messages kept out of sight for the walk: SQS allows 120,000 to be in flight, of which others need theirs."""

_ROUNDS = 3
"""Times that all messages seen may come back with none that is new: SQS leaves those received less often in front."""

Received = dict[str, Any]
OnProgress = Callable[[int], None]
"""Is told how many messages were looked at so far, after each page."""


class QueueWalk:
    """A walk through a queue; a context that makes visible again, in the end, what is still there.

    SQS cannot list a queue: one receives, and what was received comes back. So what was looked at is kept out of sight:
    for twice as long as the walk has taken so far, so that a message comes back ever more rarely, and the walk gets to
    those it has not seen. Of what it holds beyond :data:`MOST_HELD` it gives back the oldest, which SQS puts at the end
    of the queue. Only ids and receipts are kept, no bodies.

    Args:
        sqs: a boto3 client.
        url: of the queue.
        on_progress: told how many messages were looked at.
        clock: seconds that only go forward.
    """

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
        """Yield each message once: until none is to be had, or only those seen keep coming."""
        began, again, looked = self._clock(), 0, 0
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
                self._held.pop(message["MessageId"], None)  # the oldest come first
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

    def pass_over(self, message_id: str) -> None:
        """Know a message as seen, should it come: one that was sent by the walk itself, and may be dead again soon."""
        self._seen.add(message_id)

    def delete(self, message: Mapping[str, Any]) -> None:
        """Delete a message that was yielded."""
        with translated("SQS", quoted=True):
            self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        self._held.pop(message["MessageId"], None)

    def _release(self, count: int) -> None:
        """Make the oldest ``count`` of those held visible again."""
        while count > 0:
            some = list(self._held)[: min(_BATCH, count)]
            entries = [
                {"Id": str(number), "ReceiptHandle": self._held.pop(message_id), "VisibilityTimeout": 0}
                for number, message_id in enumerate(some)
            ]
            count -= len(some)
            try:
                self._sqs.change_message_visibility_batch(QueueUrl=self._url, Entries=entries)
            except (ClientError, BotoCoreError):
                # They come back by themselves when the time they are hidden for is over.
                return
