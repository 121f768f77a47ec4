"""The messages of a service's command queue: requests as in the API, and events that cause such requests.

Other messages, such as SNS notifications, become the commands that the service declares for their source.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, cast
from urllib.parse import unquote_plus

import msgspec
from msgspec import Meta, Struct

from sagas.core.ids import KEY_PATTERN, LONGEST_CANCEL_REASON, LONGEST_KEY
from sagas.core.text import parse_json
from sagas.errors import InvalidRequest, Problem
from sagas.messaging.selectors import json_or_text, pick
from sagas.operations import CANCEL, SIGNAL, START

LARGEST_COMMAND = 1024 * 1024
"""Maximum bytes of an SQS message."""
_END = r"(?!\n)"
"""Added to patterns, because Python's ``$`` also matches before a final newline."""
_Type = Annotated[str, Meta(min_length=1, max_length=64, description="name of the saga type")]
_SagaId = Annotated[
    str,
    Meta(
        pattern="^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$" + _END,
        description="id of the saga",
    ),
]
_StepName = Annotated[str, Meta(min_length=1, max_length=255, description="name of the step that waits for the signal")]
_Key = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_KEY,
        pattern=KEY_PATTERN + _END,
        description="idempotency key, by default the message's id; one key and request start only one saga",
    ),
]
_Event = Annotated[Any, Meta(description="an event, for example from EventBridge")]
_Selector = Annotated[
    Any,
    Meta(description="a path into the event, such as $.detail, or JSON that contains such paths"),
]
_Keys = Annotated[
    str | list[str],
    Meta(description="a path into the event, or a list of paths and texts that are joined with slashes"),
]


class Command(Struct, frozen=True, forbid_unknown_fields=True, tag_field="command"):
    """A message of the command queue."""


class Start(Command, frozen=True, tag=START.name):
    """Start a saga, as ``POST /sagas/{type}`` does."""

    type: _Type
    request: Annotated[Any, Meta(description="the request of the saga")]
    key: _Key | None = None


class Signal(Command, frozen=True, tag=SIGNAL.name):
    """Send a signal to a saga, as ``POST /sagas/{type}/{saga_id}/signals/{step}`` does."""

    type: _Type
    saga_id: _SagaId
    step: _StepName
    value: Annotated[Any, Meta(description="the value that the step waits for")]


class Cancel(Command, frozen=True, tag=CANCEL.name):
    """Cancel a saga, as ``DELETE /sagas/{type}/{saga_id}`` does."""

    type: _Type
    saga_id: _SagaId
    reason: Annotated[str, Meta(description="the reason, for the audit trail", max_length=LONGEST_CANCEL_REASON)] = ""


class StartOn(Command, frozen=True, tag="start_on"):
    """Start a saga because of an event."""

    type: _Type
    event: _Event
    request: _Selector = "$.detail"
    key: _Keys = "$.id"

    def resolved(self) -> Start:
        """Return the command with the event's values in place of paths."""
        parts = [self.key] if isinstance(self.key, str) else self.key
        texts = list[str]()
        for path in parts:
            value = pick(self.event, path, "$.key")
            if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
                problem = Problem("$.key", f"{path} must be a text or a whole number")
                raise InvalidRequest("the event does not fit", [problem])
            texts.append(str(value))
        return Start(self.type, pick(self.event, self.request, "$.request"), usable_key("/".join(texts)))


class SignalOn(Command, frozen=True, tag="signal_on"):
    """Send a signal because of an event."""

    type: _Type
    step: _StepName
    event: _Event
    saga_id: Annotated[str, Meta(description="a path to the saga's id in the event")] = "$.detail.saga_id"
    value: _Selector = "$.detail"

    def resolved(self) -> Signal:
        """Return the command with the event's values in place of paths."""
        return Signal(self.type, self.target(), self.step, pick(self.event, self.value, "$.value"))

    def target(self) -> str:
        """Return the id of the saga in the event."""
        saga_id = pick(self.event, self.saga_id, "$.saga_id")
        if not isinstance(saga_id, str) or not _UUID.fullmatch(saga_id):
            raise InvalidRequest("the event does not fit", [Problem("$.saga_id", "must be the id of a saga, a UUID")])
        return saga_id


AnyCommand = Start | Signal | Cancel | StartOn | SignalOn
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DECODER = msgspec.json.Decoder(AnyCommand)


class Received(Struct, frozen=True):
    """A message of the command queue, or of a user's queue that is a source, as its sender sent it.

    Args:
        body: the text.
        first_id: the id of the message when it first came. A copy, or a dead letter that came back, has another one.
        source: the ARN of the user's queue; empty for the command queue.
        attributes: the sender's attributes of a message of a user's queue, as JSON.
        since: epoch seconds at which a copy first came, as text; empty if this is the first time.
        sender: the sender of the message that this one copies; empty if this is the first time.
    """

    body: str
    first_id: str
    source: str = ""
    attributes: str = "{}"
    since: str = ""
    sender: str = ""

    @property
    def kept(self) -> dict[str, str]:
        """The attributes from which :func:`received_from` reads the same message again, out of the command queue."""
        sent = {"source": self.source, "attributes": self.attributes} if self.source else {}
        return {"key": self.first_id, **sent}


def received_from(record: Mapping[str, Any], sources: Mapping[str, Any]) -> Received:
    """Read a record of an SQS event. Attributes in a user's queue are the sender's. Those in the command queue may be
    from a copy that the function has sent."""
    values: Mapping[str, Mapping[str, Any]] = record.get("messageAttributes") or {}
    texts = {name: value.get("stringValue") for name, value in values.items()}
    body = record.get("body", "")
    message_id = str(record["messageId"])
    arn = str(record.get("eventSourceARN", ""))
    if arn in sources:
        return Received(body, message_id, arn, json.dumps(texts))
    copied = {name: str(text or "") for name, text in texts.items()}
    return Received(
        body,
        copied.get("key") or message_id,
        copied.get("source", ""),
        copied.get("attributes") or "{}",
        copied.get("since", ""),
        copied.get("sender", ""),
    )


def commands_of(received: Received, sources: Mapping[str, Any]) -> list[AnyCommand]:
    """Return the commands that a message stands for; none if it is a test event of S3. Raises ``InvalidRequest``."""
    try:
        if received.source:
            return _declared(sources, received.source, _events_of_queue(received))
        decoded: Any = msgspec.json.decode(received.body) if sources else None
        message = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
        topic = str(message.get("TopicArn"))
        if message.get("Type") == "Notification" and topic in sources:  # the form in which SNS delivers to a queue
            return _declared(sources, topic, _events_of_topic(message))
        command = _DECODER.decode(received.body)
        parse_json(received.body)  # refuses what msgspec reads in its own way
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        text, _, place = str(error).partition(" - at `")
        raise InvalidRequest("the message is not a command", [Problem(place.rstrip("`") or "$", text)]) from None
    return [command]


def _declared(sources: Mapping[str, Any], arn: str, events: list[dict[str, Any]]) -> list[AnyCommand]:
    """Return the commands that the service declares for events of a source."""
    if arn not in sources:
        raise ValueError(f"{arn} is not a source of this service")
    return [msgspec.convert({**sources[arn], "event": event}, AnyCommand) for event in events]


def usable_key(text: str) -> str:
    """Return an idempotency key from an event's identifier: the text itself, or its digest if it is not a valid key."""
    if len(text) <= LONGEST_KEY and re.fullmatch(KEY_PATTERN, text):
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def command_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of messages in the command queue."""
    (schema,), parts = msgspec.json.schema_components([AnyCommand], ref_template="#/$defs/{name}")
    title = "A message of a service's command queue"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **schema, "$defs": parts}


def _events_of_topic(notification: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Convert an SNS notification to the form of EventBridge's events."""
    attributes: Any = notification.get("MessageAttributes") or {}
    event = {
        "id": notification.get("MessageId"),
        "time": notification.get("Timestamp"),
        "source": notification.get("TopicArn"),
        "subject": notification.get("Subject"),
        "attributes": {name: attribute.get("Value") for name, attribute in attributes.items()},
    }
    return _each(event, json_or_text(notification.get("Message")))


def _events_of_queue(received: Received) -> list[dict[str, Any]]:
    """Convert a message of a user's queue to the form of EventBridge's events."""
    event = {"id": received.first_id, "source": received.source, "attributes": json.loads(received.attributes)}
    return _each(event, json_or_text(received.body))


def _each(event: dict[str, Any], detail: Any) -> list[dict[str, Any]]:
    """Return an event for each part of its detail. They have different ids."""
    parts = _parts(detail)
    return [event | {"id": f"{event['id']}/{n}" if n else event["id"], "detail": part} for n, part in enumerate(parts)]


def _parts(detail: Any) -> list[Any]:
    """Return the parts of a detail that each stand for an event: the records of a notification of S3, with their keys
    decoded. A test event of S3 has none. SNS may have delivered the notification to the user's queue."""
    match detail:
        case {"Service": "Amazon S3", "Event": "s3:TestEvent"}:
            return []
        case {"Records": [{"eventSource": "aws:s3"}, *_] as records}:
            return [{**detail, "Records": [_with_plain_key(record)]} for record in cast("list[Any]", records)]
        case {"Type": "Notification", "TopicArn": str(), "Message": str(text)}:
            return [{**detail, "Message": part} for part in _parts(json_or_text(text))]
        case _:
            return [detail]


def _with_plain_key(record: Any) -> Any:
    """Return a record of S3 with its key as the object is named. S3 sends the key as if it were part of a form."""
    match record:
        case {"s3": {"object": {"key": str(key)} as described} as s3}:
            return {**record, "s3": {**s3, "object": {**described, "key": unquote_plus(key)}}}
        case _:
            return record
