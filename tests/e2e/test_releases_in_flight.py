"""Sagas in flight do not fit a release: nothing is lost, each waits with one advice, and the old code ends them."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sagas import SagaClient
from tests.e2e.conftest import project_in
from tests.e2e.stack import Running, free_port, launch, poll, run_sagas

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.embedded("it starts and ends emulators of its own"),
]

SAGAS = 200
GOOD = '''"""A trip that waits for an approval."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sagas import Saga, step, wait_for


@dataclass(frozen=True)
class Order:
    number: int


class Trip(Saga[Order], name="trip"):
    @step
    def hold(self, request: Order) -> str:
        return f"seat {request.number}"

    @hold.compensate
    def release(self, hold: str) -> None: ...

    @wait_for(str, timeout=timedelta(hours=1))
    def ok(self) -> None: ...

    @step
    def charge(self, hold: str, ok: str) -> str:
        return f"{hold}, {ok}"
'''
BAD = GOOD.replace("def charge", "def bill")
REVISED = GOOD.replace('{hold}, {ok}"', '{hold}, {ok}, revised"')


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    """A project as `sagas init` makes it, with a saga that waits, and a short time for releases."""
    done = run_sagas(tmp_path, "init", "my-trips")
    assert done.returncode == 0, done.stderr
    project = project_in(tmp_path / "my-trips")
    (project / "functions" / "trip.py").write_text(GOOD)
    stack = project / "infra" / "stack.py"
    text = stack.read_text().replace("sagas=[Trip],", "sagas=[Trip], settle=timedelta(seconds=3),")
    assert "settle=" in text
    stack.write_text(
        text.replace("from aws_cdk import CfnOutput", "from datetime import timedelta\n\nfrom aws_cdk import CfnOutput")
    )
    return project


def _deploy(running: Running, code: str) -> None:
    """Save the code, and wait until it is deployed."""
    out = running.project / "out.txt"
    before = out.read_text().count("Deployed after")
    (running.project / "functions" / "trip.py").write_text(code)
    poll("the deployment", lambda: out.read_text().count("Deployed after") > before, deadline=150)


def _statuses(running: Running) -> Counter[str]:
    client, statuses, cursor = running.saga_client(), Counter[str](), None
    while True:
        page = client.list("trip", limit=100, cursor=cursor)
        statuses.update(saga["status"] for saga in page["sagas"])
        cursor = page["cursor"]
        if cursor is None:
            return statuses


def test_a_release_that_does_not_fit_loses_nothing(trips: Path) -> None:
    running = launch(trips, "python -m infra.app", "--watch")
    try:
        client = running.saga_client()

        def start(number: int) -> str:
            saga: dict[str, Any] = dict(client.start("trip", {"number": number}))
            return str(saga["saga_id"])

        with ThreadPoolExecutor(8) as pool:
            waiting = [*pool.map(start, range(SAGAS // 2))]
            poll("the waits", lambda: _statuses(running)["WAITING"] == SAGAS // 2, deadline=200)
            client.pause("trip", step="hold")
            held = [*pool.map(start, range(SAGAS // 2, SAGAS))]
        (trips / "functions" / "next.py").write_text(BAD)
        checked = run_sagas(trips, "check", "functions.next:Trip", "--local")
        (trips / "functions" / "next.py").unlink()
        assert checked.returncode == 1
        assert 'before step "charge"' in checked.stdout or "charge" in checked.stdout
        assert "STOPS trip" in checked.stdout

        _deploy(running, BAD)
        client.resume("trip", step="hold")
        for number, saga_id in enumerate(waiting):
            client.signal("trip", saga_id, "ok", f"yes {number}")
        poll("the others' waits", lambda: _statuses(running)["WAITING"] == SAGAS // 2, deadline=200)
        for number, saga_id in enumerate(held, SAGAS // 2):
            client.signal("trip", saga_id, "ok", f"yes {number}")
        poll("the operator's list", lambda: _statuses(running)["DEAD_LETTERED"] == SAGAS, deadline=300)
        shown = client.show("trip", waiting[0])
        assert (shown["error"] or {})["type"] == "CodeGone"
        assert [each["status"] for each in shown["steps"]] == ["COMPLETED", "COMPLETED", "FAILED"]
        assert "Deploy the code of step charge again" in running.sagas("show", waiting[0]).stdout

        _deploy(running, GOOD)
        retried = running.sagas(
            "retry", "trip", "--all", "--error", "CodeGone", "--reason", "the code is back", "--yes"
        )
        assert retried.returncode == 0, retried.stdout + retried.stderr
        poll("their ends", lambda: _statuses(running)["COMPLETED"] == SAGAS, deadline=300)
        results = {client.show("trip", saga_id)["result"] for saga_id in (*waiting, *held)}
        assert results == {f"seat {number}, yes {number}" for number in range(SAGAS)}
    finally:
        running.stop()


def test_a_release_is_rehearsed_on_a_detached_stack(trips: Path) -> None:
    """``tests/unit/local/test_deploy_again.py`` fails first."""
    up = ["local", "up", "--app", "python -m infra.app"]
    try:
        first = run_sagas(trips, *up, "--port", str(free_port()), "--detach", deadline=200)
        assert first.returncode == 0, first.stderr
        before = (trips / ".sagas" / "local.json").read_text()
        client = SagaClient.local(trips)
        saga_id = client.start("trip", {"number": 7})["saga_id"]
        poll("the wait", lambda: _waits(client, saga_id), deadline=60)
        for code, said in ((BAD, "trip: 1 saga in flight does not fit this code"), (REVISED, "Stop it with")):
            (trips / "functions" / "trip.py").write_text(code)
            again = run_sagas(trips, *up, deadline=200)
            assert (again.returncode, again.stderr) == (0, "")
            assert said in again.stdout
        assert (trips / ".sagas" / "local.json").read_text() == before
        client.signal("trip", saga_id, "ok", "yes")
        assert client.result("trip", saga_id, timeout=60) == "seat 7, yes, revised"
    finally:
        run_sagas(trips, "local", "down")


def _waits(client: SagaClient, saga_id: str) -> bool:
    return client.show("trip", saga_id)["status"] == "WAITING"
