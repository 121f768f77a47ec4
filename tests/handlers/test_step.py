"""The step handler and records that are none of ours: reported failed, nothing lost, the rest of the batch unharmed."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from sagas.errors import FORMAT, InvalidRequest, NewerFormat
from sagas.handlers import step as step_handler
from tests.handlers.conftest import Make, Site, begun, ended
from tests.support.aws import REGION, LambdaContext
from tests.support.sagas import FAIL, LOG, Trip

NOBODY = str(uuid.UUID(int=7))
GOOD: dict[str, Any] = {"saga_id": NOBODY, "saga": "trip", "step": "book", "index": 0, "undo": False, "dispatch": 1}


def _without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


BAD = {
    "not JSON": "this is not JSON",
    "empty": "",
    "deep": "[" * 100_000,
    "no object": "[1, 2]",
    "nothing": "{}",
    **{f"without {name}": json.dumps(_without(name)) for name in GOOD},
    **{f"{name} of a wrong type": json.dumps(GOOD | {name: [1]}) for name in GOOD},
    "an index that is no number": json.dumps(GOOD | {"index": True}),
    "hops of a wrong type": json.dumps(GOOD | {"hops": "1"}),
    "an id that is no UUID": json.dumps(GOOD | {"saga_id": "42"}),
    "an unknown saga": json.dumps(GOOD | {"saga": "unknown"}),
    "an unknown step": json.dumps(GOOD | {"step": "fly"}),
    "a saga that is not there": json.dumps(GOOD),
    "a saga that is not there, undone": json.dumps(GOOD | {"undo": True}),
    "a negative index": json.dumps(GOOD | {"index": -1}),
    "a huge index": json.dumps(GOOD | {"index": 10**50}),
    "a huge dispatch": json.dumps(GOOD | {"dispatch": 10**50}),
    "a negative number of hops": json.dumps(GOOD | {"hops": -1}),
    "half a character": json.dumps(GOOD | {"step": "\ud800"}),
    "a saga of a long name": json.dumps(GOOD | {"saga": "x" * 10_000}),
    "a correlation id of a wrong type": json.dumps(GOOD | {"correlation_id": {}}),
}


def _put(site: Site, body: str) -> None:
    """Send a message by hand; SQS takes no empty ones."""
    site.stack.sqs.send_message(QueueUrl=site.stack.queues["trip"]["book"], MessageBody=body or " ")


def _arn(site: Site, step: str) -> str:
    return f"arn:aws:sqs:{REGION}:123456789012:{site.stack.queues['trip'][step].rsplit('/', 1)[1]}"


def _handle(records: list[dict[str, Any]]) -> list[str]:
    answer = step_handler.handler({"Records": records}, LambdaContext())
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


def _wear_out(site: Site) -> None:
    """Deliver what cannot be handled until its queue gives it up."""
    url = site.stack.queues["trip"]["book"]
    for _ in range(site.stack.max_receives["trip/book"] + 2):
        records = site.stack.receive("trip", "book", 10)
        failed = _handle(records) if records else []
        assert failed == [record["messageId"] for record in records]
        for record in records:
            site.stack.sqs.change_message_visibility(
                QueueUrl=url, ReceiptHandle=record["receiptHandle"], VisibilityTimeout=0
            )


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_a_bad_record_fails_alone(site: Make, body: str) -> None:
    s = site(Trip)
    _put(s, body)
    [bad] = s.stack.receive("trip", "book")
    saga_id = s.begin("trip")
    [good] = s.stack.receive("trip", "book")
    bad["body"] = body
    assert _handle([bad, good]) == [bad["messageId"]]
    assert LOG == ["book:1"]
    assert s.engine.reader.state("trip", saga_id).cursor == 1
    before = s.tables()
    assert _handle([bad]) == [bad["messageId"]]
    assert s.tables() == before
    s.stack.settle("trip", "book", [good], {"batchItemFailures": []})
    assert s.waiting() == 2


WORST = ["not JSON", "nothing", "an unknown saga", "an unknown step", "a saga that is not there"]


@pytest.mark.parametrize("name", WORST)
def test_a_bad_record_ends_in_the_dead_letter_queue(site: Make, name: str) -> None:
    s = site(Trip)
    _put(s, BAD[name])
    _wear_out(s)
    assert [letter["Body"] for letter in s.dead("trip")] == [BAD[name]]
    assert s.waiting() == 0
    assert s.tables() == ([], [])


def test_a_current_message_for_another_step_is_dropped_and_the_current_one_is_sent(
    site: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the current number, but names a step at which the saga is not."""
    monkeypatch.setattr("sagas.engine.worker._ROUNDS", 3)
    s, saga_id = begun(site)
    [record] = s.stack.receive("trip", "book")
    record["body"] = json.dumps(GOOD | {"saga_id": saga_id, "step": "pay", "index": 1})
    record["eventSourceARN"] = _arn(s, "pay")
    before = s.tables()
    assert _handle([record]) == []
    assert s.tables() == before
    assert LOG == []
    [sent] = s.stack.receive("trip", "book")
    assert json.loads(sent["body"])["step"] == "book"


def test_no_step_runs_without_idempotency(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message stays in its queue, and the saga goes on once the variable is gone."""
    s, saga_id = begun(site)
    monkeypatch.setenv("POWERTOOLS_IDEMPOTENCY_DISABLED", "1")
    [record] = s.stack.receive("trip", "book")
    with pytest.warns(UserWarning, match="idempotency"):
        assert _handle([record]) == [record["messageId"]]
    assert LOG == []
    monkeypatch.delenv("POWERTOOLS_IDEMPOTENCY_DISABLED")
    assert _handle([record]) == []
    assert LOG == ["book:1"]
    assert s.engine.reader.state("trip", saga_id).cursor == 1


FROM_LATER: dict[str, Any] = {"format": FORMAT + 1, "saga": {"renamed": "trip"}, "step": "\ud800"}
"""A message of a newer version."""
ATTRIBUTES: dict[str, Any] = {
    "saga": {"DataType": "String", "StringValue": "trip"},
    "digest": {"DataType": "Binary.sha256", "BinaryValue": b"\x00\xff"},
    "size": {"DataType": "Number", "StringValue": "17"},
}
RECEIVED: dict[str, Any] = {
    "saga": {"dataType": "String", "stringValue": "trip", "stringListValues": [], "binaryListValues": []},
    "digest": {"dataType": "Binary.sha256", "binaryValue": "AP8=", "stringListValues": [], "binaryListValues": []},
    "size": {"dataType": "Number", "stringValue": "17", "stringListValues": [], "binaryListValues": []},
}
"""The same attributes as SQS takes them, and as Lambda gives them."""


def _delayed(site: Site) -> int:
    name = "ApproximateNumberOfMessagesDelayed"
    url = site.stack.queues["trip"]["book"]
    return int(site.stack.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])


def test_what_a_newer_version_sent_waits_for_it_as_it_is(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.messaging.queues.LONGEST_DELAY", 0)
    s = site(Trip)
    url, body = s.stack.queues["trip"]["book"], json.dumps(FROM_LATER, indent=1)
    _put(s, body)
    for _ in range(s.stack.max_receives["trip/book"] + 2):
        [taken] = s.stack.sqs.receive_message(QueueUrl=url)["Messages"]
        record = {"messageId": taken["MessageId"], "receiptHandle": taken["ReceiptHandle"], "body": taken["Body"]}
        assert _handle([record | {"eventSourceARN": _arn(s, "book"), "messageAttributes": RECEIVED}]) == []
        s.stack.settle("trip", "book", [record], {"batchItemFailures": []})
    told = s.stack.sqs.receive_message(QueueUrl=url, AttributeNames=["All"], MessageAttributeNames=["All"])
    [message] = told["Messages"]
    assert (message["Body"], message["MessageAttributes"]) == (body, ATTRIBUTES)
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    assert s.dead("trip") == []
    assert s.waiting() == 1


def test_a_saga_that_a_newer_version_wrote_is_left_alone(
    site: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def newer(*_: Any) -> Any:
        raise NewerFormat("the control item")

    s = site(Trip, POWERTOOLS_SERVICE_NAME="older")
    s.begin("trip")
    [record] = s.stack.receive("trip", "book")
    before = s.tables()
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr("sagas.engine.worker.Worker.handle", newer)
        assert _handle([record]) == []
    s.stack.settle("trip", "book", [record], {"batchItemFailures": []})
    assert s.tables() == before
    assert _delayed(s) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [line] = [line for line in lines if line.get("level") == "WARNING"]
    assert (line["message"], line["message_id"]) == ("message postponed", record["messageId"])
    assert "the control item" in line["reason"]


@pytest.mark.parametrize(
    "spoilt", [{"eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:gone"}, {"eventSourceARN": 5}]
)
def test_what_cannot_be_put_off_stays_in_its_queue(site: Make, spoilt: dict[str, Any]) -> None:
    s = site(Trip)
    _put(s, json.dumps(FROM_LATER))
    [newer] = s.stack.receive("trip", "book")
    s.begin("trip")
    [good] = s.stack.receive("trip", "book")
    assert _handle([newer | spoilt, good]) == [newer["messageId"]]
    assert (LOG, _delayed(s)) == (["book:1"], 0)


def test_an_error_with_half_a_character_in_it_is_recorded(site: Make) -> None:
    FAIL["book"] = ValueError("no such file: \udcff")
    s, saga_id = ended(site)
    saga = s.show(saga_id)
    assert (saga["status"], saga["error"]["message"]) == ("COMPENSATED", "no such file: \\udcff")


def test_an_empty_batch_is_no_error(site: Make) -> None:
    site(Trip)
    assert _handle([]) == []
    assert step_handler.handler({}, LambdaContext()) == {"batchItemFailures": []}


@pytest.mark.parametrize("event", [None, [], "x", {"Records": None}, {"Records": [None]}, {"Records": [{"body": "x"}]}])
def test_an_event_that_is_not_sqs_fails_as_a_whole(site: Make, event: Any) -> None:
    """An answer that names no record would have Lambda delete them all."""
    site(Trip)
    with pytest.raises(InvalidRequest) as caught:
        step_handler.handler(event, LambdaContext())
    assert caught.value.problems


@pytest.mark.parametrize("attributes", [{"ApproximateReceiveCount": "x"}, {"SentTimestamp": "9" * 400}, [1], "x"])
def test_attributes_that_are_not_sqs_s(site: Make, attributes: Any) -> None:
    s = site(Trip)
    s.begin("trip")
    [record] = s.stack.receive("trip", "book")
    before = s.tables()
    assert _handle([record | {"attributes": attributes}]) == [record["messageId"]]
    assert s.tables() == before


def test_a_defect_is_logged_without_its_text(
    site: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("secret-text")

    s = site(Trip, POWERTOOLS_SERVICE_NAME="defective")
    s.begin("trip")
    [record] = s.stack.receive("trip", "book")
    monkeypatch.setattr("sagas.engine.worker.Worker.handle", broken)
    capsys.readouterr()
    assert _handle([record]) == [record["messageId"]]
    line, metric = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (line["level"], line["message"], line["error"]) == ("ERROR", "record failed", "KeyError")
    assert "secret" not in json.dumps(line)
    assert (metric["RecordFailed"], metric["Failing"], metric["saga"]) == ([1.0], [1.0], "trip")


def test_the_log_holds_no_payload_and_no_trace(site: Make, capsys: pytest.CaptureFixture[str]) -> None:
    FAIL["pay"] = ValueError("secret-text of the error")
    s = site(Trip, POWERTOOLS_SERVICE_NAME="quiet")
    s.begin("trip", {"item": "secret-train", "count": 2})
    _put(s, json.dumps({"saga": "trip", "more": "secret-field"}))
    _put(s, "secret-body")
    s.run()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    text = json.dumps(lines)
    assert "secret" not in text
    assert "Traceback" not in text
    assert {"StepCompleted", "StepFailed", "CompensationStarted", "message refused"} <= {
        line.get("message") for line in lines
    }
    assert any(line.get("error") == "ValueError" for line in lines)


def test_a_refused_record_is_logged_without_the_keys_of_another(site: Make, capsys: pytest.CaptureFixture[str]) -> None:
    s = site(Trip, POWERTOOLS_SERVICE_NAME="keys")
    s.begin("trip")
    s.run()
    capsys.readouterr()
    _put(s, "nonsense")
    s.invoke("trip", "book")
    line, metric = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (line["message"], line["problem"]) == ("message refused", "message refused")
    assert "saga_id" not in line
    assert metric["ServiceProblem"] == [1.0]
