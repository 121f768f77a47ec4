"""``sagas commands`` and ``sagas events``."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import Run
from tests.unit.client.stub import StubApi


def schema_of(run: Run, what: str) -> str:
    return json.dumps(json.loads(run(what, "schema").output))


def test_schemas_are_printed(run: Run) -> None:
    assert all(name in schema_of(run, "commands") for name in ("start", "signal", "cancel", "start_on", "signal_on"))
    assert all(name in schema_of(run, "events") for name in ("SagaStarted", "SagaNeedsAttention", "StepFailed", "seq"))


def test_replay_goes_on_to_the_end(api: StubApi, run: Run) -> None:
    api.will(200, {"published": 3, "sagas": 100, "cursor": "next"}).will(
        200, {"published": 1, "sagas": 7, "cursor": None}
    )
    done = run("events", "replay", "--since", "2026-01-31T12:00:00+01:00", "trip")
    assert done.exit_code == 0, done.output
    assert done.output == "Published 4 events again\n"
    first, second = (asked.body for asked in api.asked)
    assert first == {"task": "replay", "since": "2026-01-31T11:00:00.000Z", "type": "trip"}
    assert second == {**first, "cursor": "next"}
    assert "the-supervisor" in api.asked[0].path


@pytest.mark.parametrize("since", ["yesterday", "2026-01-31T12:00:00", "3w", ""])
def test_a_time_that_is_none(run: Run, since: str) -> None:
    refused = run("events", "replay", "--since", since)
    assert refused.exit_code == 2
    assert "--since" in refused.output


def test_a_service_that_publishes_nothing(api: StubApi, run: Run) -> None:
    raised = {"errorType": "InvalidRequest", "errorMessage": "this service publishes no events"}
    api.will(200, raised, {"X-Amz-Function-Error": "Unhandled"})
    refused = run("events", "replay", "--since", "2h")
    assert refused.exit_code != 0
    assert "this service publishes no events" in refused.stderr
