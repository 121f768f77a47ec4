"""Long dead-letter queues: each letter is looked at once, the walk ends, and little of it is in memory."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any
from weakref import ref

import pytest

from sagas.client.operate.dead_letters import DeadLetter, DeadLetterQueue
from sagas.client.operate.queue_walk import QueueWalk
from sagas.errors import SagaError, Unavailable

RECEIVE = 0.05
"""Seconds a receive takes."""
SAGAS = [f"{number:08}-0000-7000-8000-000000000000" for number in range(5_000)]


def body_of(saga_id: str) -> str:
    """A message's body."""
    place = {"saga": "zip", "saga_id": saga_id, "step": "upload", "index": 1, "undo": False}
    return json.dumps(place | {"dispatch": 3, "hops": 0})


class Message(dict[str, Any]):
    """One as it is received; unlike a plain dictionary, it can be watched while it lives."""


@dataclass
class LongQueue:
    """SQS's part, in a time of its own: in the order of sending, but for what was received three times, which goes to
    the end. With ``stubborn`` it does not, and what comes back comes first."""

    size: int
    stubborn: bool = False
    now: float = 0.0
    receives: int = 0
    most_alive: int = 0
    most_hidden: int = 0
    deleted: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        self.alive: list[ref[Message]] = []
        self.waiting = deque(range(self.size))
        self.hidden: dict[int, float] = {}
        self.coming_back = list[tuple[float, int]]()  # a heap; what is not hidden until then any more is passed over
        self.counts = [14] * self.size  # so often its step received it

    def receive_message(self, **asked: Any) -> dict[str, Any]:
        self.now += RECEIVE
        self.receives += 1
        self.alive = [seen for seen in self.alive if seen() is not None]
        self.most_alive = max(self.most_alive, len(self.alive))
        back = set[int]()
        while self.coming_back and self.coming_back[0][0] <= self.now:
            until, number = heappop(self.coming_back)
            back |= {number} if self.hidden.get(number) == until else set()
        self._show(sorted(back))
        page: list[Message] = []
        while self.waiting and len(page) < asked["MaxNumberOfMessages"]:
            number = self.waiting.popleft()
            self.hidden[number] = self.now + asked["VisibilityTimeout"]
            heappush(self.coming_back, (self.hidden[number], number))
            self.counts[number] += 1
            page.append(self._message(number))
        self.most_hidden = max(self.most_hidden, len(self.hidden))
        self.alive += map(ref, page)
        return {"Messages": page} if page else {}

    def _message(self, number: int) -> Message:
        receipt = f"{number}/{self.counts[number]}"
        return Message(MessageId=f"m-{number}", ReceiptHandle=receipt, Body=body_of(SAGAS[number]))

    def _show(self, numbers: list[int]) -> None:
        for number in numbers:
            del self.hidden[number]
        first = {number: self.stubborn or self.counts[number] < 3 for number in numbers}
        self.waiting.extendleft(number for number in reversed(numbers) if first[number])
        self.waiting.extend(number for number in numbers if not first[number])

    def _held(self, receipt: str) -> int:
        number, count = map(int, receipt.split("/"))
        assert self.counts[number] == count, "the receipt is an old one"
        return number

    def delete_message(self, *, QueueUrl: str, ReceiptHandle: str) -> None:
        number = self._held(ReceiptHandle)
        del self.hidden[number]
        self.deleted.add(number)

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> None:
        held = [self._held(entry["ReceiptHandle"]) for entry in Entries]
        self._show([number for number in held if number in self.hidden])

    def visible(self) -> int:
        return len(self.waiting) + sum(until <= self.now for until in self.hidden.values())


@pytest.fixture
def pace(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have walks go by the time of a queue."""

    def go_by(queue: LongQueue) -> LongQueue:
        def at(walk: QueueWalk, *arguments: Any) -> None:
            original(walk, *arguments, clock=lambda: queue.now)

        monkeypatch.setattr(QueueWalk, "__init__", at)
        return queue

    original = QueueWalk.__init__
    return go_by


@pytest.mark.parametrize("stubborn", [False, True])
def test_each_of_5_000_letters_is_looked_at_once_and_the_kept_are_visible_again(pace: Any, stubborn: bool) -> None:
    """At five letters a second the first are back long before the last was seen."""
    queue, looked, told = pace(LongQueue(5_000, stubborn)), list[str](), list[int]()

    def why(letter: DeadLetter) -> str:
        queue.now += 0.2
        looked.append(letter.saga_id)
        return "it waits" if int(letter.saga_id[:8]) % 2 else ""

    done = DeadLetterQueue(queue, "dead").prune(why, None, dry_run=False, on_progress=told.append)
    assert len(looked) == len(set(looked)) == 5_000
    assert (len(done.stale), len(done.kept)) == (2_500, 2_500)
    assert queue.deleted == set(range(0, 5_000, 2))
    assert queue.visible() == 2_500
    assert queue.receives < 3 * 5_000 / 10
    assert queue.most_alive <= 20
    assert told == sorted(told)
    assert told[-1] == 5_000


def test_more_than_may_be_held_are_given_back_on_the_way(pace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.client.operate.queue_walk.MOST_HELD", 500)
    queue = pace(LongQueue(5_000))
    done = DeadLetterQueue(queue, "dead").prune(lambda _: "it waits", None, dry_run=True)
    assert len({kept.letter.message_id for kept in done.kept}) == len(done.kept) == 5_000
    assert queue.most_hidden <= 510
    assert queue.visible() == 5_000


def test_a_walk_ends_though_the_queue_only_ever_shows_the_same(pace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.client.operate.queue_walk.MOST_HELD", 50)
    queue = pace(LongQueue(2_000, stubborn=True))
    done = DeadLetterQueue(queue, "dead").prune(lambda _: "it waits", None, dry_run=True)
    assert len(done.kept) == 60
    assert queue.visible() == 2_000


def test_one_letter_is_found_anywhere_and_those_passed_are_visible_again(pace: Any) -> None:
    queue = pace(LongQueue(5_000))
    taken = DeadLetterQueue(queue, "dead").take("m-4999")
    assert taken is not None
    assert taken.saga_id == SAGAS[4_999]
    assert queue.deleted == {4_999}
    assert queue.visible() == 4_999


def test_those_of_a_page_that_were_not_looked_at_are_given_back_on_an_error(pace: Any) -> None:
    queue = pace(LongQueue(300))
    count = 0

    def unreadable(_: DeadLetter) -> str:
        nonlocal count
        count += 1
        if count == 25:
            raise Unavailable("out of reach")
        return "it waits"

    with pytest.raises(SagaError):
        DeadLetterQueue(queue, "dead").prune(unreadable, None, dry_run=False)
    assert queue.visible() == 300


def test_sixty_on_moto(sqs: Any) -> None:
    """Not more: what moto takes for a receive grows with the messages that are hidden."""
    url = sqs.create_queue(QueueName="dead")["QueueUrl"]
    for begin in range(0, 60, 10):
        entries = [{"Id": str(i), "MessageBody": body_of(SAGAS[begin + i])} for i in range(10)]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
    queue = DeadLetterQueue(sqs, url)
    done = queue.prune(lambda letter: "" if letter.saga_id < SAGAS[40] else "it waits", None, dry_run=False)
    assert (len(done.stale), len(done.kept)) == (40, 20)
    assert {letter.saga_id for letter in queue.peek(1_000)} == set(SAGAS[40:60])
