"""What the functions of a service logged about one saga, read from CloudWatch Logs."""

from __future__ import annotations

import json
import uuid
from typing import Any, TypedDict, cast

import boto3
from botocore.exceptions import ClientError

from sagas.aws import CALLER, code_of, connect, translated
from sagas.client.endpoints import ServiceEndpoints
from sagas.client.transport import Transport
from sagas.engine.clock import SystemClock
from sagas.errors import InvalidRequest, Problem, SagaError

_DAY = 24 * 3600.0
_MARGIN = 60.0
"""Seconds before a saga's creation by which clocks may differ."""


class LogLine(TypedDict):
    """One line.

    Keys: ``at`` in epoch seconds, ``group`` the log group, ``event_id`` the line's id there, ``message`` its text,
    ``fields`` what the text holds where it is JSON.
    """

    at: float
    group: str
    event_id: str
    message: str
    fields: dict[str, Any]


class LogCalls:
    """The part of :class:`sagas.SagaClient` that reads logs."""

    _session: boto3.Session
    _endpoints: ServiceEndpoints
    _transport: Transport

    @property
    def log_groups(self) -> list[str]:
        """Names of the log groups that the service's functions write to; none if they are not known."""
        return [*self._endpoints.log_groups]

    def logs(self, saga_id: str, since: float | None = None) -> list[LogLine]:
        """Return the lines of all functions that name a saga: the service's own, and those of ``ctx.logger``.

        Args:
            saga_id: the saga's id.
            since: epoch seconds from which on; by default since the saga was created, or for the last day where its id
                does not say when that was, as the one of a saga that was started with a key.

        Returns:
            The lines, oldest first.

        Raises:
            InvalidRequest: it is no id of a saga.
            SagaError: the caller may not read the logs, or where they are is not known.
        """
        try:
            parsed = uuid.UUID(saga_id)
        except ValueError:
            raise InvalidRequest("it is no id of a saga", [Problem("saga_id", "must be a UUID")]) from None
        if not self._endpoints.log_groups:
            raise SagaError("where the service's logs are is not known")
        if since is None:
            created = (parsed.int >> 80) / 1000 - _MARGIN
            since = created if parsed.version == 7 else SystemClock().now() - _DAY
        where = {"region": self._transport.region, "endpoint_url": self._endpoints.endpoint_url}
        client = connect("logs", CALLER, session=self._session, **where)
        found = [line for group in self._endpoints.log_groups for line in _lines(client, group, saga_id, since)]
        return sorted(found, key=lambda line: line["at"])


def _lines(client: Any, group: str, saga_id: str, since: float) -> list[LogLine]:
    pages = client.get_paginator("filter_log_events").paginate(
        logGroupName=group, filterPattern=f'"{saga_id}"', startTime=max(0, int(since * 1000))
    )
    with translated("CloudWatch Logs", quoted=True):
        try:
            events = [event for page in pages for event in page["events"]]
        except ClientError as error:
            if code_of(error) == "ResourceNotFoundException":
                return []  # a function that never ran has none on an emulator
            raise
    lines = list[LogLine]()
    for event in events:
        try:
            told: object = json.loads(event["message"])
        except ValueError:
            told = None
        lines.append(
            LogLine(
                at=event["timestamp"] / 1000,
                group=group,
                event_id=str(event.get("eventId", "")),
                message=event["message"].rstrip("\n"),
                fields=cast("dict[str, Any]", told) if isinstance(told, dict) else {},
            )
        )
    return lines
