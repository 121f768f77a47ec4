"""SQS in memory, on the test's clock: delays, visibility, receive counts, dead letters and redrive."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.bench import ManualClock

VISIBILITY = 60.0
"""Seconds a received message stays hidden: longer than a function may take."""


@dataclass(slots=True)
class Letter:
    """A message in a queue. Times are epoch seconds."""

    queue: str
    body: str
    message_id: str
    visible_at: float
    sent_at: float
    receives: int = 0

    @property
    def receipt(self) -> str:
        return f"{self.message_id}/{self.receives}"

    @property
    def record(self) -> dict[str, Any]:
        """The record of an SQS event."""
        attributes = {"ApproximateReceiveCount": str(self.receives), "SentTimestamp": str(round(self.sent_at * 1000))}
        return {
            "messageId": self.message_id,
            "receiptHandle": self.receipt,
            "body": self.body,
            "attributes": attributes,
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:eu-central-1:123456789012:{self.queue}",
            "awsRegion": "eu-central-1",
        }


@dataclass(slots=True)
class Mailbox:
    """All queues. ``most``: receives after which a message goes to the dead letters."""

    clock: ManualClock
    most: int
    letters: list[Letter] = field(default_factory=list[Letter])
    dead: list[Letter] = field(default_factory=list[Letter])
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def clear(self) -> None:
        self.letters.clear()
        self.dead.clear()

    def answer(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Answer the requests the library makes."""
        queue = str(request["QueueUrl"]).rsplit("/", 1)[1]
        if operation == "SendMessage":
            letter = self._put(queue, request["MessageBody"], request.get("DelaySeconds", 0))
            return {"MessageId": letter.message_id}
        if operation == "SendMessageBatch":
            for one in request["Entries"]:
                self._put(queue, one["MessageBody"], one.get("DelaySeconds", 0))
            return {}
        if operation == "GetQueueAttributes":
            here = sum(letter.queue == queue for letter in self.letters)
            return {"Attributes": {"ApproximateNumberOfMessages": str(here)}}
        assert operation == "ChangeMessageVisibility", operation
        for letter in self.letters:
            if letter.receipt == request["ReceiptHandle"]:
                letter.visible_at = self.clock.now() + request["VisibilityTimeout"]
        return {}

    def _put(self, queue: str, body: str, delay: float) -> Letter:
        now = self.clock.now()
        letter = Letter(queue, body, f"message-{next(self._ids)}", now + delay, now)
        self.letters.append(letter)
        return letter

    def receive(self) -> Letter | None:
        """Take the message that has been visible for longest; worn-out ones go to the dead letters."""
        while True:
            visible = [letter for letter in self.letters if letter.visible_at <= self.clock.now()]
            if not visible:
                return None
            letter = min(visible, key=lambda letter: letter.visible_at)
            letter.receives += 1
            letter.visible_at = self.clock.now() + VISIBILITY
            if letter.receives <= self.most:
                return letter
            self.letters.remove(letter)
            self.dead.append(letter)

    @property
    def next_visible(self) -> float | None:
        """When the next message is to be seen; ``None`` when there is none."""
        return min((letter.visible_at for letter in self.letters), default=None)

    def delete(self, letter: Letter) -> None:
        """Lambda deletes what was handled, by its latest receipt or an older one."""
        self.letters = [other for other in self.letters if other.message_id != letter.message_id]

    def again(self, letter: Letter) -> Letter:
        """The same message, delivered a second time."""
        return replace(letter, receives=letter.receives + 1)

    def lose(self) -> None:
        """SQS forgets every message."""
        self.letters.clear()

    def delay(self, seconds: float) -> None:
        """What is under way takes that long."""
        for letter in self.letters:
            letter.visible_at = max(letter.visible_at, self.clock.now() + seconds)

    def redrive(self) -> None:
        """Send the dead letters back to where they came from: each gets a new id and a new time of sending."""
        dead, self.dead = self.dead, []
        for letter in dead:
            self._put(letter.queue, letter.body, 0)
