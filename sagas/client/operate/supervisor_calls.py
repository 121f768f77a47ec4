"""The calls of the supervisor: by its function, as the caller; of one type by the API."""

from __future__ import annotations

from datetime import UTC, datetime

import boto3

from sagas.client.endpoints import ServiceEndpoints
from sagas.client.operate.supervisor import Supervisor, connect_lambda
from sagas.client.transport import Transport
from sagas.core.text import iso
from sagas.engine.read.reports import RecoveryView, SweepRoundView, SweepView
from sagas.errors import InvalidRequest, Problem, SagaError
from sagas.operations import RECOVER


class SupervisorCalls:
    """The calls of :class:`sagas.client.SagaClient` that have the supervisor do now what it does by itself."""

    _transport: Transport
    _session: boto3.Session
    _endpoints: ServiceEndpoints

    def replay_events(self, since: datetime, type: str | None = None) -> int:
        """Publish the events of sagas once more, from the journals, each with the id it has.

        Args:
            since: only events from then on; with a time zone.
            type: only of sagas of this type.

        Returns:
            How many were published.

        Raises:
            InvalidRequest: the time has no time zone, or the service publishes no events.
            NotFound: there is no such type.
            SagaError: this client does not know the supervisor, the caller may not invoke it, or it failed.
        """
        if since.tzinfo is None:
            raise InvalidRequest("the time does not fit", [Problem("since", "must have a time zone")])
        return self._supervisor().replay(iso(since.astimezone(UTC).timestamp()), type)

    def recover(
        self,
        stale_after: float | None = None,
        *,
        type: str | None = None,
        saga_id: str | None = None,
        limit: int | None = None,
        max_attempts: int | None = None,
    ) -> RecoveryView:
        """Have the supervisor look for stalled sagas now, not at its next tick.

        It takes over from dead workers and sends lost messages anew. Sagas that live are left alone. Those of one type
        are looked for by the API; those of all by the supervisor's function, which the caller must be allowed to
        invoke.

        Args:
            stale_after: seconds of silence that count as a stall; each saga type's own by default.
            type: only sagas of this type.
            saga_id: only this saga, whether the supervisor would look at it now or not.
            limit: how many at most, 1 to 1,000; 1,000 by default.
            max_attempts: only sagas that stalled less often than this since their last progress, 0 to 1,000.

        Raises:
            InvalidRequest: an argument does not fit.
            NotFound: there is no such type or saga.
            SagaError: this client does not know the supervisor, the caller may not invoke it, or it failed.
        """
        if type is not None:
            given = {"saga_id": saga_id, "stale_after": stale_after, "limit": limit, "max_attempts": max_attempts}
            body = {field: value for field, value in given.items() if value is not None}
            return self._transport.ask(RECOVER, type, body=body)
        return self._supervisor().recover(
            stale_after=stale_after, saga_id=saga_id, limit=limit, max_attempts=max_attempts
        )

    def sweep(self, type: str, *, dry_run: bool = False, force: bool = False) -> SweepView:
        """Have the supervisor sweep the S3 objects that undone sagas of a type left behind, now and to the end.

        The schedule stays as it is. See ``docs/how-to/sweep.md`` for what is touched and what never is.

        Args:
            type: the saga type.
            dry_run: look, and touch nothing.
            force: go on even where most objects are orphans.

        Returns:
            What was seen and done. It may have ``stopped`` or met an ``error``.

        Raises:
            NotFound: there is no such type, or it declares no ``orphans``.
            SagaError: this client does not know the supervisor, the caller may not invoke it, or it failed.
        """
        return self._supervisor().sweep(type, dry_run=dry_run, force=force)

    def sweeps(self) -> list[SweepRoundView]:
        """Return how the sweeps by schedule stand, of all saga types that declare ``orphans``: the round that is under
        way, or the last one, with its counts, and why it stopped, if it did.

        Raises:
            SagaError: this client does not know the supervisor, the caller may not invoke it, or it failed.
        """
        return self._supervisor().sweeps()

    def _supervisor(self) -> Supervisor:
        endpoints = self._endpoints
        if not endpoints.supervisor:
            raise SagaError("this client does not know the supervisor; SagaClient.from_stack and SagaClient.local do")
        client = connect_lambda(self._session, self._transport.region, endpoints.endpoint_url)
        return Supervisor(client, endpoints.supervisor)
