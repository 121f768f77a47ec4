"""The function that tells a service's events, called by hand: tell them once more."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import boto3

from sagas.client.endpoints import ServiceEndpoints
from sagas.client.operator_calls import OperatorCalls
from sagas.client.supervisor import Supervisor, connect_lambda
from sagas.core.times import iso
from sagas.errors import InvalidRequest, Problem, SagaError


class Outbox(Supervisor):
    """Calls the function that tells events."""

    called = "the function that tells events"

    def replay(self, since: str, name: str | None) -> int:
        """Have events told once more, in as many calls as it takes; return how many were told.

        Args:
            since: ISO 8601 in UTC.
            name: only those of sagas of this type.

        Raises:
            NotFound: there is no such type.
            Unavailable: Lambda is out of reach or throttles.
            SagaError: the caller may not invoke the function, or it failed.
        """
        told, cursor = 0, None
        while True:
            wanted = {"name": name, "cursor": cursor}
            given = {field: value for field, value in wanted.items() if value is not None}
            answer = self._call({"task": "replay", "since": since, **given})
            told, cursor = told + int(answer["told"]), answer["cursor"]
            if cursor is None:
                return told


class EventCalls(OperatorCalls):
    """The calls of :class:`sagas.client.SagaClient` that are about events."""

    _session: boto3.Session
    _endpoints: ServiceEndpoints

    def replay_events(self, since: datetime, name: str | None = None) -> int:
        """Have the events of sagas told once more, from the journals, each with the id it has.

        Args:
            since: of what was before nothing is told; with a time zone.
            name: only of sagas of this type.

        Returns:
            How many were told.

        Raises:
            InvalidRequest: the time has no time zone.
            NotFound: there is no such type.
            SagaError: the service tells none, this client does not know its function, the caller may not invoke it, or
                it failed.
        """
        if since.tzinfo is None:
            raise InvalidRequest("the time does not fit", [Problem("since", "must have a time zone")])
        function: Any = self._endpoints.events_function
        if not function:
            raise SagaError("this service tells no events, or this client does not know of it; see service.events")
        client = connect_lambda(self._session, self._transport.region, self._endpoints.endpoint_url)
        return Outbox(client, function).replay(iso(since.astimezone(UTC).timestamp()), name)
