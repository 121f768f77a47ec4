"""Calls the supervisor's function to recover, to sweep, or to publish events again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import boto3
from botocore.exceptions import ClientError

from sagas.aws import INVOCATION, code_of, connect, translated
from sagas.engine.read.reports import RecoveryView, SweepRoundView, SweepView
from sagas.errors import InvalidRequest, NotFound, SagaError

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


def connect_lambda(session: boto3.Session, region: str, endpoint_url: str | None) -> Any:
    """Return a boto3 client of Lambda that waits as long as the supervisor can run, and repeats no call."""
    return connect("lambda", INVOCATION, region=region, endpoint_url=endpoint_url, session=session)


class SupervisorClient:
    """Calls the supervisor of a service.

    Args:
        client: the client from :func:`connect_lambda`.
        function: the name of the supervisor's function.
    """

    def __init__(self, client: Any, function: str) -> None:
        self._client = client
        self._function = function

    def recover(self, **options: str | float | None) -> RecoveryView:
        fields = {field: value for field, value in options.items() if value is not None}
        return cast("RecoveryView", self._call({"task": "recover", **fields}))

    def sweep(self, name: str, *, dry_run: bool, force: bool) -> SweepView:
        """Sweep a saga type completely, in as many calls as needed. Return one report for all calls."""
        total: SweepView | None = None
        event = {"task": "sweep", "now": True, "seconds": _SWEEP_SECONDS, "type": name}
        while True:
            place = {"start_after": total["start_after"] if total else "", "dry_run": dry_run, "force": force}
            swept = self._call(event | place).get("swept")
            if not swept:
                raise SagaError(f"the supervisor returned no report of a sweep of {name}")
            report = cast("SweepView", swept[0])
            moved = any(report[count] for count in ("listed", "deleted"))
            if total is None:
                total = report
            else:
                # Take the counts and examples of both reports, and the state of the second report.
                sums = {count: total[count] + report[count] for count in _COUNTS}
                room, samples = _MOST_SAMPLES, cast("dict[str, list[str]]", {})
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
                raise SagaError(f"the supervisor had no time to sweep {name}; try again")

    def sweeps(self) -> list[SweepRoundView]:
        return cast("list[SweepRoundView]", self._call({"task": "sweeps"})["sweeps"])

    def replay(self, since: str, name: str | None) -> int:
        """Publish events again, in as many calls as needed; return their number. ``since`` is ISO 8601 in UTC."""
        published, cursor = 0, None
        while True:
            fields = {"type": name, "cursor": cursor}
            options = {field: value for field, value in fields.items() if value is not None}
            answer = self._call({"task": "replay", "since": since, **options})
            published, cursor = published + int(answer["published"]), answer["cursor"]
            if cursor is None:
                return published

    def _call(self, event: Mapping[str, Any]) -> dict[str, Any]:
        with translated("Lambda", quoted=True):
            try:
                response = self._client.invoke(FunctionName=self._function, Payload=json.dumps(event).encode())
            except ClientError as error:
                if code_of(error) not in _DENIED:
                    raise
                details: dict[str, Any] = getattr(error, "response", {}).get("Error", {})
                needed = f"needs lambda:InvokeFunction on {self._function} ({details.get('Message', '')})"
                raise SagaError(f"access denied: calling the supervisor {needed}") from error
            payload: bytes = response["Payload"].read()
        try:
            answer: Any = json.loads(payload)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise SagaError(f"{self._function} is not a supervisor: its response is not a JSON object")
        fields = cast("dict[str, Any]", answer)
        if "FunctionError" in response:
            message = str(fields.get("errorMessage") or "no reason in its response")
            # Errors that the caller can fix have types of their own.
            kind = _RAISED.get(str(fields.get("errorType")))
            raise kind(message) if kind else SagaError(f"the supervisor failed: {message}")
        return fields
