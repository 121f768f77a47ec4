"""``sagas commands`` and ``sagas events``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run
from tests.unit.client.stub import StubApi


def schema_of(run: Run, what: str) -> str:
    return json.dumps(json.loads(run(what, "schema").output))


def test_schemas_are_printed(run: Run) -> None:
    assert all(name in schema_of(run, "commands") for name in ("start", "signal", "cancel", "start_on", "signal_on"))
    assert all(name in schema_of(run, "events") for name in ("SagaStarted", "SagaNeedsAttention", "StepFailed", "seq"))


def telling(path: Path) -> None:
    file = path / ".sagas" / "local.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "events_function": "the-outbox"}))


def test_replay_goes_on_to_the_end(api: StubApi, run: Run, tmp_path: Path) -> None:
    telling(tmp_path)
    api.will(200, {"told": 3, "sagas": 100, "cursor": "next"}).will(200, {"told": 1, "sagas": 7, "cursor": None})
    done = run("events", "replay", "--since", "2026-01-31T12:00:00+01:00", "--name", "trip")
    assert done.exit_code == 0, done.output
    assert done.output == "4 events told once more\n"
    first, second = (asked.body for asked in api.asked)
    assert first == {"task": "replay", "since": "2026-01-31T11:00:00.000Z", "name": "trip"}
    assert second == {**first, "cursor": "next"}
    assert "the-outbox" in api.asked[0].path


@pytest.mark.parametrize("since", ["yesterday", "2026-01-31T12:00:00", "3w", ""])
def test_a_time_that_is_none(run: Run, since: str) -> None:
    refused = run("events", "replay", "--since", since)
    assert refused.exit_code == 2
    assert "--since" in refused.output


def test_a_service_that_tells_nothing(run: Run) -> None:
    refused = run("events", "replay", "--since", "2h")
    assert refused.exit_code == 1
    assert "this service tells no events" in refused.stderr
