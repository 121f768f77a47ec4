"""The supervisor's task, and the command that calls it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sagas.cli.main import app
from sagas.errors import InvalidRequest, NotFound, SagaError
from sagas.handlers.tasks.sweeping import sweep, sweeps
from sagas.store.journal.objects import ObjectPage, Objects
from tests.engine.sweeping import Gone, Look, SweepDesk, Zip
from tests.support.aws import REGION, LambdaContext
from tests.support.sagas import Trip

Run = Callable[..., Result]


# The supervisor's task


def test_the_task_sweeps_what_is_due(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Zip, Trip)
    d.orphans(1)
    answer = sweep({"task": "sweep"}, LambdaContext(), d.engine)
    (report,) = answer["swept"]
    assert (report["type"], report["listed"], report["finished"]) == ("zip", 0, False)
    assert d.work_off() == 1
    assert d.keys() == []
    assert sweep({"task": "sweep"}, LambdaContext(), d.engine) == {"swept": []}
    assert d.work_off() == 0


def test_the_task_tells_how_sweeps_stand(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Zip, Look, Trip)
    first, second = sweeps(d.engine)["sweeps"]
    assert (first["type"], first["round"], first["began_at"], first["finished_at"]) == ("zip", 0, None, None)
    assert second["type"] != "trip"
    d.orphans(3)
    sweep({"task": "sweep"}, LambdaContext(), d.engine)
    assert sweeps(d.engine)["sweeps"][0]["under_way"]
    d.work_off()
    ended = sweeps(d.engine)["sweeps"][0]
    assert (ended["round"], ended["under_way"], ended["stopped"], ended["action"]) == (1, False, "", "delete")
    assert (ended["counts"]["listed"], ended["counts"]["orphans"], ended["counts"]["deleted"]) == (3, 3, 3)
    assert ended["finished_at"] is not None
    assert d.keys() == []


def test_the_task_sweeps_what_it_is_told(desk: Callable[..., SweepDesk], caplog: pytest.LogCaptureFixture) -> None:
    d = desk(Zip, Look)
    keys = d.orphans(1)
    event = {"task": "sweep", "type": "zip", "now": True, "dry_run": True}
    (report,) = sweep(event, LambdaContext(), d.engine)["swept"]
    assert (report["orphans"], report["deleted"], report["dry_run"]) == (1, 0, True)
    assert report["sample"] == {"orphans": keys}
    with caplog.at_level(logging.INFO):
        (report,) = sweep(event | {"dry_run": False}, LambdaContext(), d.engine)["swept"]
    assert (report["type"], report["deleted"]) == ("zip", 1)
    logged = vars(caplog.records[-1])
    assert (logged["levelname"], logged["saga"], logged["deleted"]) == ("WARNING", "zip", 1)
    assert keys[0] not in str(logged)


def test_the_task_counts_what_a_person_should_see(
    desk: Callable[..., SweepDesk], capsys: pytest.CaptureFixture[str]
) -> None:
    d = desk(Zip, Gone)
    d.orphans(20)
    sweep({"task": "sweep", "dry_run": True}, LambdaContext(), d.engine)
    assert "SweepStopped" not in capsys.readouterr().out
    sweep({"task": "sweep"}, LambdaContext(), d.engine)
    d.work_off()
    out = capsys.readouterr().out
    assert "SweepStopped" in out
    assert "SweepFailed" in out


@pytest.mark.parametrize(("name", "message"), [("nothing", "no saga type 'nothing'"), ("trip", "no orphans= policy")])
def test_the_task_refuses_what_it_cannot_sweep(desk: Callable[..., SweepDesk], name: str, message: str) -> None:
    d = desk(Zip, Trip)
    with pytest.raises(NotFound, match=message):
        sweep({"task": "sweep", "type": name, "now": True}, LambdaContext(), d.engine)


@pytest.mark.parametrize(
    "wrong",
    [{"type": 1}, {"now": "yes"}, {"dry_run": 1}, {"force": []}, {"start_after": 5}, {"seconds": 0}, {"seconds": "1"}],
)
def test_the_task_refuses_what_does_not_fit(desk: Callable[..., SweepDesk], wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        sweep({"task": "sweep", **wrong}, LambdaContext(), desk().engine)
    assert [problem.path for problem in caught.value.problems] == [f"$.{next(iter(wrong))}"]


@pytest.mark.parametrize(("limit", "listed"), [({}, 4), ({"seconds": 5}, 2)])
def test_the_task_takes_no_longer_than_the_event_says(
    desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch, limit: dict[str, int], listed: int
) -> None:
    monkeypatch.setattr("sagas.store.journal.objects.PAGE", 2)
    d = desk()
    d.owned(4)
    page = Objects.page

    def take_time(self: Objects, prefix: str, start_after: str = "") -> ObjectPage:
        d.clock.advance(6)
        return page(self, prefix, start_after)

    monkeypatch.setattr(Objects, "page", take_time)
    (report,) = sweep({"task": "sweep", "now": True, **limit}, LambdaContext(900), d.engine)["swept"]
    assert (report["listed"], report["finished"]) == (listed, listed == 4)


# The command


class Lambda:
    """Lambda with one function, the supervisor of a desk."""

    def __init__(self, desk: SweepDesk) -> None:
        self._desk = desk

    def invoke(self, FunctionName: str, Payload: bytes) -> dict[str, Any]:
        """Call the function as Lambda does: what it raises is part of the answer."""
        event = json.loads(Payload)
        assert (FunctionName, event["task"]) == ("the-supervisor", "sweep")
        try:
            answer = sweep(event, LambdaContext(), self._desk.engine)
        except SagaError as error:
            raised = {"errorType": type(error).__name__, "errorMessage": str(error)}
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(json.dumps(raised).encode())}
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}


@pytest.fixture
def command(
    desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[SweepDesk, Run]]:
    """Make a desk, and ``sagas sweep`` that calls its supervisor, found as the local stack's is."""
    where = {"api_url": "http://127.0.0.1/v1", "region": REGION, "endpoint_url": None, "supervisor": "the-supervisor"}
    (tmp_path / ".sagas").mkdir()
    (tmp_path / ".sagas" / "local.json").write_text(json.dumps({**where, "queues": {}, "dead_letter_queues": {}}))
    monkeypatch.chdir(tmp_path)

    # What the function logs is not the command's. Powertools writes to what was the standard output when a logger was
    # first asked for: in a process with other tests that may be closed by now.
    for handler in logging.getLogger("test").handlers:
        monkeypatch.setattr(handler, "stream", io.StringIO())

    def make(*classes: type[Any]) -> tuple[SweepDesk, Run]:
        d = desk(*classes)

        def connect(*_: object) -> Lambda:
            return Lambda(d)

        monkeypatch.setattr("sagas.client.transport.Calls._connect", connect)
        return d, lambda *options: CliRunner().invoke(app, ["sweep", *options])

    return make


def test_the_command_shows_and_then_does(command: Callable[..., tuple[SweepDesk, Run]]) -> None:
    d, run = command()
    orphans, stranger = d.orphans(2), d.put("zips/readme.txt")
    shown = run("zip", "--dry-run")
    assert shown.exit_code == 0
    assert "zip: 3 objects under zips/ in zips" in shown.output
    assert "2  left by sagas that were undone; would be deleted" in shown.output
    assert all(key in shown.output for key in (*orphans, stranger))
    assert len(d.keys()) == 3
    done = run("zip")
    assert (done.exit_code, d.keys()) == (0, [stranger])
    assert "2 deleted" in done.output


def test_the_command_goes_on_until_the_end(
    command: Callable[..., tuple[SweepDesk, Run]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagas.store.journal.objects.PAGE", 2)
    d, run = command()
    page = Objects.page

    def take_time(self: Objects, prefix: str, start_after: str = "") -> ObjectPage:
        d.clock.advance(16)
        return page(self, prefix, start_after)

    monkeypatch.setattr(Objects, "page", take_time)
    d.owned(3)
    d.orphans(2)
    done = run("zip", "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (report["listed"], report["orphans"], report["deleted"], report["finished"]) == (5, 2, 2, True)
    assert len(d.keys()) == 3


def test_the_command_stops_and_can_be_forced(command: Callable[..., tuple[SweepDesk, Run]]) -> None:
    d, run = command()
    d.orphans(20)
    shown = run("zip", "--dry-run")
    assert (shown.exit_code, "would stop" in shown.output) == (0, True)
    stopped = run("zip")
    assert (stopped.exit_code, len(d.keys())) == (1, 20)
    assert "20 of 20 objects" in stopped.output
    assert "--force" in stopped.output
    assert run("zip", "--force").exit_code == 0
    assert d.keys() == []


@pytest.mark.parametrize(("name", "message"), [("trip", "no orphans= policy"), ("gone", "NoSuchBucket")])
def test_the_command_fails_in_one_line(command: Callable[..., tuple[SweepDesk, Run]], name: str, message: str) -> None:
    _, run = command(Zip, Gone, Trip)
    failed = run(name)
    assert failed.exit_code == 1
    assert message in failed.stderr
    assert failed.stderr.startswith("sagas: ")
    assert failed.stderr.count("\n") == 1


def test_the_command_needs_a_local_stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    failed = CliRunner().invoke(app, ["sweep", "zip"])
    assert (failed.exit_code, "no local stack" in failed.output) == (2, True)
