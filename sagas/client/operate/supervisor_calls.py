"""Calls to the supervisor: to its function with the caller's credentials or, for one type, through the API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sagas.client.endpoints import ServiceEndpoints
from sagas.client.transport import Transport
from sagas.core.text import iso
from sagas.errors import InvalidRequest, Problem, SagaError
from sagas.operations import RECOVER

if TYPE_CHECKING:
    import boto3

    from sagas.client.operate.supervisor import SupervisorClient
    from sagas.engine.read.reports import RecoveryView, SweepRoundView, SweepView


class SupervisorCalls:
    """The calls of :class:`sagas.client.SagaClient` that run the supervisor's tasks at once."""

    _transport: Transport
    _session: boto3.Session
    _endpoints: ServiceEndpoints

    def replay_events(self, since: datetime, type: str | None = None) -> int:
        """Publish events again, from the journals. Each event has the same id as before.

        Args:
            since: only events from this time on. The time must have a time zone.
            type: only events of sagas of this type.

        Returns:
            The number of published events.

        Raises:
            InvalidRequest: the time has no time zone, or the service publishes no events.
            NotFound: the type does not exist.
            SagaError: the supervisor is unknown to this client, denied access, or failed.
        """
        if since.tzinfo is None:
            raise InvalidRequest("since: must have a time zone", [Problem("since", "must have a time zone")])
        return self._supervisor().replay(iso(since.astimezone(UTC).timestamp()), type)

    def recover(
        self,
        stale_after: float | None = None,
        *,
        type: str | None = None,
        saga_id: str | None = None,
        limit: int | None = None,
        max_attempts: int | None = None,
        dry_run: bool = False,
    ) -> RecoveryView:
        """Recover stalled sagas now, before the supervisor's next tick.

        The supervisor takes over the leases of dead workers, and resends lost messages. Other sagas do not change. With
        ``type``, the API does this. Otherwise the supervisor's function does, which the caller must be allowed to
        invoke.

        Args:
            stale_after: seconds without a response that count as a stall. Default: each saga type's own.
            type: only sagas of this type.
            saga_id: only this saga, even if the supervisor would not look at it yet.
            limit: the maximum number of sagas, 1 to 1,000. Default: 1,000.
            max_attempts: only sagas that have stalled less often than this since their last progress, 0 to 1,000.
            dry_run: recover nothing; ``due`` of the answer lists the sagas that are due.

        Raises:
            InvalidRequest: an argument is not valid.
            NotFound: the type or saga does not exist.
            SagaError: the supervisor is unknown to this client, denied access, or failed.
        """
        if type is not None:
            fields = {"saga_id": saga_id, "stale_after": stale_after, "limit": limit, "max_attempts": max_attempts}
            fields["dry_run"] = dry_run or None
            body = {field: value for field, value in fields.items() if value is not None}
            return self._transport.ask(RECOVER, type, body=body)
        return self._supervisor().recover(
            stale_after=stale_after, saga_id=saga_id, limit=limit, max_attempts=max_attempts, dry_run=dry_run or None
        )

    def sweep(self, type: str, *, dry_run: bool = False, force: bool = False) -> SweepView:
        """Sweep the S3 objects that undone sagas of a type left behind, now and completely.

        This does not change the schedule. ``docs/build/large-data.md`` says which objects a sweep handles.

        Args:
            dry_run: only report orphans, and leave all objects in place.
            force: continue even if most objects are orphans.

        Returns:
            A report. If the sweep stopped early or failed, the report has ``stopped`` or an ``error``.

        Raises:
            NotFound: the type does not exist, or has no ``orphans``.
            SagaError: the supervisor is unknown to this client, denied access, or failed.
        """
        return self._supervisor().sweep(type, dry_run=dry_run, force=force)

    def sweeps(self) -> list[SweepRoundView]:
        """Return the state of the scheduled sweeps of all saga types with ``orphans``: the current or last round with
        its counts, and the reason if it was stopped.

        Raises:
            SagaError: the supervisor is unknown to this client, denied access, or failed.
        """
        return self._supervisor().sweeps()

    def _supervisor(self) -> SupervisorClient:
        from sagas.client.operate.supervisor import SupervisorClient, connect_lambda

        endpoints = self._endpoints
        if not endpoints.supervisor:
            raise SagaError("this client has no name of a supervisor; use SagaClient.from_stack or SagaClient.local")
        client = connect_lambda(self._session, self._transport.region, endpoints.endpoint_url)
        return SupervisorClient(client, endpoints.supervisor)
