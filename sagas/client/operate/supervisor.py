"""The supervisor, called by hand: recover now, sweep now."""

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
"""How long one call may sweep; what is left is the next call's, so that a long sweep can be interrupted."""
_COUNTS = (
    "listed", "young", "kept", "orphans", "unreferenced", "unknown", "foreign",
    "deleted", "archived", "handled", "gone", "left", "errors",
)  # fmt: skip
_KINDS = ("orphans", "unreferenced", "unknown", "foreign", "errors")
_MOST_SHOWN = 100
_DENIED = ("AccessDeniedException", "AccessDenied")
_RAISED: Mapping[str, type[SagaError]] = {"NotFound": NotFound, "InvalidRequest": InvalidRequest}


def connect_lambda(session: boto3.Session, region: str, endpoint_url: str | None) -> Any:
    """Return a boto3 client of Lambda that waits as long as the supervisor may take, and calls it once."""
    return connect("lambda", INVOCATION, region=region, endpoint_url=endpoint_url, session=session)


class Supervisor:
    """Calls the supervisor of a service.

    Args:
        client: of Lambda, as :func:`connect_lambda` makes it.
        function: name of the supervisor's function.
    """

    def __init__(self, client: Any, function: str) -> None:
        self._client = client
        self._function = function

    def recover(self, **wanted: str | float | None) -> RecoveryView:
        """Recover stalled sagas, once."""
        given = {field: value for field, value in wanted.items() if value is not None}
        return cast("RecoveryView", self._call({"task": "recover", **given}))

    def sweep(self, name: str, *, dry_run: bool, force: bool) -> SweepView:
        """Sweep one saga type to the end, in as many calls as it takes; return one report for all."""
        total: SweepView | None = None
        event = {"task": "sweep", "now": True, "seconds": _SWEEP_SECONDS, "type": name}
        while True:
            place = {"start_after": total["start_after"] if total else "", "dry_run": dry_run, "force": force}
            swept = self._call(event | place).get("swept")
            if not swept:
                raise SagaError("the supervisor swept nothing")
            report = cast("SweepView", swept[0])
            moved = any(report[count] for count in ("listed", "deleted"))
            if total is None:
                total = report
            else:
                # Counts and examples of both, and the state of the later.
                sums = {count: total[count] + report[count] for count in _COUNTS}
                left, samples = _MOST_SHOWN, cast("dict[str, list[str]]", {})
                for kind in _KINDS:
                    found = [*total["sample"].get(kind, ()), *report["sample"].get(kind, ())][:left]
                    left -= len(found)
                    if found:
                        samples[kind] = found
                both = report | sums | {"sample": samples, "stopped": total["stopped"] or report["stopped"]}
                total = cast("SweepView", both)
            if report["finished"] or report["error"] or (report["stopped"] and not report["dry_run"]):
                return total
            if not moved:
                raise SagaError("the supervisor had no time to sweep")

    def sweeps(self) -> list[SweepRoundView]:
        """Return how the sweeps by schedule stand."""
        return cast("list[SweepRoundView]", self._call({"task": "sweeps"})["sweeps"])

    def replay(self, since: str, name: str | None) -> int:
        """Publish events again, in as many calls as needed; return their number. ``since``: ISO 8601 in UTC."""
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
                called = self._client.invoke(FunctionName=self._function, Payload=json.dumps(event).encode())
            except ClientError as error:
                if code_of(error) not in _DENIED:
                    raise
                said: dict[str, Any] = getattr(error, "response", {}).get("Error", {})
                needed = f"it takes lambda:InvokeFunction on {self._function}: {said.get('Message', '')}"
                raise SagaError(f"you may not call the supervisor; {needed}") from error
            payload: bytes = called["Payload"].read()
        try:
            answer: Any = json.loads(payload)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise SagaError("the answer of the supervisor cannot be read: this is another function")
        told = cast("dict[str, Any]", answer)
        if "FunctionError" in called:
            # what the function raised, if the caller can fix it; otherwise only that it failed
            message = str(told.get("errorMessage") or "it gave no reason")
            raised = _RAISED.get(str(told.get("errorType")))
            raise raised(message) if raised else SagaError(f"the supervisor failed: {message}")
        return told
