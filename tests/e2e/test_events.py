"""Commands and events in, events out, on the emulator."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.stack import REPOSITORY, Running, launch, poll

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

EVENTS, IDS = (10_000, 1_000) if os.environ.get("SAGAS_PROOF") == "full" else (600, 60)
PAGE = 100


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """A local stack with every source there is."""
    project, cache = tmp_path_factory.mktemp("events"), REPOSITORY / ".sagas" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (project / ".sagas").mkdir()
    (project / ".sagas" / "cache").symlink_to(cache)
    running = launch(project, "python -m tests.e2e.events.app")
    yield running
    running.stop()


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
        page = api.call("GET", f"/sagas?name={name}&limit={PAGE}{cursor}")[1]
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
        send(running, {"command": "start", "saga": "loan", "request": {"item": "boat"}, "key": "boat-1"})
        loan = api.wait(started_by(running, "boat-1", "boat", "loan"), "WAITING")
        told = {"saga": "loan", "saga_id": loan["saga_id"]}
        send(running, {"command": "signal", **told, "step": "approval", "value": True})
        assert api.wait(loan, "COMPLETED")["result"] is True
        assert {entry["actor"].partition(":")[0] for entry in api.audit(loan)} >= {"queue"}
        other = api.wait(api.start("loan", {"item": "car"}), "WAITING")
        send(running, {"command": "cancel", "saga": "loan", "saga_id": other["saga_id"]})
        api.wait(other, "CANCELLED")

    def test_a_bad_one_is_in_the_dead_letters_with_its_reason(self, running: Running) -> None:
        send(running, {"command": "start", "saga": "trip", "request": {"itm": "boat"}})
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
