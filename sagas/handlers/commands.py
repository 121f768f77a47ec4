"""The function of the command queue. It executes events, and commands that callers send instead of calling the API."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from functools import lru_cache
from typing import Any, cast

from msgspec import Struct

from sagas.core.ids import KEY_PATTERN, LONGEST_CORRELATION_ID
from sagas.engine.engine import Engine
from sagas.errors import Conflict, InvalidRequest, NotFound, SagaError, TooLarge, Unavailable, full_text
from sagas.handlers.invocation import records_of, warm
from sagas.handlers.telemetry import frames, telemetry, traced, tracer
from sagas.messaging.commands import (
    AnyCommand,
    Cancel,
    Received,
    Signal,
    SignalOn,
    Start,
    StartOn,
    commands_of,
    received_from,
)
from sagas.messaging.routes import backoff

GIVE_UP_AFTER = 15 * 60
"""Seconds for which a command is retried if its saga or type is unknown, because it may still appear."""
LONGEST_AGE = 14 * 24 * 3600
"""Seconds after which a command is rejected. SQS keeps messages that long, and copies must not last longer."""
_RESERVE = 10_000
"""Milliseconds that an invocation needs to start a command."""
_RECEIVES_PER_COPY = 20
"""Receives after which a copy replaces a command that cannot be executed yet. The queue gives a message up after a
hundred receives, and an outage may be long."""
_MOST_FAILURES = 10
"""If this code itself fails, a command is tried this many times, and then goes to the dead letters."""
_LONGEST_REASON = 1_000
_LONGEST_NAME = 256
_QUEUE = "queue:"


@lru_cache(maxsize=1)
def _engine() -> Engine:
    observer = telemetry()
    return Engine.from_environment(os.environ, observer, observer.plain_logger, tracer())


@traced("pubsub", "commands")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle the messages of an SQS event. Returns ``{"batchItemFailures": [...]}``: the records to retry."""
    records = records_of(event)
    commands = _Commands(_engine(), json.loads(os.environ.get("SAGAS_SOURCES", "{}")))
    failed: list[str] = []
    for record in records:
        in_time = context.get_remaining_time_in_millis() > _RESERVE
        if not in_time or not commands.done(record):
            failed.append(record["messageId"])
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


class _Commands(Struct, frozen=True):
    """Executes commands.

    Args:
        engine: the engine of the service.
        sources: the declared topics and foreign queues, by ARN.
    """

    engine: Engine
    sources: dict[str, Any]

    def done(self, record: dict[str, Any]) -> bool:
        """Handle one record; return whether it may be deleted."""
        try:
            return self._handle(record)
        except Exception as error:  # noqa: BLE001 - one bad record must not affect the others
            fields = {"message_id": record["messageId"]}
            telemetry().logger.error("command failed", error=type(error).__name__, at=frames(error), **fields)
            with suppress(SagaError, KeyError, ValueError):  # during an outage of SQS, the message returns on its own
                if _receives(record) >= _MOST_FAILURES:
                    received = received_from(record, self.sources)
                    self._bury(record, received, None, f"handling it failed: {type(error).__name__}")
                    return True
                self.engine.queues.delay_record(record, self._pause(record))
        return False

    def _handle(self, record: dict[str, Any]) -> bool:
        received = received_from(record, self.sources)
        command = None
        refusals = dict[str, None]()
        try:
            commands = commands_of(received, self.sources)
            self._check_age(record, received)
        except (InvalidRequest, Conflict) as error:
            self._bury(record, received, None, full_text(error))
            return True
        for each in commands:
            try:
                command = each
                command = each.resolved() if isinstance(each, StartOn | SignalOn) else each
                self._execute(command, received, actor_of(record, received), _correlation_of(each))
            except NotFound as error:
                if self.engine.clock.now() - _since(record, received) < GIVE_UP_AFTER:
                    return self._later(record, received, self._pause(record))
                refusals[str(error)] = None
            except (InvalidRequest, Conflict, TooLarge) as error:
                refusals[full_text(error)] = None
            except Unavailable as error:
                return self._later(record, received, max(self._pause(record), min(error.retry_after, 60.0)))
        if refusals:
            self._bury(record, received, command, "; ".join(refusals))
        return True

    def _check_age(self, record: dict[str, Any], received: Received) -> None:
        if self.engine.clock.now() - _since(record, received) > LONGEST_AGE:
            raise Conflict("the command is older than 14 days and is no longer executed")

    def _execute(
        self, command: Start | Signal | Cancel, received: Received, actor: str, correlation: str | None
    ) -> None:
        engine = self.engine
        engine.pauses.all()  # refuses the tables of another service
        match command:
            case Start():
                key = command.key or received.first_id
                engine.starter.start(command.type, command.request, key=key, actor=actor, correlation_id=correlation)
            case Signal():
                engine.signals.send(command.type, command.saga_id.lower(), command.step, command.value, actor)
            case Cancel():
                engine.operations.cancel(command.type, command.saga_id.lower(), actor, reason=command.reason)

    def _later(self, record: dict[str, Any], received: Received, seconds: float) -> bool:
        """Have the message, or a copy of it, retried later; return whether the record may be deleted."""
        if _receives(record) < _RECEIVES_PER_COPY:
            self.engine.queues.delay_record(record, seconds)
            return False
        since = f"{_since(record, received):.3f}"
        sender = actor_of(record, received)
        attributes = {**received.kept, "since": since, "sender": sender}
        self.engine.queues.send_text(os.environ["SAGAS_COMMAND_QUEUE"], received.body, attributes, seconds)
        return True

    def _bury(self, record: dict[str, Any], received: Received, command: AnyCommand | None, reason: str) -> None:
        """Send a message that will never succeed to the dead letters, as it came, with the reason. SQS itself would not
        add the reason."""
        described = {"reason": reason[:_LONGEST_REASON], "sender": actor_of(record, received)}
        if received.source in self.sources:
            described["type"] = self.sources[received.source]["type"]
        if command is not None:
            described |= {"command": str(command.__struct_config__.tag), "type": command.type}
        if isinstance(command, Signal | Cancel):
            described["saga_id"] = command.saga_id
        if isinstance(command, Signal | SignalOn):
            described["step"] = command.step
        if isinstance(command, SignalOn):
            with suppress(InvalidRequest):
                described["saga_id"] = command.target()
        described = {name: "".join(c if c.isprintable() else " " for c in text) for name, text in described.items()}
        attributes = {**received.kept, **described, "message_id": record["messageId"]}
        self.engine.queues.send_text(os.environ["SAGAS_COMMAND_DEAD_LETTERS"], received.body, attributes)
        telemetry().logger.error("command rejected", message_id=record["messageId"], sender=attributes["sender"])
        telemetry().measure("CommandRejected", 1)

    def _pause(self, record: dict[str, Any]) -> float:
        return backoff(_receives(record), self.engine.clock.chance())


def actor_of(record: dict[str, Any], received: Received) -> str:
    """Return the sender of a command for the audit trail: ``queue:`` and SQS's id of the sender. This id is a role's
    unique id with the session's name, a user's unique id, or an AWS service's id.

    Copies that this function sends name the function and the original sender. A copy of a copy names the function only
    once, so the sender's name still fits.
    """
    sender = str(record.get("attributes", {}).get("SenderId", "unknown"))[:_LONGEST_NAME]
    sender = sender if sender.isprintable() else "unknown"
    original = received.sender
    if not original.isprintable() or not original:
        return f"{_QUEUE}{sender}"
    return f"{_QUEUE}{sender} for {original.removeprefix(_QUEUE).removeprefix(f'{sender} for ')[:_LONGEST_NAME]}"


def _receives(record: dict[str, Any]) -> int:
    return int(record.get("attributes", {}).get("ApproximateReceiveCount", 1))


def _since(record: dict[str, Any], received: Received) -> float:
    """Return when the command was first sent, in epoch seconds. Copies keep this time."""
    sent_at = int(record.get("attributes", {}).get("SentTimestamp", 0)) / 1000
    with suppress(ValueError):
        first = float(received.since)
        return first if first < sent_at else sent_at
    return sent_at


def _correlation_of(command: AnyCommand) -> str | None:
    """Return the id of the event behind a command, if it can be a correlation id."""
    event: Any = command.event if isinstance(command, StartOn) else None
    event_id: Any = cast("dict[str, Any]", event).get("id") if isinstance(event, dict) else None
    fits = isinstance(event_id, str) and len(event_id) <= LONGEST_CORRELATION_ID and re.fullmatch(KEY_PATTERN, event_id)
    return event_id if fits else None


def reset() -> None:
    """Forget the engine, so the next invocation reads the environment again."""
    _engine.cache_clear()
    tracer.cache_clear()


warm(lambda: _engine().warm("starter", "operations", "signals"))
