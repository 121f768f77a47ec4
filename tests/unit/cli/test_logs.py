"""``sagas logs`` against a stub of CloudWatch Logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run
from tests.unit.client.stub import SAGA_ID, StubApi, a_saga

LINE = {"level": "INFO", "message": "charged", "step": "charge", "saga_id": SAGA_ID, "amount": 80}
FAILED = {"level": "WARNING", "message": "StepFailed", "step": "charge", "exception": "Traceback\n  KeyError\x1b[31m"}


@pytest.fixture(autouse=True)
def one_group(api: StubApi, tmp_path: Path) -> None:
    path = tmp_path / ".sagas" / "local.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "log_groups": ["/aws/lambda/charge"]}))


def event(at: int, message: object) -> dict[str, object]:
    text = message if isinstance(message, str) else json.dumps(message)
    return {"timestamp": at, "eventId": str(at), "message": text + "\n"}


def test_lines_are_shown_oldest_first_with_what_they_say(api: StubApi, run: Run) -> None:
    api.will(200, {"events": [event(1_000, LINE), event(62_500, FAILED), event(500, "plain text")]})
    shown = run("logs", SAGA_ID)
    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == [
        "00:00:00.500 plain text",
        "00:00:01.000 INFO    charge           charged amount=80",
        "00:01:02.500 WARNING charge           StepFailed",
        "    Traceback",
        "      KeyError [31m",
    ]
    asked = api.asked[0].body
    assert asked["logGroupName"] == "/aws/lambda/charge"
    assert asked["filterPattern"] == f'"{SAGA_ID}"'
    # the id says when the saga was created: a minute earlier it looks from
    assert asked["startTime"] == (int(SAGA_ID.replace("-", "")[:12], 16)) - 60_000


def test_nothing_was_logged(api: StubApi, run: Run) -> None:
    api.will(400, {"__type": "ResourceNotFoundException", "message": "no such group"})
    assert run("logs", SAGA_ID).stdout == "No line names this saga.\n"


def test_as_json(api: StubApi, run: Run) -> None:
    api.will(200, {"events": [event(1_000, LINE)]})
    (line,) = json.loads(run("logs", SAGA_ID, "--json").stdout)["lines"]
    assert (line["at"], line["fields"]["amount"]) == (1.0, 80)


def test_what_is_no_id(api: StubApi, run: Run) -> None:
    refused = run("logs", "SAGA_ID")
    assert refused.exit_code == 2
    assert "'SAGA_ID' is not a saga id or the start of one" in " ".join(refused.stderr.replace("│", " ").split())
    assert api.asked == []


def test_by_the_start_of_an_id(api: StubApi, run: Run) -> None:
    api.will(200, a_saga()).will(200, {"events": []})
    assert run("logs", SAGA_ID[:8]).exit_code == 0
    assert api.asked[1].body["filterPattern"] == f'"{SAGA_ID}"'
