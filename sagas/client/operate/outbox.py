"""The call of the supervisor that is about events."""

from __future__ import annotations

from datetime import UTC, datetime

import boto3

from sagas.client.endpoints import ServiceEndpoints
from sagas.client.operate.operator_calls import OperatorCalls
from sagas.client.operate.supervisor import Supervisor, connect_lambda
from sagas.core.text import iso
from sagas.errors import InvalidRequest, Problem, SagaError


class EventCalls(OperatorCalls):
    """The calls of :class:`sagas.client.SagaClient` that are about events."""

    _session: boto3.Session
    _endpoints: ServiceEndpoints

    def replay_events(self, since: datetime, name: str | None = None) -> int:
        """Publish the events of sagas once more, from the journals, each with the id it has.

        Args:
            since: only events from then on; with a time zone.
            name: only of sagas of this type.

        Returns:
            How many were published.

        Raises:
            InvalidRequest: the time has no time zone, or the service publishes no events.
            NotFound: there is no such type.
            SagaError: this client does not know the supervisor, the caller may not invoke it, or it failed.
        """
        if since.tzinfo is None:
            raise InvalidRequest("the time does not fit", [Problem("since", "must have a time zone")])
        return self._supervisor().replay(iso(since.astimezone(UTC).timestamp()), name)

    def _supervisor(self) -> Supervisor:
        endpoints = self._endpoints
        if not endpoints.supervisor:
            raise SagaError("this client does not know the supervisor; SagaClient.from_stack and SagaClient.local do")
        client = connect_lambda(self._session, self._transport.region, endpoints.endpoint_url)
        return Supervisor(client, endpoints.supervisor)
