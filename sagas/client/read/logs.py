"""The log lines of a service's functions about one saga, from CloudWatch Logs."""

from __future__ import annotations

import json
import uuid
from typing import Any, TypedDict, cast

from botocore.exceptions import ClientError

from sagas.client.transport import Calls
from sagas.engine.clock import SystemClock
from sagas.errors import InvalidRequest, Problem, SagaError

_DAY = 24 * 3600.0
_MARGIN = 60.0
"""Reading starts this many seconds before the saga's creation, because clocks differ."""


class LogLine(TypedDict):
    """A line of a log group; ``at`` is in epoch seconds. ``fields`` are those of the message if it is a JSON object."""

    at: float
    group: str
    event_id: str
    message: str
    fields: dict[str, Any]


class LogCalls(Calls):
    """The part of :class:`sagas.SagaClient` that reads logs."""

    @property
    def log_groups(self) -> list[str]:
        """The names of the log groups of the service's functions; empty if unknown."""
        return [*self._endpoints.log_groups]

    def logs(self, saga_id: str, since: float | None = None) -> list[LogLine]:
        """Return the log lines with the saga's id: lines of the library, and lines of ``ctx.logger``.

        Args:
            saga_id: the saga's id.
            since: the earliest time of a line, in epoch seconds. Default: the saga's creation, which its id contains.
                For a saga that was started with a key, the default is one day ago.

        Returns:
            The lines, oldest first.

        Raises:
            InvalidRequest: ``saga_id`` is not a saga id.
            SagaError: access to the logs is denied, or the log groups are unknown.
        """
        try:
            parsed = uuid.UUID(saga_id)
        except ValueError:
            raise InvalidRequest(f"{saga_id!r} is not a saga id", [Problem("saga_id", "must be a UUID")]) from None
        if not self._endpoints.log_groups:
            raise SagaError("this client has no names of log groups; use SagaClient.from_stack or SagaClient.local")
        if since is None:
            created = (parsed.int >> 80) / 1000 - _MARGIN
            since = created if parsed.version == 7 else SystemClock().now() - _DAY
        client = self._connect("logs")
        lines = [line for group in self._endpoints.log_groups for line in _lines(client, group, saga_id, since)]
        return sorted(lines, key=lambda line: line["at"])


def _lines(client: Any, group: str, saga_id: str, since: float) -> list[LogLine]:
    from sagas.aws import code_of, translated

    pages = client.get_paginator("filter_log_events").paginate(
        logGroupName=group, filterPattern=f'"{saga_id}"', startTime=max(0, int(since * 1000))
    )
    with translated("CloudWatch Logs", quoted=True):
        try:
            events = [event for page in pages for event in page["events"]]
        except ClientError as error:
            if code_of(error) == "ResourceNotFoundException":
                return []  # on an emulator, functions that never ran have no log group
            raise
    lines = list[LogLine]()
    for event in events:
        try:
            fields: object = json.loads(event["message"])
        except ValueError:
            fields = None
        lines.append(
            LogLine(
                at=event["timestamp"] / 1000,
                group=group,
                event_id=str(event.get("eventId", "")),
                message=event["message"].rstrip("\n"),
                fields=cast("dict[str, Any]", fields) if isinstance(fields, dict) else {},
            )
        )
    return lines
