"""Everything there is at one moment: tables, queues, time, how far each process is. Frozen, and cheap to compare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

from tests.faults.mailbox import VISIBILITY, Letter
from tests.interleavings.replay import Answer, Request
from tests.interleavings.texts import text_of
from tests.support.tables import StrictTables

DISTURBANCES = (
    "crash",  # a process dies
    "late",  # a process dies, the request it was making lands whenever it likes
    "lost",  # a request gets no answer, whether it took effect or not
    "repeat",  # a client sends a request twice
    "echo",  # a client sends a request twice, the first one lands whenever it likes
    "outage",  # no request to DynamoDB gets through any more, as far as one process is concerned
    "duplicate",  # a message is delivered although it was delivered before
    "loss",  # a message is forgotten
    "pause",  # time passes while processes are at something
    "visit",  # the supervisor comes before its time
    "cancel",  # a caller cancels
    "signal",  # a caller sends what a step waits for; the second time something else
    "retry",  # an operator grants another budget
    "compensate",  # an operator gives up
    "resolve",  # an operator settles it
    "purge",  # an operator has it purged once it is over, whoever is at work
    "start",  # it is started again, under the same key
    "redrive",  # an operator redrives the dead letters
    "deploy",  # the other version of the saga's code is deployed; what is under way goes on as it is
    "deletion",  # the control item of a saga that is over is deleted by hand, or lost in a restore
    "switch",  # a process is interrupted by another before it is done; as often as may be by default
)
"""What may go wrong, or be done by people."""
_Fields = tuple[str, str, str, float, float, int]


@dataclass(frozen=True, slots=True)
class Mail:
    """SQS: letters as tuples of their fields. ``sent``: how often each text was sent.

    A message's id follows from its text and how often that was sent, and letters are in order of their ids: two
    processes that send something each leave the same behind, whoever was first.
    """

    letters: tuple[_Fields, ...] = ()
    dead: tuple[_Fields, ...] = ()
    sent: tuple[tuple[str, int], ...] = ()

    def send(self, queue: str, body: str, delay: float, now: float) -> tuple[Mail, str]:
        """Put a new message into a queue; return its id, too."""
        times = dict(self.sent)
        times[body] = times.get(body, 0) + 1
        message_id = f"message-{int.from_bytes(hashlib.sha256(body.encode()).digest()[:3])}{times[body]:02}"
        letters = sorted((*self.letters, (queue, body, message_id, now + delay, now, 0)), key=itemgetter(2))
        return replace(self, letters=tuple(letters), sent=tuple(sorted(times.items()))), message_id

    def delay(self, receipt: str, until: float) -> Mail:
        """Change a received message's visibility, if the receipt is its latest."""
        return self._each(lambda one: (*one[:3], until, *one[4:]) if f"{one[2]}/{one[5]}" == receipt else one)

    def receive(self, message_id: str, now: float) -> Mail:
        """Hand a message out."""
        return self._each(lambda one: (*one[:3], now + VISIBILITY, one[4], one[5] + 1) if one[2] == message_id else one)

    def without(self, message_id: str) -> Mail:
        """Delete a message."""
        return replace(self, letters=tuple(one for one in self.letters if one[2] != message_id))

    def bury(self, message_id: str) -> Mail:
        """Move a message to the dead letters."""
        buried = tuple(one for one in self.letters if one[2] == message_id)
        return replace(self.without(message_id), dead=(*self.dead, *buried))

    def redrive(self, now: float) -> Mail:
        """Send the dead letters back to where they came from, under new ids."""
        mail = replace(self, dead=())
        for one in self.dead:
            mail, _ = mail.send(one[0], one[1], 0.0, now)
        return mail

    def _each(self, change: Callable[[_Fields], _Fields]) -> Mail:
        return replace(self, letters=tuple(map(change, self.letters)))

    @property
    def opened(self) -> list[Letter]:
        """The letters, with names for their fields."""
        return [Letter(*one) for one in self.letters]

    @property
    def buried(self) -> list[Letter]:
        """The dead letters, likewise."""
        return [Letter(*one) for one in self.dead]

    def answer(self, request: Request, now: float) -> tuple[Mail, Answer]:
        """Carry out a request to SQS."""
        asked = request.parameters
        if request.name == "delete message":
            return self.without(asked["message_id"]), Answer()
        if request.name == "ChangeMessageVisibility":
            return self.delay(asked["ReceiptHandle"], now + asked["VisibilityTimeout"]), Answer("{}")
        queue = str(asked["QueueUrl"]).rsplit("/", 1)[1]
        if request.name == "GetQueueAttributes":
            here = sum(letter.queue == queue for letter in self.opened)
            return self, Answer(json.dumps({"Attributes": {"ApproximateNumberOfMessages": str(here)}}))
        if request.name == "SendMessageBatch":
            mail = self
            for one in asked["Entries"]:
                mail, _ = mail.send(queue, one["MessageBody"], one.get("DelaySeconds", 0), now)
            return mail, Answer("{}")
        assert request.name == "SendMessage", request.name
        mail, message_id = self.send(queue, asked["MessageBody"], asked.get("DelaySeconds", 0), now)
        return mail, Answer(json.dumps({"MessageId": message_id}))


class Shelf:
    """Every content of the tables that was ever reached, each under a number; requests are answered once for each."""

    def __init__(self) -> None:
        self._contents: list[StrictTables] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._answers: dict[tuple[str, int], tuple[int, Answer]] = {}
        self._texts: dict[int, str] = {}
        self._kept: list[dict[str, Any]] = []
        self.empty = self.number(StrictTables())

    def __getitem__(self, number: int) -> StrictTables:
        return self._contents[number]

    def copy(self, number: int) -> StrictTables:
        """Return the content of that number, to be changed."""
        return StrictTables({name: dict(rows) for name, rows in self._contents[number].tables.items()})

    def answer(self, request: Request, number: int) -> tuple[int, Answer]:
        """Carry out a request on the content of that number; return what the content is then, and the answer."""
        key = (request.key, number)
        if key not in self._answers:
            tables = self.copy(number)
            try:
                answer = Answer(text_of(tables.answer(request.name, request.parameters)))
            except ClientError as error:
                answer = Answer(error=text_of(error.response))
            self._answers[key] = (self.number(tables), answer)
        return self._answers[key]

    def without(self, number: int, table: str, key: str) -> int:
        """Return what the content is without an item."""
        before = self._contents[number].tables
        return self.number(StrictTables(before | {table: {k: v for k, v in before[table].items() if k != (key,)}}))

    def number(self, tables: StrictTables) -> int:
        """Return the number of a content."""
        rows = ((name, key, item) for name, rows in tables.tables.items() for key, item in rows.items())
        content = tuple(sorted((name, str(key), self._text(item)) for name, key, item in rows))
        if content not in self._numbers:
            self._numbers[content] = len(self._contents)
            self._contents.append(tables)
        return self._numbers[content]

    def _text(self, item: dict[str, Any]) -> str:
        # Items are never changed in place, and every one is kept: its identity stands for its content.
        if id(item) not in self._texts:
            self._texts[id(item)] = text_of(item)
            self._kept.append(item)
        return self._texts[id(item)]


class Actor(NamedTuple):
    """A process under way: numbers of what it was started for and of its history."""

    process: int
    history: int


class Execution(NamedTuple):
    """User code that was begun."""

    name: str
    undo: bool
    attempt: int
    key: str
    attempt_key: str


class Snapshot(NamedTuple):
    """One moment.

    Args:
        tables: the number of their content.
        mail: the queues.
        now: epoch seconds.
        tick: when the supervisor comes next.
        actors: the processes, in no particular order.
        airborne: requests of processes that are dead, yet to land.
        budget: how often each disturbance may still happen.
        begun: what user code was begun.
        turn: the process that acted last, where that counts.
        unanswered: operations whose process died: the caller asks again.
    """

    tables: int
    mail: Mail
    now: float
    tick: float
    actors: tuple[Actor, ...]
    airborne: tuple[Request, ...]
    budget: tuple[int, ...]
    begun: frozenset[Execution]
    turn: int = -1
    unanswered: tuple[str, ...] = ()
