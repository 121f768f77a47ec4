"""The messages of a service's command queue: what callers would ask the API for, and events that stand for it.

Whatever else is sent to the queue, such as a notification of SNS, becomes one of these by what the service declares of
its source.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from sagas.core.characters import sendable
from sagas.core.keys import KEY_PATTERN, LONGEST_CANCEL_NOTE, LONGEST_KEY
from sagas.errors import InvalidRequest, Problem
from sagas.messaging.selectors import pick

LARGEST_COMMAND = 1024 * 1024
"""Bytes that SQS takes as one message."""
_END = r"(?!\n)"
"""What Python needs besides ``$``, which elsewhere means the very end."""
_Saga = Annotated[str, Meta(min_length=1, max_length=64, description="name of the saga type")]
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
        description="idempotency key: the same key and request start one saga; the message's id when absent",
    ),
]
_Event = Annotated[Any, Meta(description="an event, of EventBridge for one")]
_Selector = Annotated[
    Any,
    Meta(description="a path into the event, such as $.detail, or JSON that contains such paths"),
]
_Keys = Annotated[
    str | list[str],
    Meta(description="a path into the event; or several paths and texts, joined by slashes"),
]


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="command"):
    """What a message of the command queue asks for."""

    @property
    def body(self) -> str:
        """The message's body, as JSON."""
        return sendable(msgspec.json.encode(self).decode())


class Start(Command, frozen=True, tag="start"):
    """Start a saga, as ``POST /sagas/{name}`` does."""

    saga: _Saga
    request: Annotated[Any, Meta(description="what the saga type takes")]
    key: _Key | None = None


class Signal(Command, frozen=True, tag="signal"):
    """Send a signal to a saga, as ``POST /sagas/{name}/{id}/signals/{step}`` does."""

    saga: _Saga
    saga_id: _SagaId
    step: _StepName
    value: Annotated[Any, Meta(description="what the step waits for")]


class Cancel(Command, frozen=True, tag="cancel"):
    """Cancel a saga, as ``DELETE /sagas/{name}/{id}`` does."""

    saga: _Saga
    saga_id: _SagaId
    note: Annotated[str, Meta(description="why; kept in the audit trail", max_length=LONGEST_CANCEL_NOTE)] = ""


class StartOn(Command, frozen=True, tag="start_on"):
    """Start a saga for an event."""

    saga: _Saga
    event: _Event
    request: _Selector = "$.detail"
    key: _Keys = "$.id"

    def resolved(self) -> Start:
        """Return the plain command."""
        parts = [self.key] if isinstance(self.key, str) else self.key
        texts = list[str]()
        for path in parts:
            found = pick(self.event, path, "$.key")
            if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
                told = f"{path} must be a text or a whole number"
                raise InvalidRequest("the event does not fit", [Problem("$.key", told)])
            texts.append(str(found))
        return Start(self.saga, pick(self.event, self.request, "$.request"), usable_key("/".join(texts)))


class SignalOn(Command, frozen=True, tag="signal_on"):
    """Send a signal for an event."""

    saga: _Saga
    step: _StepName
    event: _Event
    saga_id: Annotated[str, Meta(description="a path into the event: where the saga's id is")] = "$.detail.saga_id"
    value: _Selector = "$.detail"

    def resolved(self) -> Signal:
        """Return the plain command."""
        found = pick(self.event, self.saga_id, "$.saga_id")
        if not isinstance(found, str) or not _UUID.fullmatch(found):
            raise InvalidRequest("the event does not fit", [Problem("$.saga_id", "must be the id of a saga, a UUID")])
        return Signal(self.saga, found, self.step, pick(self.event, self.value, "$.value"))


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
        found = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
        if found.get("Type") == "Notification":  # what SNS delivers to a queue
            declared = sources.get(str(found.get("TopicArn")))
            if declared is not None:
                return msgspec.convert({**declared, "event": _event_of_topic(found)}, AnyCommand)
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        told, _, place = str(error).partition(" - at `")
        raise InvalidRequest("the message is no command", [Problem(place.rstrip("`") or "$", told)]) from None


def usable_key(text: str) -> str:
    """Return an idempotency key for what identifies an event: the text itself, or its digest where that is no key."""
    if len(text) <= LONGEST_KEY and re.fullmatch(KEY_PATTERN, text):
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def command_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of what the command queue takes."""
    (schema,), parts = msgspec.json.schema_components([AnyCommand], ref_template="#/$defs/{name}")
    told = "A message of a service's command queue"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": told, **schema, "$defs": parts}


def _event_of_topic(notification: Mapping[str, Any]) -> dict[str, Any]:
    """A notification, in the form of EventBridge's events."""
    attributes: Any = notification.get("MessageAttributes") or {}
    return {
        "id": notification.get("MessageId"),
        "time": notification.get("Timestamp"),
        "source": notification.get("TopicArn"),
        "detail": _json_or_text(notification.get("Message")),
        "subject": notification.get("Subject"),
        "attributes": {name: one.get("Value") for name, one in attributes.items()},
    }


def _event_of_queue(record: Mapping[str, Any]) -> dict[str, Any]:
    """A message of a foreign queue, in the same form."""
    attributes: Any = record.get("messageAttributes") or {}
    return {
        "id": record.get("messageId"),
        "source": record.get("eventSourceARN"),
        "detail": _json_or_text(record.get("body")),
        "attributes": {name: one.get("stringValue") for name, one in attributes.items()},
    }


def _json_or_text(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return text
