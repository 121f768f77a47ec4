"""Commands and events in, events out, on the emulator."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.stack import Running, poll

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500), pytest.mark.slow]

MESSAGES = Path(__file__).parents[2] / "events" / "messages"
EVENTS, IDS = (10_000, 1_000) if os.environ.get("SAGAS_PROOF") == "full" else (300, 30)
PAGE = 100


@pytest.fixture(scope="module")
def running(shop: Running) -> Running:
    return shop


def send(running: Running, command: Any) -> None:
    url = running.description["command_queue"]
    running.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps(command))


def publish(running: Running, *details: dict[str, Any], kind: str = "Ordered") -> None:
    entries = [{"Source": "shop", "DetailType": kind, "Detail": json.dumps(one)} for one in details]
    client = running.client("events")
    for start in range(0, len(entries), 10):
        assert client.put_events(Entries=entries[start : start + 10])["FailedEntryCount"] == 0


def sagas_of(running: Running, name: str) -> list[dict[str, Any]]:
    api, found, cursor = Api(running), list[dict[str, Any]](), ""
    while True:
        page = api.call("GET", f"/sagas?type={name}&limit={PAGE}{cursor}")[1]
        found += page["sagas"]
        if page["cursor"] is None:
            return found
        cursor = f"&cursor={page['cursor']}"


def started_by(running: Running, key: str, item: str, name: str = "trip") -> dict[str, Any]:
    """The saga that something was to start, which has begun: the key leads to it by the API, too."""

    def begun() -> dict[str, Any] | None:
        for one in sagas_of(running, name):
            saga = Api(running).show(one)
            if saga["request"]["item"] == item:
                return saga
        return None

    saga = poll(f"a {name} for {item}", begun)
    if key:
        status, same, _ = Api(running).call("POST", f"/sagas/{name}", {"item": item}, Idempotency_Key=key)
        assert (status, same["saga_id"]) == (200, saga["saga_id"])
    return saga


class TestCommands:
    def test_start_signal_and_cancel(self, running: Running) -> None:
        api = Api(running)
        send(running, {"command": "start", "type": "loan", "request": {"item": "boat"}, "key": "boat-1"})
        loan = api.wait(started_by(running, "boat-1", "boat", "loan"), "WAITING")
        told = {"type": "loan", "saga_id": loan["saga_id"]}
        send(running, {"command": "signal", **told, "step": "approval", "value": True})
        assert api.wait(loan, "COMPLETED")["result"] is True
        assert {entry["actor"].partition(":")[0] for entry in api.audit(loan)} >= {"queue"}
        other = api.wait(api.start("loan", {"item": "car"}), "WAITING")
        send(running, {"command": "cancel", "type": "loan", "saga_id": other["saga_id"]})
        api.wait(other, "CANCELLED")

    def test_a_bad_one_is_in_the_dead_letters_with_its_reason(self, running: Running) -> None:
        send(running, {"command": "start", "type": "trip", "request": {"itm": "boat"}})
        url = running.description["command_dead_letter_queue"]
        sqs = running.client("sqs")

        def letter() -> dict[str, Any] | None:
            answer = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"])
            return next(iter(answer.get("Messages", [])), None)

        found = poll("a dead letter", letter)
        assert "$.item" in found["MessageAttributes"]["reason"]["StringValue"]
        assert json.loads(found["Body"])["request"] == {"itm": "boat"}


class TestSources:
    def test_a_notification(self, running: Running) -> None:
        topic = running.description["outputs"]["Topic"]
        told = running.client("sns").publish(TopicArn=topic, Message=json.dumps({"item": "letter"}))
        started_by(running, told["MessageId"], "letter")

    def test_a_message_of_another_queue(self, running: Running) -> None:
        url = running.description["outputs"]["Queue"]
        sent = running.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps({"item": "parcel"}))
        started_by(running, sent["MessageId"], "parcel")

    @pytest.mark.parametrize(
        ("queue", "message", "items"),
        [
            ("S3", "s3.json", ["photos/été 2026/a+b.jpg", "reports/january.csv"]),
            ("Sns", "sns.json", ["o-sns"]),
            ("RawSns", "sns_raw.json", ["o-raw"]),
            ("EventBridge", "eventbridge.json", ["o-bridge"]),
            ("CloudEvents", "cloudevent.json", ["o-cloud"]),
        ],
    )
    def test_a_message_in_an_envelope(self, running: Running, queue: str, message: str, items: list[str]) -> None:
        """As AWS and others document it. Each starts its sagas once, and S3's test event starts none."""
        url, sqs = running.description["outputs"][f"From{queue}"], running.client("sqs")
        for name in ("s3_test.json", message, message) if queue == "S3" else (message, message):
            text = (MESSAGES / name).read_text().replace("o-1", items[0])
            sqs.send_message(QueueUrl=url, MessageBody=text)
        for item in items:
            started_by(running, "", item)
        started = [Api(running).show(one)["request"]["item"] for one in sagas_of(running, "trip")]
        assert [started.count(item) for item in items] == [1] * len(items)

    def test_a_notification_in_a_queue_is_a_signal(self, running: Running) -> None:
        api = Api(running)
        loan = api.wait(api.start("loan", {"item": "bike"}), "WAITING")
        answer = json.dumps({"loan": loan["saga_id"], "granted": True})
        running.client("sns").publish(TopicArn=running.description["outputs"]["News"], Message=answer)
        assert api.wait(loan, "COMPLETED")["result"] is True

    def test_an_object(self, running: Running) -> None:
        bucket = running.description["outputs"]["Bucket"]
        running.client("s3").put_object(Bucket=bucket, Key="photo.jpg", Body=b"...")
        started_by(running, "", "photo.jpg")

    def test_a_schedule(self, running: Running) -> None:
        def fired() -> dict[str, Any] | None:
            shown = (Api(running).show(one) for one in sagas_of(running, "trip"))
            return next((one for one in shown if len(one["request"]["item"]) == 36), None)

        saga = poll("the schedule to fire", fired, deadline=60)
        # Scheduler's execution id, filled in.
        assert Api(running).audit(saga)[0]["correlation_id"] == saga["request"]["item"]

    def test_a_signal_from_an_event(self, running: Running) -> None:
        api = Api(running)
        publish(running, {"item": "house"}, kind="Asked")
        loan = api.wait(started_by(running, "", "house", "loan"), "WAITING")
        publish(running, {"loan": loan["saga_id"], "granted": False}, kind="Agreed")
        assert api.wait(loan, "COMPLETED")["result"] is False


class Told:
    """What the service told, as one who listens hears it."""

    def __init__(self, running: Running) -> None:
        self._sqs, self._url = running.client("sqs"), running.description["outputs"]["Told"]
        self.heard: dict[str, dict[str, Any]] = {}

    def of(self, saga_id: str) -> dict[str, dict[str, Any]]:
        """The events of a saga heard so far, by name."""
        while messages := self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10).get("Messages", []):
            for one in messages:
                event = json.loads(one["Body"])
                self.heard[event["detail"]["id"]] = event
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=one["ReceiptHandle"])
        return {event["detail-type"]: event for event in self.heard.values() if event["detail"]["saga_id"] == saga_id}


@pytest.fixture(scope="module")
def told(running: Running) -> Told:
    return Told(running)


class TestEventsOut:
    def test_each_end_is_told(self, running: Running, told: Told) -> None:
        api = Api(running)
        good, bad, loan = (api.start(*one) for one in (
            ("trip", {"item": "cup"}), ("trip", {"item": "anvil"}), ("loan", {"item": "lamp"})
        ))  # fmt: skip
        for saga, names in (
            (good, {"SagaStarted", "SagaCompleted"}),
            (bad, {"SagaStarted", "SagaCompensated"}),
            (loan, {"SagaStarted", "SagaWaiting"}),
        ):
            poll(f"{names} to be told", lambda id=saga["saga_id"], names=names: told.of(id).keys() == names)
        done = api.wait(good)
        event = told.of(good["saga_id"])["SagaCompleted"]
        assert event["source"] == "sagas.Shop-Sagas"
        assert event["detail"]["status"] == "COMPLETED"
        assert event["detail"]["seq"] == len(api.audit(done))
        api.call("DELETE", f"/sagas/loan/{loan['saga_id']}")
        poll("the cancel to be told", lambda: "SagaCancelled" in told.of(loan["saga_id"]))

    def test_with_the_target_away_for_a_while_every_end_is_told_afterwards(self, running: Running, told: Told) -> None:
        api, functions = Api(running), running.client("lambda")
        name = functions.get_function(FunctionName=running.description["events_function"])["Configuration"][
            "FunctionName"
        ]
        (published,) = functions.list_aliases(FunctionName=name)["Aliases"]
        before = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]

        def deploy(variables: dict[str, str]) -> None:
            functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables})
            version = functions.publish_version(FunctionName=name)["Version"]
            functions.update_alias(FunctionName=name, Name=published["Name"], FunctionVersion=version)

        deploy(before | {"AWS_ENDPOINT_URL_EVENTBRIDGE": "http://127.0.0.1:9"})  # nobody listens there
        try:
            sagas = [api.start("trip", {"item": f"away {number}"}) for number in range(20)]
            for saga in sagas:
                api.wait(saga, "COMPLETED")
            assert not any(told.of(saga["saga_id"]) for saga in sagas)
        finally:
            deploy(before)
        names = {"SagaStarted", "SagaCompleted"}
        poll("all to be told", lambda: all(told.of(saga["saga_id"]).keys() == names for saga in sagas), deadline=60)

    def test_a_replay_tells_them_again(self, running: Running, told: Told) -> None:
        saga = Api(running).run("trip", {"item": "again"})
        poll("its end to be told", lambda: "SagaCompleted" in told.of(saga["saga_id"]))
        first = told.of(saga["saga_id"])
        told.heard.clear()
        done = running.sagas("events", "replay", "--since", "1h", "trip")
        assert done.returncode == 0, done.stderr
        assert " again" in done.stdout
        again = poll("it to be told again", lambda: told.of(saga["saga_id"]))
        assert {event["detail"]["id"] for event in again.values()} == {one["detail"]["id"] for one in first.values()}


@pytest.mark.slow
def test_a_storm_of_repeated_events_makes_one_saga_an_id(running: Running) -> None:
    before = len(sagas_of(running, "trip"))
    details = [{"id": f"storm-{number % IDS}", "item": f"s{number % IDS}"} for number in range(EVENTS)]
    publish(running, *details)
    client, url = running.client("sqs"), running.description["command_queue"]
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ]

    def empty() -> bool:
        found = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names) == 0

    poll("all events to be worked off", empty, deadline=60 + EVENTS / 8)
    poll("as many sagas as ids", lambda: len(sagas_of(running, "trip")) - before == IDS, deadline=30)
