"""What ``sagas local`` does for who writes sagas: logs, code that is live as soon as it is saved, IAM, a clear end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from demo.workers import processes
from tests.e2e.conftest import project_in
from tests.e2e.stack import Running, launch, poll, run_sagas, start

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.embedded("it starts and ends emulators of its own"),
]

APP = "python -m infra.app"


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    """A project as `sagas init` makes it, which shares the repository's cache."""
    done = run_sagas(tmp_path, "init", "my-trips")
    assert done.returncode == 0, done.stderr
    return project_in(tmp_path / "my-trips")


@pytest.fixture
def up(trips: Path) -> Generator[Callable[..., Running]]:
    """Starts the project's stack with options; ends it."""
    started: list[Running] = []

    def starting(*options: str) -> Running:
        started.append(launch(trips, APP, *options))
        return started[-1]

    yield starting
    for running in started:
        running.stop()


def change(project: Path, name: str, old: str, new: str) -> None:
    """Edit a file as an editor does."""
    path = project / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def said(running: Running, what: str) -> str:
    """Wait until the command has said something, and return the line."""

    def line() -> str | None:
        lines = (running.project / "out.txt").read_text().splitlines()
        return next((one for one in lines if what in one), None)

    return poll(what, line, deadline=100)


def ended(running: Running) -> dict[str, Any]:
    """Start a trip, and return it when it has ended."""
    client = running.saga_client()
    saga = client.start("trip", {"order_id": "o-1", "seats": 2, "budget": 100})
    return dict(client.wait("trip", saga["saga_id"], timeout=60))


def test_an_edit_is_live_in_two_seconds_and_sagas_stay(trips: Path, up: Callable[..., Running]) -> None:
    running = up("--watch")
    assert "sagas logs ID" in said(running, "Logs")
    first = ended(running)
    change(trips, "functions/trip.py", '"charged"', '"charged anew"')
    seconds = float(said(running, "new code in").rpartition("after ")[2].removesuffix(" s"))
    assert seconds < 2
    second = ended(running)
    shown = running.sagas("logs", second["saga_id"]).stdout
    assert "charged anew" in shown
    assert "StepCompleted" in shown
    assert "charged anew" not in running.sagas("logs", first["saga_id"]).stdout
    # a syntax error leaves what was deployed
    change(trips, "functions/trip.py", "class Trip(", "class Trip((")
    assert "functions/trip.py:" in said(running, "the previous deployment keeps running")
    change(trips, "functions/trip.py", "class Trip((", "class Trip(")
    # a step more is more than code
    step = '\n\n    @step\n    def thank(self, ctx: Context) -> str:\n        return "thanks"\n'
    path = trips / "functions/trip.py"
    path.write_text(path.read_text().rstrip() + step)
    said(running, "Deployed after")
    assert [step["name"] for step in ended(running)["steps"]] == ["hold", "charge", "thank"]
    assert running.saga_client().show("trip", first["saga_id"])["status"] == "COMPLETED"


def test_a_missing_grant_is_found_where_iam_decides(trips: Path, up: Callable[..., Running]) -> None:
    running = up("--enforce-iam", "--watch")
    assert ended(running)["status"] == "COMPLETED"
    change(trips, "infra/stack.py", '"dynamodb:PutItem", ', "")
    said(running, "Deployed after")
    saga = ended(running)
    assert saga["status"] == "COMPENSATED"
    assert "AccessDenied" in str(saga["error"])


def test_a_create_that_raises_is_found_when_it_is_deployed(trips: Path) -> None:
    change(trips, "functions/trip.py", '"HOLDS_TABLE"', '"HOLDS"')
    running = start(trips, APP)
    assert running.process.wait(timeout=90) == 1
    (line,) = (trips / "err.txt").read_text().splitlines()
    assert "trip: Trip.create() raised KeyError: 'HOLDS'" in line
    assert not (trips / ".sagas" / "local.json").exists()


def test_the_end_says_what_it_waits_for(trips: Path, up: Callable[..., Running]) -> None:
    began = trips / "began"
    slow = f'open({os.fspath(began)!r}, "w").close(); __import__("time").sleep(3)\n        ctx.logger.info("charged"'
    change(trips, "functions/trip.py", 'ctx.logger.info("charged"', slow)
    running = up()
    group = running.description["pid"]
    running.saga_client().start("trip", {"order_id": "o-1", "seats": 2, "budget": 100})
    poll("the step", began.exists)
    assert running.stop(signal.SIGINT) == 0
    assert said(running, "Waiting up to 30 s for running functions: trip charge")
    assert processes(group) == []
