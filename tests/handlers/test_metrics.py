"""What functions count: few metrics, by saga type or service, each when there is something to see."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import pytest

from sagas.core.events import LOST, CompensationAttemptFailed, Failure, StepFailed, StepLost
from sagas.core.text import epoch
from sagas.errors import FORMAT
from sagas.handlers import supervisor
from sagas.handlers.telemetry import telemetry
from sagas.store.control.control import ControlItems
from tests.engine.outages import Refusals
from tests.handlers.conftest import Make, Site, ended
from tests.support.aws import LambdaContext
from tests.support.sagas import FAIL, Fatal, Held, Stubborn, Trip

Capture = pytest.CaptureFixture[str]
LONG_AGO = "2026-01-01T00:00:00.000Z"


def written(capture: Capture) -> list[dict[str, Any]]:
    """The metrics in the log since it was looked at last, with their dimensions and values."""
    lines = [json.loads(line) for line in capture.readouterr().out.splitlines()]
    return [line for line in lines if "_aws" in line]


def counts(capture: Capture) -> Counter[tuple[str, str]]:
    """How often each metric of a saga type was counted."""
    found: Counter[tuple[str, str]] = Counter()
    for line in written(capture):
        (about,) = line["_aws"]["CloudWatchMetrics"]
        assert about["Namespace"] == "Sagas"
        if "saga" in line:
            assert [sorted(names) for names in about["Dimensions"]] == [["saga", "service"]]
            found.update((metric["Name"], line["saga"]) for metric in about["Metrics"])
    return found


def test_each_repeated_attempt(site: Make, capsys: Capture) -> None:
    FAIL.update(pay=2)
    s = site(Trip)
    s.begin("trip")
    s.run()
    assert counts(capsys) == {("StepRetried", "trip"): 2, ("SagaCompleted", "trip"): 1, ("SagaDuration", "trip"): 1}


def test_each_repeated_attempt_of_an_undo(site: Make, capsys: Capture) -> None:
    FAIL.update(tell=RuntimeError("no"), unbook=1)
    s = site(Trip)
    s.begin("trip")
    s.run()
    found = counts(capsys)
    assert found == {("StepRetried", "trip"): 3, ("SagaCompensated", "trip"): 1, ("SagaDuration", "trip"): 1}


def test_how_long_a_saga_took_in_milliseconds(site: Make, capsys: Capture) -> None:
    FAIL.update(pay=1)
    s, saga_id = ended(site)
    saga = s.call("GET", f"/sagas/trip/{saga_id}").body
    (line,) = [line for line in written(capsys) if "SagaDuration" in line]
    assert line["SagaDuration"] == [round((epoch(saga["updated_at"]) - epoch(saga["created_at"])) * 1000)]
    (about,) = line["_aws"]["CloudWatchMetrics"]
    assert {metric["Name"]: metric["Unit"] for metric in about["Metrics"]}["SagaDuration"] == "Milliseconds"


def test_an_undo_that_failed_for_good_is_an_error_in_the_log(site: Make, caplog: pytest.LogCaptureFixture) -> None:
    FAIL.update(tell=RuntimeError("secret"), unbook=RuntimeError("secret"))
    _, saga_id = ended(site)
    (error,) = [vars(record) for record in caplog.records if record.levelname == "ERROR"]
    assert (error["msg"], error["saga_id"], error["step"]) == ("CompensationFailed", saga_id, "book")
    assert "secret" not in str([vars(record) for record in caplog.records])


def test_a_failed_attempt_says_which_of_how_many_and_when_the_next_is_due(
    site: Make, caplog: pytest.LogCaptureFixture
) -> None:
    FAIL.update(pay=RuntimeError("no"))
    s = site(Trip)
    s.begin("trip")
    s.run()
    failed = [record for record in caplog.records if "failed: RuntimeError" in record.message]
    assert [record.message.partition(";")[0] for record in failed] == [
        f"attempt {n} of 3 of step pay failed: RuntimeError" for n in (1, 2, 3)
    ]
    assert ["; next attempt in " in record.message for record in failed] == [True, True, False]
    lines = [vars(record) for record in failed]
    assert {line["levelname"] for line in lines} == {"WARNING"}
    assert [(line["step"], line["attempt"], line["of"]) for line in lines] == [("pay", n, 3) for n in (1, 2, 3)]
    assert ["delay" in line for line in lines] == [True, True, False]
    assert all(0 <= line.get("delay", 0) <= 60 for line in lines)


@pytest.mark.parametrize(
    ("saga", "trouble", "end"),
    [
        (Stubborn, {"second": RuntimeError("no")}, "SagaDeadLettered"),
        (Fatal, {"second": RuntimeError("no")}, "SagaFailed"),
        (Trip, {"tell": RuntimeError("no"), "unbook": RuntimeError("no")}, "SagaCompensationFailed"),
    ],
)
def test_what_needs_an_operator_is_counted_once_and_is_an_error_in_the_log(
    site: Make,
    capsys: Capture,
    caplog: pytest.LogCaptureFixture,
    saga: type[Any],
    trouble: dict[str, BaseException],
    end: str,
) -> None:
    FAIL.update(trouble)
    s, name = site(saga), str(saga.__name__).lower()
    s.begin(name)
    s.run()
    found = counts(capsys)
    assert (found["SagaNeedsAttention", name], found[end, name]) == (1, 1)
    assert ("Failing", name) not in found
    assert [record.levelname for record in caplog.records].count("ERROR") == 1


def test_a_saga_that_needs_a_person_again(site: Make, capsys: Capture) -> None:
    FAIL.update(second=RuntimeError("no"))
    s = site(Stubborn)
    saga = s.begin("stubborn")
    s.run()
    assert counts(capsys)["SagaNeedsAttention", "stubborn"] == 1
    assert s.call("POST", f"/sagas/stubborn/{saga}/retry").status == 202
    s.run()
    assert counts(capsys)["SagaNeedsAttention", "stubborn"] == 1


def test_a_breaker_that_opens(site: Make, capsys: Capture) -> None:
    s = site(Held)
    s.begin("held")
    s.invoke("held", "call")
    assert counts(capsys)["BreakerOpened", "held"] == 1


def overdue(s: Site, saga_id: str) -> None:
    """Make a saga one that should have been looked after long ago."""
    s.stack.dynamodb.update_item(
        TableName=s.stack.sagas_table,
        Key={"saga_id": {"S": saga_id}},
        UpdateExpression="SET due = :due",
        ExpressionAttributeValues={":due": {"S": LONG_AGO}},
    )


def of_service(capture: Capture) -> dict[str, Any]:
    """The metrics of the service as a whole, by name."""
    lines = [line for line in written(capture) if "saga" not in line]
    for line in lines:
        assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service"]]
    return {m["Name"]: line[m["Name"]][0] for line in lines for m in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]}


def recover() -> dict[str, Any]:
    supervisor.reset()
    return supervisor.handler({"task": "recover"}, LambdaContext())


def test_how_long_the_oldest_due_saga_has_waited(site: Make, capsys: Capture) -> None:
    s = site(Trip)
    saga = s.begin("trip")
    recover()
    assert of_service(capsys) == {}
    overdue(s, saga)
    recover()
    lines = written(capsys)
    by_type = {line.get("saga"): line["OldestOverdueSaga"][0] for line in lines if "OldestOverdueSaga" in line}
    assert set(by_type) == {None, "trip"}
    assert min(by_type.values()) > 24 * 3600


def test_an_overdue_saga_is_a_problem_of_the_service_after_a_quarter_of_an_hour(
    site: Make, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    s = site(Trip)
    s.begin("trip")
    s.lose_messages()
    for seconds, problems in ((600, 0), (900, 1)):
        s.clock.advance(seconds)
        supervisor.reset()
        supervisor.handler({"task": "recover", "queue": True}, LambdaContext())
        assert of_service(capsys).get("ServiceProblem", 0) == problems
    told = [vars(record)["problem"] for record in caplog.records if "problem" in vars(record)]
    assert told == ["a stalled saga waits for its recovery"]


def test_a_message_that_nothing_receives_is_a_problem_and_one_that_is_held_back_is_none(
    site: Make, capsys: Capture
) -> None:
    s = site(Trip)
    s.begin("trip")
    for seconds, problems in ((600, 0), (3_600, 1)):
        s.clock.advance(seconds)
        assert recover()["recovered"] == 0
        assert of_service(capsys).get("ServiceProblem", 0) == problems


def test_an_attempt_that_died_with_its_function_counts_as_failing(site: Make, capsys: Capture) -> None:
    s = site(Trip)
    state = s.state(s.begin("trip"))
    telemetry().committed(state, state, StepLost(0, 1))
    telemetry().committed(state, state, CompensationAttemptFailed(0, 1, failure=LOST))
    telemetry().committed(state, state, StepFailed(0, 1, failure=Failure("KeyError", "no")))
    assert counts(capsys)["Failing", "trip"] == 2


def test_sagas_whose_inputs_cannot_be_read(site: Make, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look of a listed saga counts, and no event says that it needs an operator."""
    s = site(Trip, SAGAS_CARRY_INPUTS="0")
    s.begin("trip")
    refusals = Refusals(monkeypatch, "ThrottlingException", "BatchGetItem")
    s.invoke("trip", "book")
    assert "InputsUnread" not in of_service(capsys)
    refusals.on = False
    refusals = Refusals(monkeypatch, "AccessDeniedException", "BatchGetItem")
    s.clock.advance(300)
    s.invoke("trip", "book")
    lines = written(capsys)
    assert [line["InputsUnread"] for line in lines if "InputsUnread" in line] == [[1.0]]
    assert [line["ServiceProblem"] for line in lines if "ServiceProblem" in line] == [[1.0]]
    assert not [line for line in lines if "SagaNeedsAttention" in line]


def test_sagas_whose_type_is_not_deployed(site: Make, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    s = site(Trip)
    overdue(s, s.begin("trip"))
    monkeypatch.setenv("SAGAS_CLASSES", json.dumps(["tests.support.sagas:Fatal"]))
    assert recover()["failed"] == 0
    found = of_service(capsys)
    assert (found["SagaWithoutCode"], found["ServiceProblem"]) == (1, 1)


def test_what_was_recovered_and_what_could_not_be(site: Make, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    s = site(Trip, Fatal)
    good, bad = s.begin("trip"), s.begin("fatal")
    s.lose_messages()
    get = ControlItems.get

    def failing(self: ControlItems, saga_id: str) -> object:
        if saga_id == bad:
            raise ValueError("unreadable")
        return get(self, saga_id)

    monkeypatch.setattr(ControlItems, "get", failing)
    supervisor.reset()
    report = supervisor.handler({"task": "recover", "stale_after": 0}, LambdaContext())
    assert (report["saga_ids"], report["failed"]) == ([good], 1)
    lines = written(capsys)
    (recovered,) = [line for line in lines if "MessageResent" in line]
    assert (recovered["saga"], recovered["MessageResent"]) == ("trip", [1.0])
    (failed,) = [line for line in lines if "RecoveryFailed" in line]
    assert failed["RecoveryFailed"] == [1.0]
    assert failed["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service"]]


def test_a_message_of_a_newer_version(site: Make, capsys: Capture) -> None:
    s = site(Trip)
    url = s.stack.queues["trip"]["book"]
    for body in ({"format": FORMAT + 1}, {"format": FORMAT + 2, "more": "unknown"}):
        s.stack.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(body))
    assert s.invoke("trip", "book", most=10) == 2
    metrics = written(capsys)
    assert [(line["saga"], line["Failing"]) for line in metrics if "Failing" in line] == [("trip", [1.0])] * 2
    lines = [line for line in metrics if "NewerMessageFormat" in line]
    assert [line["NewerMessageFormat"] for line in lines] == [[1.0], [1.0]]
    assert all(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service"]] for line in lines)


def test_a_broken_audit_trail(
    site: Make, capsys: Capture, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, dice = site(Trip), itertools.cycle([0.0, 0.1, 0.6, 0.7])
    monkeypatch.setattr(s.clock, "chance", lambda: next(dice))
    saga_id = s.begin("trip")
    s.run()
    supervisor.reset()
    assert supervisor.handler({"task": "verify"}, LambdaContext())["verified"] == 1
    assert "AuditMismatch" not in of_service(capsys)
    key = {"saga_id": {"S": saga_id}, "seq": {"N": "2"}}
    s.stack.dynamodb.delete_item(TableName=s.stack.audit_table, Key=key)
    report = supervisor.handler({"task": "verify"}, LambdaContext())
    assert report["broken"] == [{"type": "trip", "saga_id": saga_id}]
    found = of_service(capsys)
    assert (found["AuditMismatch"], found["ServiceProblem"]) == (1, 1)
    (told,) = [
        record for record in caplog.records if record.getMessage() == "the audit trail differs from what was written"
    ]
    assert (told.levelname, vars(told)["seq"], vars(told)["what"]) == ("ERROR", 2, "missing")
