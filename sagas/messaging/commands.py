"""The messages of a service's command queue: requests as in the API, and events that cause such requests.

Other messages, such as SNS notifications, become the commands that the service declares for their source.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from sagas.core.ids import KEY_PATTERN, LONGEST_CANCEL_REASON, LONGEST_KEY
from sagas.core.text import sendable
from sagas.errors import InvalidRequest, Problem
from sagas.messaging.selectors import pick
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


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="command"):
    """A message of the command queue."""

    @property
    def body(self) -> str:
        """The message's body, as JSON."""
        return sendable(msgspec.json.encode(self).decode())


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
        saga_id = pick(self.event, self.saga_id, "$.saga_id")
        if not isinstance(saga_id, str) or not _UUID.fullmatch(saga_id):
            raise InvalidRequest("the event does not fit", [Problem("$.saga_id", "must be the id of a saga, a UUID")])
        return Signal(self.type, saga_id, self.step, pick(self.event, self.value, "$.value"))


AnyCommand = Start | Signal | Cancel | StartOn | SignalOn
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DECODER = msgspec.json.Decoder(AnyCommand)


def parse_command(record: Mapping[str, Any], sources: Mapping[str, Any]) -> AnyCommand:
    """Read the command from a record of an SQS event."""
    text: Any = record.get("body", "")
    declared = sources.get(str(record.get("eventSourceARN", "")))
    try:
        if declared is not None:
            return msgspec.convert({**declared, "event": _event_of_queue(record)}, AnyCommand)
        decoded: Any = msgspec.json.decode(text) if sources else None
        message = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
        if message.get("Type") == "Notification":  # the form in which SNS delivers to a queue
            declared = sources.get(str(message.get("TopicArn")))
            if declared is not None:
                return msgspec.convert({**declared, "event": _event_of_topic(message)}, AnyCommand)
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        text, _, place = str(error).partition(" - at `")
        raise InvalidRequest("the message is not a command", [Problem(place.rstrip("`") or "$", text)]) from None


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


def _event_of_topic(notification: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an SNS notification to the form of EventBridge's events."""
    attributes: Any = notification.get("MessageAttributes") or {}
    return {
        "id": notification.get("MessageId"),
        "time": notification.get("Timestamp"),
        "source": notification.get("TopicArn"),
        "detail": _json_or_text(notification.get("Message")),
        "subject": notification.get("Subject"),
        "attributes": {name: attribute.get("Value") for name, attribute in attributes.items()},
    }


def _event_of_queue(record: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a message of a user's queue to the form of EventBridge's events."""
    attributes: Any = record.get("messageAttributes") or {}
    return {
        "id": record.get("messageId"),
        "source": record.get("eventSourceARN"),
        "detail": _json_or_text(record.get("body")),
        "attributes": {name: attribute.get("stringValue") for name, attribute in attributes.items()},
    }


def _json_or_text(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return text
