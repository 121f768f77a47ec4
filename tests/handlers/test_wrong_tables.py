"""Functions whose tables belong to another service: each says so, and does nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sagas.errors import WrongTables
from sagas.handlers import api, commands, supervisor
from sagas.operations import OPERATIONS, Operation
from tests.handlers.conftest import Answer, Make, Site, load, request
from tests.handlers.test_metrics import Capture, of_service
from tests.support.aws import LambdaContext
from tests.support.sagas import LOG, Trip

TEXT = "the tables belong to service 'test', not to this service, 'other'"
PROBLEM = "the tables belong to another service"


@pytest.fixture
def foreign(site: Make, monkeypatch: pytest.MonkeyPatch) -> tuple[Site, str]:
    """A site whose functions have another service's id, and a saga of the service that the tables belong to."""
    s = site(Trip)
    saga_id = s.begin("trip")
    monkeypatch.setenv("SAGAS_SERVICE", "other")
    for function in (api, commands, supervisor):
        function.reset()
    return s, saga_id


def path_of(operation: Operation, saga_id: str) -> str:
    values = {"type": "trip", "id": saga_id, "saga_id": saga_id, "step": "book"}
    path = operation.path
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    return path


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_no_operation_of_the_api_is_served(foreign: tuple[Site, str], operation: Operation, capsys: Capture) -> None:
    s, saga_id = foreign
    before = s.tables(), s.waiting()
    body = {"item": "train"} if operation.method in ("POST", "PUT", "PATCH") else None
    event = request(operation.method, path_of(operation, saga_id), body)
    answer = Answer(api.handler(event, LambdaContext()))
    assert (answer.status, answer.code) == (503, "unavailable")
    assert answer.body["error"]["message"].startswith(TEXT)
    assert "by service_id='test'" in answer.body["error"]["message"]
    assert (s.tables(), s.waiting()) == before
    assert of_service(capsys) == {"ServiceProblem": 1, "WrongTables": 1}


def test_a_tick_of_the_supervisor_does_nothing(
    foreign: tuple[Site, str], capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    s, _ = foreign
    s.lose_messages()
    s.clock.advance(3_600)
    before = s.tables()
    assert supervisor.handler(load("schedule_tick"), LambdaContext()) == {}
    assert (s.tables(), s.waiting(), s.stack.receive_from(s.stack.work)) == (before, 0, [])
    assert of_service(capsys) == {"ServiceProblem": 1, "WrongTables": 1}
    (line,) = [vars(record) for record in caplog.records if "problem" in vars(record)]
    assert line["problem"] == PROBLEM
    assert line["reason"].startswith(TEXT)


@pytest.mark.parametrize(
    "event",
    [
        {"task": "recover"},
        {"task": "recover", "queue": True},
        {"task": "purge"},
        {"task": "sweep"},
        {"task": "sweeps"},
        {"task": "verify", "sample": 10},
        {"task": "replay", "since": "2026-01-01T00:00:00Z"},
    ],
    ids=str,
)
def test_a_task_on_request_is_refused(foreign: tuple[Site, str], event: dict[str, Any]) -> None:
    s, _ = foreign
    s.clock.advance(3_600)
    before = s.tables()
    with pytest.raises(WrongTables, match=TEXT):
        supervisor.handler(event, LambdaContext())
    assert s.tables() == before


@pytest.mark.parametrize("kind", ["start", "signal", "cancel"])
def test_a_command_waits_until_the_tables_are_right(foreign: tuple[Site, str], kind: str) -> None:
    s, saga_id = foreign
    fields: dict[str, Any] = {
        "start": {"request": {"item": "train"}, "key": "order-1"},
        "signal": {"saga_id": saga_id, "step": "book", "value": 1},
        "cancel": {"saga_id": saga_id},
    }[kind]
    s.stack.sqs.send_message(
        QueueUrl=s.stack.commands, MessageBody=json.dumps({"command": kind, "type": "trip", **fields})
    )
    records = s.stack.receive_from(s.stack.commands)
    before = s.tables()
    failed = commands.handler({"Records": records}, LambdaContext())["batchItemFailures"]
    assert [one["itemIdentifier"] for one in failed] == [records[0]["messageId"]]
    assert s.tables() == before
    assert s.stack.receive_from(s.stack.command_letters) == []


def test_the_service_that_has_the_tables_goes_on(foreign: tuple[Site, str], monkeypatch: pytest.MonkeyPatch) -> None:
    s, saga_id = foreign
    supervisor.handler(load("schedule_tick"), LambdaContext())
    monkeypatch.setenv("SAGAS_SERVICE", s.stack.prefix)
    api.reset()
    s.run()
    assert s.call("GET", f"/sagas/trip/{saga_id}").body["status"] == "COMPLETED"
    assert LOG[:2] == ["book:1", "pay:1"]
