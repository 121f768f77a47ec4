"""A saga's dead-letter queue: looking without taking, moving messages back, and deleting those nobody needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from sagas.aws import code_of, translated
from sagas.client.operate.queue_walk import OnProgress, QueueWalk
from sagas.core.states import OVER, SagaStatus
from sagas.core.text import iso
from sagas.engine.clock import SystemClock
from sagas.errors import InvalidRequest, NotFound, SagaError
from sagas.messaging.message.message import parse_record
from sagas.messaging.message.redriving import redrive_attributes

if TYPE_CHECKING:  # the client imports this module
    from sagas.client.client import SagaClient

_HIDDEN = "***"
_PAYLOAD = 3
"""Its place in what a message carries of an entry."""
_NO_SUCH_ACTION = ("InvalidAction", "UnknownOperationException", "UnsupportedOperation", "NotImplemented")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message in a dead-letter queue.

    Args:
        saga: the saga type it belongs to; empty if the message is none of ours.
        saga_id: the saga.
        step: the step whose message it is.
        message_id: SQS's id.
        receives: how often it was received, by its step and by operators who looked at it since.
        sent_at: when it was sent, ISO 8601 in UTC.
        number: of the message within its saga, and how often it was copied to wait; ``None`` if it is none of ours.
        body: as it was sent, but for requests and results in it: those that may be shown the saga itself shows.
        attributes: of the message, by name, as text.
        source: the queue it came from, by its ARN; empty where SQS does not say.
        reason: why no function could read it; empty if it is a message of ours, whose step failed.
    """

    saga: str
    saga_id: str
    step: str
    message_id: str
    receives: int
    sent_at: str
    number: tuple[int, int] | None = None
    body: str = field(default="", compare=False)
    attributes: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    source: str = field(default="", compare=False)
    reason: str = field(default="", compare=False)


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
        why: why it may be needed.
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


def why_needed(sagas: SagaClient, letter: DeadLetter) -> str:
    """Return why a dead letter must stay; empty if nothing needs it any more. Whatever is in doubt is needed.

    A saga numbers its messages upwards and notes the number of the one that dies. Going on, by whatever means, it takes
    a higher one: from then on a message of that number or a lower one does nothing when it is received.
    """
    if not letter.saga or not letter.saga_id or letter.number is None:
        return "it is no message of a saga"
    try:
        if sagas.show(letter.saga, letter.saga_id)["status"] in OVER:
            return ""
        # The trail first: a message that it knows as dead is of the past if the saga is not DEAD_LETTERED later.
        died: tuple[int, int] | None = None
        for entry in sagas.audit(letter.saga, letter.saga_id):
            if entry["action"] == "StepDeadLettered":
                told = entry["details"]
                # a step whose code was missing died without a message
                died = (int(told["dispatch"]), int(told["hops"])) if "dispatch" in told else None
        saga = sagas.show(letter.saga, letter.saga_id)
    except NotFound:
        return "there is no such saga"
    status = saga["status"]
    if status in OVER:
        return ""
    if status != SagaStatus.DEAD_LETTERED:
        return "" if died is not None and letter.number <= died else f"the saga is {status}, and may need it"
    if saga["resolution"] is not None:
        return ""
    return "" if died is not None and letter.number < died else "the saga waits for you"


class DeadLetterQueue:
    """The dead-letter queue of one saga type.

    Args:
        sqs: a boto3 client.
        url: of the queue.
        sources: URLs of the queues it serves, by step.
        mover: tells who moves messages one by one, by ARN; empty where that is not known.
    """

    def __init__(self, sqs: Any, url: str, sources: Mapping[str, str], mover: Callable[[], str] = str) -> None:
        self._sqs = sqs
        self._url = url
        self._sources = sources
        self._mover = mover

    def peek(self, limit: int) -> list[DeadLetter]:
        """Return up to ``limit`` messages, which stay where they are."""
        with QueueWalk(self._sqs, self._url) as walk:
            return [_read(message) for message in walk.messages(limit)]

    def count(self) -> int:
        """Return about how many messages there are, those hidden included; nothing is hidden by asking."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        with translated("SQS", quoted=True):
            found = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=names)["Attributes"]
        return sum(int(found.get(name, 0)) for name in names)

    def take(self, message_id: str) -> DeadLetter | None:
        """Find a message and delete it; ``None`` if it is not there, or not to be had just now."""
        with QueueWalk(self._sqs, self._url) as walk:
            for message in walk.messages():
                if message["MessageId"] == message_id:
                    walk.delete(message)
                    return _read(message)
        return None

    def redrive(self, on_progress: OnProgress | None = None) -> Redrive:
        """Have SQS move all messages back; do so by hand where the endpoint cannot."""
        try:
            with translated("SQS", quoted=True):
                found = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
                started = self._sqs.start_message_move_task(SourceArn=found["Attributes"]["QueueArn"])
                return Redrive(task=str(started["TaskHandle"]))
        except SagaError as error:
            cause = error.__cause__
            if isinstance(cause, ClientError) and code_of(cause) in _NO_SUCH_ACTION:
                return self.move(None, on_progress)
            raise

    def move(self, saga_id: str | None, on_progress: OnProgress | None = None, reason: str = "") -> Redrive:
        """Move the messages of one saga, or all, back to their queues: as they are, and with who moves them and why.

        Each is moved as soon as it is found. What dies again meanwhile stays: a walk through a long queue would move it
        again and again.
        """
        moved: list[DeadLetter] = []
        left: list[DeadLetter] = []
        resumed, began = set[str](), iso(SystemClock().now())
        with QueueWalk(self._sqs, self._url, on_progress) as walk:
            for message in walk.messages():
                letter = _read(message)
                if saga_id not in (None, letter.saga_id):
                    continue
                if letter.saga_id in resumed and letter.sent_at > began:
                    continue  # after an attempt that it was moved for: a retry is a message of its own
                if letter.step not in self._sources:
                    left.append(letter)
                    continue
                # send first, then delete: a failure in between leaves two messages, of which the saga takes one
                attributes = redrive_attributes(message.get("MessageAttributes", {}), self._mover(), reason)
                target = self._sources[letter.step]
                with translated("SQS", quoted=True):
                    sent = self._sqs.send_message(
                        QueueUrl=target, MessageBody=message["Body"], MessageAttributes=attributes
                    )
                walk.pass_over(sent["MessageId"])
                walk.delete(message)
                moved.append(letter)
                resumed.add(letter.saga_id)
        return Redrive(None, tuple(moved), tuple(left))

    def prune(
        self,
        why_kept: Callable[[DeadLetter], str],
        saga_id: str | None,
        *,
        dry_run: bool,
        on_progress: OnProgress | None = None,
    ) -> Pruned:
        """Delete messages that nobody needs, each as soon as that is known."""
        dropped: list[DeadLetter] = []
        kept: list[Kept] = []
        with QueueWalk(self._sqs, self._url, on_progress) as walk:
            for message in walk.messages():
                letter = _read(message)
                if saga_id not in (None, letter.saga_id):
                    continue
                why = why_kept(letter)
                if why:
                    kept.append(Kept(letter, why))
                    continue
                if not dry_run:
                    walk.delete(message)
                dropped.append(letter)
        return Pruned(dry_run, tuple(dropped), tuple(kept))


def _without_payloads(text: str, body: Any) -> str:
    """Return a body with ``***`` in place of the payloads that it carries. Its reader knows no type that hides some."""
    known = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    inputs, commit = known.get("inputs"), known.get("commit")
    shown = dict(known)
    if isinstance(inputs, list):
        shown["inputs"] = [_without_payload(one) for one in cast("list[Any]", inputs)]
    if isinstance(commit, dict) and cast("dict[str, Any]", commit).get("payload") is not None:
        shown["commit"] = {**cast("dict[str, Any]", commit), "payload": _HIDDEN}
    return text if shown == known else json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def _without_payload(carried: Any) -> Any:
    """What a message carries of an entry: its number, a hash, a salt, and the payload."""
    parts = cast("list[Any]", carried) if isinstance(carried, list) else []
    if len(parts) <= _PAYLOAD or parts[_PAYLOAD] is None:
        return cast("Any", carried)
    return [*parts[:_PAYLOAD], _HIDDEN]


def _read(message: Mapping[str, Any]) -> DeadLetter:
    """Read which saga a message belongs to: from its attributes, or from its body if it was sent without."""
    reason = ""
    try:
        parse_record({"body": message["Body"]})
    except SagaError as error:  # as no function could read it
        problems = error.problems if isinstance(error, InvalidRequest) else ()
        reason = "; ".join([str(error), *(f"{one.path}: {one.message}" for one in problems)])
    try:
        body: Any = json.loads(message["Body"])
    except (ValueError, RecursionError):
        body = None
    known = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    given: Mapping[str, Mapping[str, Any]] = message.get("MessageAttributes", {})
    known = {**known, **{name: str(value.get("StringValue", "")) for name, value in given.items()}}
    dispatch, hops = known.get("dispatch"), known.get("hops", 0)
    system: Mapping[str, str] = message.get("Attributes", {})
    return DeadLetter(
        saga=str(known.get("saga", "")),
        saga_id=str(known.get("saga_id", "")),
        step=str(known.get("step", "")),
        message_id=message["MessageId"],
        receives=int(system.get("ApproximateReceiveCount", 1)),
        sent_at=iso(int(system.get("SentTimestamp", 0)) / 1000),
        number=(dispatch, hops) if type(dispatch) is int and type(hops) is int else None,
        body=_without_payloads(message["Body"], body),
        attributes={name: str(value.get("StringValue", "")) for name, value in given.items()},
        source=str(system.get("DeadLetterQueueSourceArn", "")),
        reason=reason,
    )
