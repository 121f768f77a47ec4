"""Calls to the supervisor: to its function with the caller's credentials or, for one type, through the API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from sagas.client.transport import Calls, pages
from sagas.core.text import iso
from sagas.errors import InvalidRequest, NotFound, Problem, SagaError
from sagas.operations import OVERVIEW, RECOVER

if TYPE_CHECKING:
    from sagas.engine.read.overviews import OverviewView
    from sagas.engine.read.reports import RecoveryView, SweepRoundView, SweepView

_SWEEP_SECONDS = 15.0
"""Seconds per call. The next call continues the sweep, so you can interrupt a long sweep."""
_COUNTS = (
    "listed", "young", "kept", "orphans", "unreferenced", "unknown", "foreign",
    "deleted", "archived", "handled", "gone", "left", "errors",
)  # fmt: skip
_KINDS = ("orphans", "unreferenced", "unknown", "foreign", "errors")
_MOST_SAMPLES = 100
_DENIED = ("AccessDeniedException", "AccessDenied")
_RAISED: Mapping[str, type[SagaError]] = {"NotFound": NotFound, "InvalidRequest": InvalidRequest}


class SupervisorCalls(Calls):
    """The calls of :class:`sagas.client.SagaClient` that run the supervisor's tasks at once."""

    def replay_events(self, since: datetime, type: str | None = None) -> int:
        """Publish events again, from the journals. Each event has the same id as before.

        Args:
            since: only events from this time on. The time must have a time zone.
            type: only events of sagas of this type.

        Returns:
            The number of published events.

        Raises:
            InvalidRequest: the time has no time zone, or the service publishes no events.
            SagaError: the supervisor is unknown to this client, denied access, or failed.
        """
        if since.tzinfo is None:
            raise InvalidRequest("since: must have a time zone", [Problem("since", "must have a time zone")])
        event = {"task": "replay", "since": iso(since.astimezone(UTC).timestamp())}
        answers = pages(lambda cursor: self._supervise(event, type=type, cursor=cursor))
        return sum(int(answer["published"]) for answer in answers)

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
            SagaError: the supervisor is unknown to this client, denied access, or failed.
        """
        fields = {"stale_after": stale_after, "saga_id": saga_id, "limit": limit, "max_attempts": max_attempts}
        fields["dry_run"] = dry_run or None
        if type is not None:
            body = {field: value for field, value in fields.items() if value is not None}
            return self._transport.ask(RECOVER, type, body=body)
        return cast("RecoveryView", self._supervise({"task": "recover"}, **fields))

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
        total: SweepView | None = None
        event = {"task": "sweep", "now": True, "seconds": _SWEEP_SECONDS, "type": type}
        while True:
            start_after = total["start_after"] if total else ""
            swept = self._supervise(event, start_after=start_after, dry_run=dry_run, force=force).get("swept")
            if not swept:
                raise SagaError(f"the supervisor returned no report of a sweep of {type}")
            report = cast("SweepView", swept[0])
            moved = any(report[count] for count in ("listed", "deleted"))
            if total is None:
                total = report
            else:
                # Take the counts and examples of both reports, and the state of the second report.
                sums = {count: total[count] + report[count] for count in _COUNTS}
                room = _MOST_SAMPLES
                samples = cast("dict[str, list[str]]", {})
                for kind in _KINDS:
                    names = [*total["sample"].get(kind, ()), *report["sample"].get(kind, ())][:room]
                    room -= len(names)
                    if names:
                        samples[kind] = names
                both = report | sums | {"sample": samples, "stopped": total["stopped"] or report["stopped"]}
                total = cast("SweepView", both)
            if report["finished"] or report["error"] or (report["stopped"] and not report["dry_run"]):
                return total
            if not moved:
                raise SagaError(f"the supervisor had no time to sweep {type}; try again")

    def sweeps(self) -> list[SweepRoundView]:
        """Return the state of the scheduled sweeps of all saga types with ``orphans``: the current or last round with
        its counts, and the reason if it was stopped.

        Raises:
            SagaError: the supervisor is unknown to this client, denied access, or failed.
        """
        return cast("list[SweepRoundView]", self._supervise({"task": "sweeps"})["sweeps"])

    def overview(self, *, now: bool = False) -> OverviewView:
        """Return what the supervisor found in its last run: how many sagas of each type need attention, how many are in
        flight, and what is overdue, stopped by a circuit breaker, or paused. ``at`` is the time of that run.

        The answer takes few reads, so it suits polling. For the sagas that need attention, see :meth:`incidents`.

        Args:
            now: whether to have the supervisor count now. The caller must be allowed to invoke its function.

        Raises:
            SagaError: with ``now``, the supervisor is unknown to this client, denied access, or failed.
        """
        if now:
            self._supervise({"task": "overview"})
        return self._transport.ask(OVERVIEW)

    @cached_property
    def _lambda(self) -> Any:
        """A boto3 client that waits as long as the supervisor can run, and repeats no call."""
        from sagas.aws import INVOCATION

        return self._connect("lambda", INVOCATION)

    def _supervise(self, event: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Call the supervisor's function. Fields that are ``None`` are left out."""
        from botocore.exceptions import ClientError

        from sagas.aws import code_of, translated

        function = self._endpoints.supervisor
        if not function:
            raise SagaError("this client has no name of a supervisor; use SagaClient.from_stack or SagaClient.local")
        event = {**event, **{field: value for field, value in more.items() if value is not None}}
        lambda_ = self._lambda
        with translated("Lambda", quoted=True):
            try:
                response = lambda_.invoke(FunctionName=function, Payload=json.dumps(event).encode())
            except ClientError as error:
                if code_of(error) not in _DENIED:
                    raise
                details: dict[str, Any] = getattr(error, "response", {}).get("Error", {})
                needed = f"needs lambda:InvokeFunction on {function} ({details.get('Message', '')})"
                raise SagaError(f"access denied: calling the supervisor {needed}") from error
            payload: bytes = response["Payload"].read()
        try:
            answer: Any = json.loads(payload)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise SagaError(f"{function} is not a supervisor: its response is not a JSON object")
        fields = cast("dict[str, Any]", answer)
        if "FunctionError" in response:
            message = str(fields.get("errorMessage") or "no reason in its response")
            # Errors that the caller can fix have types of their own.
            kind = _RAISED.get(str(fields.get("errorType")))
            raise kind(message) if kind else SagaError(f"the supervisor failed: {message}")
        return fields
