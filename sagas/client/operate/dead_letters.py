"""The dead-letter queue of a saga type: reads its messages, has SQS move them back, and deletes stale ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from sagas.aws import translated
from sagas.client.operate.queue_walk import OnProgress, QueueWalk
from sagas.core.states import ENDED, SagaStatus
from sagas.core.text import iso
from sagas.errors import NotFound, SagaError, full_text
from sagas.messaging.message import parse_record
from sagas.paths import is_path
from sagas.spellings import HIDDEN

if TYPE_CHECKING:  # the client imports this module
    from sagas.client.client import SagaClient

_NAMES = ("action", "command", "type", "saga_id", "step")
"""The fields of a command that are no data."""
_PAYLOAD = 3
"""The index of the payload in an entry that a message carries."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message in a dead-letter queue.

    Args:
        saga: the saga type of the message; empty for a foreign message.
        saga_id: its saga.
        step: its step.
        message_id: SQS's id.
        receives: how often the message was received, by its step and by operators.
        sent_at: the time at which the message was sent, ISO 8601 in UTC.
        number: its number in its saga, and how often it was copied to wait longer; ``None`` for a foreign message.
        body: the body, with ``***`` in place of payloads. The saga's view has the payloads.
        attributes: the message attributes as text, by name.
        source: the ARN of the queue that the message came from; empty if SQS does not return it.
        reason: why no function can read the message; empty if it can be read, and its step failed.
        undo: whether the message is for the step's undo.
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
    undo: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """A dead letter that stays in the queue.

    Args:
        letter: the message.
        why: the reason that the message may be needed.
    """

    letter: DeadLetter
    why: str


@dataclass(frozen=True, slots=True)
class Pruned:
    """The outcome of pruning, or what it would be, after a dry run.

    Args:
        dry_run: whether nothing was deleted.
        stale: the messages that no saga needs.
        kept: the messages that stay in the queue.
    """

    dry_run: bool
    stale: tuple[DeadLetter, ...] = ()
    kept: tuple[Kept, ...] = ()


def why_needed(sagas: SagaClient, letter: DeadLetter) -> str:
    """Return the reason that a dead letter must stay; empty if it is stale. A dead letter in doubt must stay. A saga's
    messages have ascending numbers, and its audit trail has the number of each dead letter. A saga that continues uses
    a higher number. From then on, the dead letter and earlier messages do nothing."""
    if not letter.saga or not letter.saga_id or letter.number is None:
        return "it is not a message of a saga"
    try:
        if sagas.show(letter.saga, letter.saga_id)["status"] in ENDED:
            return ""
        # Read the trail before the saga: if the saga is then not DEAD_LETTERED, all dead letters in the trail are
        # stale.
        died: tuple[int, int] | None = None
        for entry in sagas.audit(letter.saga, letter.saga_id):
            if entry["action"] == "StepDeadLettered":
                details = entry["details"]
                # If a step's code is missing, the saga is dead-lettered without a message.
                died = (int(details["dispatch"]), int(details["hops"])) if "dispatch" in details else None
        saga = sagas.show(letter.saga, letter.saga_id)
    except NotFound:
        return "its saga does not exist"
    status = saga["status"]
    if status in ENDED:
        return ""
    if status != SagaStatus.DEAD_LETTERED:
        return "" if died is not None and letter.number <= died else f"the saga is {status}, and may need it"
    if saga["resolution"] is not None:
        return ""
    return "" if died is not None and letter.number < died else "the saga waits for an operator"


class DeadLetterQueue:
    """The dead-letter queue of one saga type, or of the command queue.

    Args:
        sqs: the client of SQS.
        url: the queue's URL.
        destination: the URL of the command queue, to which all its dead letters return. The function sends them here,
            so SQS does not know where they came from.
    """

    def __init__(self, sqs: Any, url: str, destination: str = "") -> None:
        self._sqs = sqs
        self._url = url
        self._destination = destination

    def peek(self, limit: int) -> list[DeadLetter]:
        """Return up to ``limit`` messages. They stay in the queue."""
        with QueueWalk(self._sqs, self._url) as walk:
            return [_read(message) for message in walk.messages(limit)]

    def count(self) -> int:
        """Return the approximate number of messages, including hidden ones. This hides none."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        with translated("SQS", quoted=True):
            counts = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=names)["Attributes"]
        return sum(int(counts.get(name, 0)) for name in names)

    def take(self, message_id: str) -> DeadLetter | None:
        """Find a message and delete it. Return ``None`` if it does not exist or is hidden at the moment."""
        with QueueWalk(self._sqs, self._url) as walk:
            for message in walk.messages():
                if message["MessageId"] == message_id:
                    walk.delete(message)
                    return _read(message)
        return None

    def redrive(self) -> str:
        """Have SQS move all messages back. Return the handle of its task."""
        with translated("SQS", quoted=True):
            to = {"DestinationArn": self._arn_of(self._destination)} if self._destination else {}
            return str(self._sqs.start_message_move_task(SourceArn=self._arn_of(self._url), **to)["TaskHandle"])

    def _arn_of(self, url: str) -> str:
        answer = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(answer["Attributes"]["QueueArn"])

    def prune(
        self,
        why_kept: Callable[[DeadLetter], str],
        saga_ids: Collection[str] | None,
        *,
        dry_run: bool,
        on_progress: OnProgress | None = None,
    ) -> Pruned:
        """Delete each stale message as soon as it is read."""
        stale: list[DeadLetter] = []
        staying: list[Kept] = []
        with QueueWalk(self._sqs, self._url, on_progress) as walk:
            for message in walk.messages():
                letter = _read(message)
                if saga_ids is not None and letter.saga_id not in saga_ids:
                    continue
                why = why_kept(letter)
                if why:
                    staying.append(Kept(letter, why))
                    continue
                if not dry_run:
                    walk.delete(message)
                stale.append(letter)
        return Pruned(dry_run, tuple(stale), tuple(staying))


def _without_payloads(text: str, body: Any) -> str:
    """Return a body with ``***`` in place of all payloads and of texts that may quote them, because the types that mark
    secrets are not known here."""
    fields = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    inputs = fields.get("inputs")
    commit = fields.get("commit")
    view = dict(fields)
    if isinstance(inputs, list):
        view["inputs"] = [_without_payload(entry) for entry in cast("list[Any]", inputs)]
    if isinstance(commit, dict):
        view["commit"] = _without_texts(cast("dict[str, Any]", commit))
    return text if view == fields else json.dumps(view, ensure_ascii=False, separators=(",", ":"))


def _without_payload(entry: Any) -> Any:
    """Return an entry of a message (its number, hash, salt and payload), with ``***`` in place of the payload."""
    parts = cast("list[Any]", entry) if isinstance(entry, list) else []
    if len(parts) <= _PAYLOAD or parts[_PAYLOAD] is None:
        return cast("Any", entry)
    return [*parts[:_PAYLOAD], HIDDEN]


def _without_texts(commit: dict[str, Any]) -> dict[str, Any]:
    """Return an outcome that waits in a message, with ``***`` in place of its payload and its texts."""
    view = {**commit, "payload": HIDDEN} if commit.get("payload") is not None else commit
    details: Any = commit.get("details")
    if not isinstance(details, dict):
        return view
    texts = {name: HIDDEN for name in ("message", "stack_trace") if name in details}
    error = cast("Any", details).get("error")
    failure = {"error": {**cast("dict[str, Any]", error), "message": HIDDEN}} if isinstance(error, dict) else {}
    return {**view, "details": {**cast("dict[str, Any]", details), **texts, **failure}}


def _rejected(fields: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """Return the body of a rejected command or event without its data: no type says which part of it is secret. ``own``
    are the fields of a command. Some of them are no data."""
    return json.dumps({name: value if name in _NAMES and name in own else HIDDEN for name, value in fields.items()})


def _read(message: Mapping[str, Any]) -> DeadLetter:
    """Read a message. Its saga is in the attributes, or else in the body."""
    reason = ""
    try:
        parse_record({"body": message["Body"]})
    except SagaError as error:  # functions cannot read the message, either
        reason = full_text(error)
    try:
        body: Any = json.loads(message["Body"])
    except (ValueError, RecursionError):
        body = None
    fields = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    values: Mapping[str, Mapping[str, Any]] = message.get("MessageAttributes", {})
    attributes = {name: str(value.get("StringValue", "")) for name, value in values.items()}
    # A rejected command has a reason. An event that could not be delivered has an error message.
    rejected = (attributes.get("reason") or attributes.get("ERROR_MESSAGE", "")) if reason else ""
    if rejected:
        own = {} if "source" in attributes else fields
        text = _rejected(fields, own)
        fields = {name: value for name, value in own.items() if not is_path(value)}
        fields["saga"] = attributes.get("type") or fields.get("type", "")
    else:
        text = _without_payloads(message["Body"], body)
    fields = {**fields, **attributes}
    dispatch = fields.get("dispatch")
    hops = fields.get("hops", 0)
    system: Mapping[str, str] = message.get("Attributes", {})
    return DeadLetter(
        saga=str(fields.get("saga", "")),
        saga_id=str(fields.get("saga_id", "")),
        step=str(fields.get("step", "")),
        message_id=message["MessageId"],
        receives=int(system.get("ApproximateReceiveCount", 1)),
        sent_at=iso(int(system.get("SentTimestamp", 0)) / 1000),
        number=(dispatch, hops) if type(dispatch) is int and type(hops) is int else None,
        body=text,
        attributes=attributes,
        source=str(system.get("DeadLetterQueueSourceArn", "")),
        reason=rejected or reason,
        undo=fields.get("undo") is True,
    )
