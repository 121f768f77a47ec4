"""The function behind the command queue."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from sagas import Context, Saga, step, wait_for
from sagas.errors import Unavailable
from sagas.handlers import commands
from sagas.messaging.queues import Queues
from tests.handlers.conftest import Make, Site
from tests.support.aws import REGION, LambdaContext
from tests.support.sagas import Trip

NOBODY = "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17"
TOPIC = f"arn:aws:sns:{REGION}:123456789012:orders"
EVENT = {"id": "e-1", "detail-type": "Ordered", "time": "2026-01-01T00:00:00Z", "detail": {"item": "train", "id": 7}}


@dataclass(frozen=True)
class Order:
    """What is asked for."""

    item: str = "train"


@dataclass(frozen=True)
class Approval:
    """A yes or a no."""

    granted: bool


class Loan(Saga[Order]):
    """Waits for an approval."""

    approval = wait_for(Approval, timeout=timedelta(days=1))

    @step
    def pay(self, approval: Approval, ctx: Context) -> bool:
        """Pay."""
        return approval.granted


@pytest.fixture
def trips(site: Make) -> Site:
    commands.reset()
    return site(Trip, Loan)


def send(site: Site, body: Any, **attributes: str) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    named = {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()}
    site.stack.sqs.send_message(QueueUrl=site.stack.commands, MessageBody=text, MessageAttributes=named)


def records_of(site: Site, receives: int = 1) -> list[dict[str, Any]]:
    """What the command queue has, as if received that often."""
    records = site.stack.receive_from(site.stack.commands, 10)
    for one in records:
        one["attributes"]["ApproximateReceiveCount"] = str(receives)
    return records


def work_off(site: Site, *, receives: int = 1, remaining: float = 30.0) -> list[bool]:
    """Invoke the function once with what the queue has; whether each record may be deleted."""
    records = records_of(site, receives)
    answer = commands.handler({"Records": records}, LambdaContext(remaining))
    failed = {one["itemIdentifier"] for one in answer["batchItemFailures"]}
    for one in records:
        if one["messageId"] not in failed:
            site.stack.sqs.delete_message(QueueUrl=site.stack.commands, ReceiptHandle=one["receiptHandle"])
    return [one["messageId"] not in failed for one in records]


def letters(site: Site) -> list[dict[str, Any]]:
    """The dead letters, each with its attributes and its body."""
    return [
        {name: value["stringValue"] for name, value in one["messageAttributes"].items()} | {"body": one["body"]}
        for one in site.stack.receive_from(site.stack.command_letters, 10)
    ]


def listed(site: Site, name: str) -> list[dict[str, Any]]:
    return site.call("GET", "/sagas", type=name).body["sagas"]


class TestCommands:
    def test_start_starts_one_saga_for_a_key_and_says_who_asked(self, trips: Site) -> None:
        command = {"command": "start", "type": "trip", "request": {"item": "train"}, "key": "order-1"}
        for _ in range(3):
            send(trips, command)
        assert work_off(trips) == [True] * 3
        trips.run()
        (saga,) = listed(trips, "trip")
        assert saga["status"] == "COMPLETED"
        first = trips.stack.entries(saga["saga_id"])[0]
        assert first["actor"].startswith("queue:")
        assert letters(trips) == []

    def test_the_same_key_by_the_api_is_the_same_saga(self, trips: Site) -> None:
        send(trips, {"command": "start", "type": "trip", "request": {"item": "train"}, "key": "order-1"})
        work_off(trips)
        answer = trips.call("POST", "/sagas/trip", {"item": "train"}, key="order-1")
        assert answer.status == 200

    def test_without_a_key_the_message_is_the_key(self, trips: Site) -> None:
        send(trips, {"command": "start", "type": "trip", "request": {"item": "train"}})
        records = records_of(trips)
        for _ in range(2):  # SQS delivers at least once
            assert commands.handler({"Records": records}, LambdaContext())["batchItemFailures"] == []
        assert len(listed(trips, "trip")) == 1

    def test_signal_and_cancel(self, trips: Site) -> None:
        one, other = trips.begin("loan"), trips.begin("loan")
        trips.run()
        told = {"type": "loan", "saga_id": one, "step": "approval", "value": {"granted": True}}
        send(trips, {"command": "signal", **told})
        send(trips, {"command": "cancel", "type": "loan", "saga_id": other.upper(), "reason": "why not"})
        assert work_off(trips) == [True, True]
        trips.run()
        assert trips.status(one) == "COMPLETED"
        assert trips.status(other) == "CANCELLED"
        assert trips.entry(one, "SignalReceived")["actor"].startswith("queue:")
        cancel = trips.entry(other, "CancelRequested")
        assert cancel["actor"].startswith("queue:")
        assert "why not" in json.dumps(cancel["details"])


class TestEvents:
    def test_start_on_takes_request_and_key_from_the_event(self, trips: Site) -> None:
        command = {"command": "start_on", "type": "trip", "event": EVENT, "key": "$.detail.id"}
        picked = command | {"request": {"item": "$.detail.item"}}
        send(trips, picked)
        send(trips, picked | {"event": EVENT | {"id": "e-2"}})
        assert work_off(trips) == [True, True]
        (saga,) = listed(trips, "trip")
        first = trips.stack.entries(saga["saga_id"])[0]
        assert json.loads(first["payload"]) == {"item": "train"}
        assert first["correlation_id"] in ("e-1", "e-2")
        assert trips.call("POST", "/sagas/trip", {"item": "train"}, key="7").body["saga_id"] == saga["saga_id"]

    def test_several_parts_make_one_key(self, trips: Site) -> None:
        told = {"command": "start_on", "type": "trip", "event": EVENT, "request": {"item": "train"}}
        send(trips, told | {"key": ["orders", "$.detail.id"]})
        work_off(trips)
        assert trips.call("POST", "/sagas/trip", {"item": "train"}, key="orders/7").status == 200

    def test_signal_on(self, trips: Site) -> None:
        saga_id = trips.begin("loan")
        event = EVENT | {"detail": {"loan": saga_id, "answer": {"granted": False}}}
        told = {"saga_id": "$.detail.loan", "value": "$.detail.answer"}
        send(trips, {"command": "signal_on", "type": "loan", "step": "approval", "event": event, **told})
        assert work_off(trips) == [True]
        trips.run()
        assert trips.status(saga_id) == "COMPLETED"

    def test_a_notification_of_a_declared_topic(self, trips: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        declared = {"command": "start_on", "type": "trip", "request": {"item": "$.detail.item"}}
        monkeypatch.setenv("SAGAS_SOURCES", json.dumps({TOPIC: declared}))
        told = {"Type": "Notification", "MessageId": "m-1", "TopicArn": TOPIC, "Message": '{"item": "train"}'}
        send(trips, told)
        send(trips, told)
        assert work_off(trips) == [True, True]
        assert len(listed(trips, "trip")) == 1
        assert trips.call("POST", "/sagas/trip", {"item": "train"}, key="m-1").status == 200

    def test_a_message_of_a_declared_queue(self, trips: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        arn = f"arn:aws:sqs:{REGION}:123456789012:test-commands"
        monkeypatch.setenv("SAGAS_SOURCES", json.dumps({arn: {"command": "start_on", "type": "trip"}}))
        send(trips, {"item": "train"})
        send(trips, "no JSON")
        assert work_off(trips) == [True, True]
        assert len(listed(trips, "trip")) == 1
        (letter,) = letters(trips)
        assert letter["body"] == "no JSON"


OWN = f"arn:aws:sqs:{REGION}:123456789012:own"


class Free(Saga[dict[str, Any]], name="free"):
    """Takes any object, and keeps it."""

    @step
    def keep(self, request: dict[str, Any]) -> str:
        return "kept"


@dataclass(frozen=True)
class Own:
    """A service with a queue of the user's as a source."""

    site: Site
    url: str

    def deliver(self, text: str, attributes: dict[str, str] | None = None, receives: int = 1) -> list[dict[str, Any]]:
        """Have the function handle a message of the user's queue; return the dead letters."""
        named = {name: {"DataType": "String", "StringValue": value} for name, value in (attributes or {}).items()}
        self.site.stack.sqs.send_message(QueueUrl=self.url, MessageBody=text, MessageAttributes=named)
        records = self.site.stack.receive_from(self.url, 10)
        for record in records:
            record["attributes"]["ApproximateReceiveCount"] = str(receives)
        answer = commands.handler({"Records": records}, LambdaContext())
        assert answer["batchItemFailures"] == []
        for record in records:
            self.site.stack.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=record["receiptHandle"])
        return letters(self.site)

    def redrive(self, letter: dict[str, Any]) -> list[dict[str, Any]]:
        """Have the function handle a dead letter again, as SQS moves it; return the dead letters."""
        attributes = {name: value for name, value in letter.items() if name != "body"}
        send(self.site, letter["body"], **attributes)
        assert work_off(self.site) == [True]
        return letters(self.site)

    def first(self, name: str = "free") -> dict[str, Any]:
        """The first entry of the only saga of a type."""
        (saga,) = listed(self.site, name)
        return self.site.stack.entries(saga["saga_id"])[0]

    def requests(self, name: str = "free") -> list[Any]:
        ids = [saga["saga_id"] for saga in listed(self.site, name)]
        return [json.loads(self.site.stack.entries(saga_id)[0]["payload"]) for saga_id in ids]


def own_queue(site: Make, patch: pytest.MonkeyPatch, **options: Any) -> Own:
    commands.reset()
    made = site(Free, Loan)
    declared = {"command": "start_on", "type": "free", **options}
    patch.setenv("SAGAS_SOURCES", json.dumps({OWN: declared, TOPIC: {"command": "start_on", "type": "free"}}))
    return Own(made, made.stack.sqs.create_queue(QueueName="own")["QueueUrl"])


UNCLEAR = {
    "NaN": '{"a": NaN}',
    "an infinity": '{"a": [1, -Infinity]}',
    "a number beyond floats": '{"a": 1e400}',
    "a key that is there twice": '{"a": 1, "a": 2}',
    "half a surrogate pair": '{"a": "\\ud83d"}',
    "5,000 digits": '{"a": ' + "1" * 5000 + "}",
    "many levels": '{"a": ' + "[" * 3000 + "]" * 3000 + "}",
    "a request of another type": '["\\u00e4", 1.10, 1E2 ]',
    "text": "no JSON",
}


class TestAsItCame:
    """Nothing that a sender sent is altered on its way to the dead letters, and back."""

    @pytest.mark.parametrize("text", UNCLEAR.values(), ids=UNCLEAR)
    def test_a_dead_letter_and_what_is_redriven(self, site: Make, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        """NaN became null on its way, and the redrive started a saga with it."""
        own = own_queue(site, monkeypatch)
        (letter,) = own.deliver(text, {"tenant": "t-1"})
        assert letter["body"] == text
        assert "tenant" not in letter
        (again,) = own.redrive(letter)
        assert again["body"] == text
        assert again["reason"] == letter["reason"]
        assert listed(own.site, "free") == []

    @pytest.mark.parametrize("text", UNCLEAR.values(), ids=UNCLEAR)
    def test_the_same_in_a_notification(self, site: Make, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        own = own_queue(site, monkeypatch)
        body = json.dumps({"Type": "Notification", "MessageId": "m-1", "TopicArn": TOPIC, "Message": text})
        send(own.site, body)
        assert work_off(own.site) == [True]
        (letter,) = letters(own.site)
        assert letter["body"] == body
        assert own.redrive(letter)[0]["body"] == body
        assert listed(own.site, "free") == []

    @pytest.mark.parametrize("request_", ['{"a": 1, "a": 2}', '{"a": NaN}', '{"a": 1e400}', '{"a": "\\ud83d"}'])
    def test_the_same_in_a_command(self, trips: Site, request_: str) -> None:
        body = f'{{"command": "start", "type": "trip", "request": {request_}}}'
        send(trips, body)
        assert work_off(trips) == [True]
        assert letters(trips)[0]["body"] == body

    def test_a_copy_that_waits_starts_what_the_message_would_have(
        self, site: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A copy has another id, and comes from another queue; its request, key and attributes are the message's."""
        request = {"item": "$.detail.item", "tenant": "$.attributes.tenant", "id": "$.id"}
        own = own_queue(site, monkeypatch, request=request)
        starter = type(own.site.engine.starter)
        text = '{ "item": 1.10, "since": "never" }'
        with monkeypatch.context() as patch:

            def away(*_: Any, **__: Any) -> None:
                raise Unavailable("the store is away", retry_after=0)

            patch.setattr(starter, "start", away)
            send_text = Queues.send_text

            def at_once(self: Queues, url: str, text: str, attributes: dict[str, str], delay: float) -> None:
                send_text(self, url, text, attributes)

            patch.setattr(Queues, "send_text", at_once)
            assert own.deliver(text, {"tenant": "t-1", "sender": "arn:aws:iam::1:user/boss"}, 20) == []
        (copy,) = records_of(own.site)
        assert copy["body"] == text
        assert commands.handler({"Records": [copy, copy]}, LambdaContext())["batchItemFailures"] == []
        (started,) = own.requests()
        assert (started["item"], started["tenant"]) == (1.1, "t-1")
        assert started["id"] == copy["messageAttributes"]["key"]["stringValue"] != copy["messageId"]
        assert "boss" not in own.first()["actor"]

    def test_a_redriven_message_is_read_as_its_source_is_declared_then(
        self, site: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = own_queue(site, monkeypatch, request="$.detail.order")
        (letter,) = own.deliver('{"ordr": {"item": 1}}', {"tenant": "t-1"})
        assert "nothing at $.detail.order" in letter["reason"]
        fixed = {"command": "start_on", "type": "free", "request": {"o": "$.detail.ordr", "t": "$.attributes.tenant"}}
        monkeypatch.setenv("SAGAS_SOURCES", json.dumps({OWN: fixed}))
        assert own.redrive(letter) == []
        assert own.requests() == [{"o": {"item": 1}, "t": "t-1"}]
        monkeypatch.setenv("SAGAS_SOURCES", json.dumps({TOPIC: fixed}))
        (again,) = own.redrive(letter)
        assert "not a source of this service" in again["reason"]


class TestAttributes:
    """Attributes in a user's own queue are the sender's, whatever their names are."""

    @pytest.mark.parametrize("name", ["since", "sender", "key", "source", "attributes", "reason", "command", "type"])
    def test_none_of_them_is_taken_for_the_librarys(
        self, site: Make, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        own = own_queue(site, monkeypatch, request={"of": f"$.attributes.{name}"})
        values = ["0", "arn:aws:iam::123456789012:user/boss", TOPIC]
        for value in values:
            assert own.deliver("{}", {name: value}) == []
        assert sorted(request["of"] for request in own.requests()) == values
        for saga in listed(own.site, "free"):
            first = own.site.stack.entries(saga["saga_id"])[0]
            assert first["actor"].startswith("queue:")
            assert " for " not in first["actor"]

    def test_nor_in_a_dead_letter(self, site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        own = own_queue(site, monkeypatch, request="$.detail.no")
        sent = {"since": "0", "sender": "boss", "reason": "mine", "saga_id": "mine", "a": "1", "b": "2"}
        (letter,) = own.deliver("{}", sent)
        assert "nothing at $.detail.no" in letter["reason"]
        assert "boss" not in letter["sender"]
        assert json.loads(letter["attributes"]) == sent


def s3_notification(*keys: str) -> dict[str, Any]:
    """What S3 sends to a queue."""
    records = [
        {
            "eventVersion": "2.1",
            "eventSource": "aws:s3",
            "eventName": "ObjectCreated:Put",
            "s3": {"bucket": {"name": "uploads"}, "object": {"key": key, "size": 1024, "sequencer": f"00{place}"}},
        }
        for place, key in enumerate(keys)
    ]
    return {"Records": records}


S3_TEST = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2026-11-27T10:00:00.000Z", "Bucket": "uploads"}
S3_RECORD = {"key": "$.detail.Records[0].s3.object.key", "size": "$.detail.Records[0].s3.object.size"}


def notification(message: Any) -> dict[str, Any]:
    """What SNS sends to a queue without raw delivery."""
    return {"Type": "Notification", "MessageId": "m-1", "TopicArn": TOPIC + "x", "Message": json.dumps(message)}


class TestEnvelopes:
    def test_a_path_enters_json_in_a_text(self, site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        request = {"a": "$.detail.payload.items[*].n", "whole": "$.detail.payload", "text": "$.detail.note"}
        own = own_queue(site, monkeypatch, request=request, key="$.detail.payload.id")
        payload = '{"id": 7, "items": [{"n": 1}, {"n": 2}]}'
        assert own.deliver(json.dumps({"payload": payload, "note": "[1]"})) == []
        assert own.requests() == [{"a": [1, 2], "whole": payload, "text": "[1]"}]
        (letter,) = own.deliver(json.dumps({"payload": '{"id": 8, "id": 9}', "note": ""}))
        assert "$.detail.payload.id enters a text that cannot be read" in letter["reason"]

    def test_a_notification_in_a_users_queue(self, site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        own = own_queue(site, monkeypatch, request={"x": "$.detail.Message.x"}, key="$.detail.MessageId")
        for _ in range(2):
            assert own.deliver(json.dumps(notification({"x": 1}))) == []
        assert own.requests() == [{"x": 1}]

    def test_the_message_of_a_notification_is_what_it_says(self, site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        own = own_queue(site, monkeypatch, request="$.detail.Message")
        assert own.deliver(json.dumps(notification({"x": 1}))) == []
        assert own.requests() == [{"x": 1}]

    @pytest.mark.parametrize("by_sns", [False, True])
    def test_each_record_of_s3_is_an_event(self, site: Make, monkeypatch: pytest.MonkeyPatch, by_sns: bool) -> None:
        """Its key is decoded, as the object is named."""
        paths = {name: path.replace("detail", "detail.Message") if by_sns else path for name, path in S3_RECORD.items()}
        own = own_queue(site, monkeypatch, request=paths)
        body: Any = s3_notification("photos/%C3%A9t%C3%A9+1%2B1.jpg", "a.txt", "100%25.txt")
        assert own.deliver(json.dumps(notification(body) if by_sns else body)) == []
        assert sorted(each["key"] for each in own.requests()) == ["100%.txt", "a.txt", "photos/été 1+1.jpg"]

    @pytest.mark.parametrize("by_sns", [False, True])
    def test_a_test_event_of_s3_starts_nothing(self, site: Make, monkeypatch: pytest.MonkeyPatch, by_sns: bool) -> None:
        own = own_queue(site, monkeypatch)
        assert own.deliver(json.dumps(notification(S3_TEST) if by_sns else S3_TEST)) == []
        assert listed(own.site, "free") == []

    def test_one_bad_record_does_not_stop_the_others(self, site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        """The message comes back as a whole, and those that have started do not start again."""
        own = own_queue(site, monkeypatch, request=S3_RECORD)
        body = s3_notification("a", "b", "c")
        del body["Records"][1]["s3"]["object"]["size"]
        (letter,) = own.deliver(json.dumps(body))
        assert json.loads(letter["body"]) == body
        assert sorted(each["key"] for each in own.requests()) == ["a", "c"]
        (again,) = own.redrive(letter)
        assert again["reason"] == letter["reason"]
        assert len(own.requests()) == 2

    def test_a_topic_that_s3_notifies(self, site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        own = own_queue(site, monkeypatch)
        for place, message in enumerate((S3_TEST, s3_notification("a+b"))):
            send(own.site, notification(message) | {"TopicArn": TOPIC, "MessageId": f"m-{place}"})
        assert work_off(own.site) == [True, True]
        (request,) = own.requests()
        assert request["Records"][0]["s3"]["object"]["key"] == "a b"


class TestBadCommands:
    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            ("{", "the message is not a command; $: Input data was truncated"),
            ("[]", "the message is not a command; $: Expected `object`"),
            ({"command": "begin"}, "the message is not a command; $.command"),
            ({"command": "start", "type": "trip"}, "missing required field `request`"),
            ({"command": "start", "type": "trip", "request": {}, "kee": "a"}, "unknown field `kee`"),
            ({"command": "start", "type": "trip", "request": {"itm": 1}}, "$.item"),
            ({"command": "start", "type": "trip", "request": {"item": "a"}, "key": " "}, "$.key"),
            ({"command": "cancel", "type": "trip", "saga_id": "7"}, "$.saga_id"),
            ({"command": "start_on", "type": "trip", "event": EVENT, "key": "$.detail.no"}, "nothing at $.detail.no"),
            ({"command": "start_on", "type": "trip", "event": EVENT, "key": "$.detail"}, "must be a text"),
            ({"command": "signal_on", "type": "loan", "step": "approval", "event": EVENT}, "$.saga_id"),
        ],
    )
    def test_goes_to_the_dead_letters_with_a_reason(self, trips: Site, body: Any, reason: str) -> None:
        before = trips.tables()
        send(trips, body)
        assert work_off(trips) == [True]
        (letter,) = letters(trips)
        assert reason in letter["reason"]
        assert letter["sender"].startswith("queue:")
        assert letter["body"] == body if isinstance(body, str) else json.loads(letter["body"]).items() >= body.items()
        assert trips.tables() == before

    def test_what_the_saga_does_not_allow(self, trips: Site) -> None:
        saga_id = trips.begin("trip")
        trips.run()
        send(trips, {"command": "cancel", "type": "trip", "saga_id": saga_id})
        send(trips, {"command": "start", "type": "trip", "request": {"item": "train"}, "key": "k"})
        send(trips, {"command": "start", "type": "trip", "request": {"item": "tram"}, "key": "k"})
        assert work_off(trips) == [True] * 3
        reused, over = sorted(letters(trips), key=lambda one: one["command"], reverse=True)
        assert "COMPLETED" in over["reason"]
        assert (over["command"], over["type"], over["saga_id"]) == ("cancel", "trip", saga_id)
        assert "another request" in reused["reason"]

    def test_an_unknown_saga_is_tried_for_a_quarter_of_an_hour(self, trips: Site) -> None:
        send(trips, {"command": "cancel", "type": "trip", "saga_id": NOBODY})
        send(trips, {"command": "start", "type": "tripp", "request": {}})
        assert work_off(trips) == [False, False]
        assert letters(trips) == []
        trips.stack.sqs.purge_queue(QueueUrl=trips.stack.commands)
        sent = str(int((trips.clock.now() - commands.GIVE_UP_AFTER - 1) * 1000))
        send(trips, {"command": "cancel", "type": "trip", "saga_id": NOBODY})
        records = records_of(trips)
        records[0]["attributes"]["SentTimestamp"] = sent
        assert commands.handler({"Records": records}, LambdaContext())["batchItemFailures"] == []
        (letter,) = letters(trips)
        assert "no saga" in letter["reason"]


class TestLater:
    def test_an_outage_uses_up_no_receives(self, trips: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        send(trips, {"command": "start", "type": "trip", "request": {"item": "train"}})
        starter = type(trips.engine.starter)
        with monkeypatch.context() as patch:

            def away(*_: Any, **__: Any) -> None:
                raise Unavailable("the store is away")

            patch.setattr(starter, "start", away)
            records = records_of(trips, receives=20)
            assert commands.handler({"Records": records}, LambdaContext())["batchItemFailures"] == []
        (first,) = records
        assert letters(trips) == []
        trips.stack.sqs.purge_queue(QueueUrl=trips.stack.commands)
        # The copy, which waits for a minute, starts the very saga that the message would have.
        kept = {"key": first["messageId"], "since": str(trips.clock.now() - 60), "sender": "queue:AIDA"}
        for _ in range(2):
            send(trips, first["body"], **kept)
        assert work_off(trips) == [True, True]
        (saga,) = listed(trips, "trip")
        assert trips.stack.entries(saga["saga_id"])[0]["actor"].endswith(" for AIDA")

    def test_a_copy_of_copies_still_names_its_sender(self, trips: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        send_text = Queues.send_text

        def at_once(self: Queues, url: str, text: str, attributes: dict[str, str], delay: float) -> None:
            send_text(self, url, text, attributes)

        monkeypatch.setattr(Queues, "send_text", at_once)
        trips.call("PUT", "/types/trip", {"active": False, "reason": "incident"})
        send(trips, {"command": "start", "type": "trip", "request": {"item": "train"}})
        person, function = "AIDAEXAMPLE:ann", "AROAEXAMPLEOFAROLE:Shop-ServiceCommandFunction-0123456789ab"
        for sender in (person, *[function] * 8):
            (copy,) = records_of(trips, receives=20)
            copy["attributes"]["SenderId"] = sender
            assert commands.handler({"Records": [copy]}, LambdaContext())["batchItemFailures"] == []
            trips.stack.sqs.delete_message(QueueUrl=trips.stack.commands, ReceiptHandle=copy["receiptHandle"])
        trips.call("PUT", "/types/trip", {"active": True})
        trips.clock.advance(60)
        (copy,) = records_of(trips)
        copy["attributes"]["SenderId"] = function
        commands.handler({"Records": [copy]}, LambdaContext())
        (saga,) = listed(trips, "trip")
        assert trips.stack.entries(saga["saga_id"])[0]["actor"] == f"queue:{function} for {person}"

    def test_a_disabled_type_starts_them_when_it_is_enabled(self, trips: Site) -> None:
        trips.call("PUT", "/types/trip", {"active": False, "reason": "incident"})
        send(trips, {"command": "start", "type": "trip", "request": {"item": "train"}})
        assert work_off(trips) == [False]
        assert letters(trips) == []

    @pytest.mark.parametrize("active", [True, False])
    def test_a_command_lives_14_days_whatever_copies_say(self, trips: Site, active: bool) -> None:
        """A copy begins SQS's own retention again, so a start of last year ran when its type was enabled."""
        trips.call("PUT", "/types/trip", {"active": active, "reason": "incident"})
        since = str(trips.clock.now() - commands.LONGEST_AGE - 1)
        send(trips, {"command": "start", "type": "trip", "request": {"item": "train"}}, since=since)
        assert work_off(trips) == [True]
        (letter,) = letters(trips)
        assert "older than 14 days" in letter["reason"]
        assert listed(trips, "trip") == []

    @pytest.mark.parametrize("since", ["inf", "1e300", "nan", "-inf", "soon"])
    def test_no_attribute_makes_a_command_immortal(self, trips: Site, since: str) -> None:
        send(trips, {"command": "cancel", "type": "trip", "saga_id": NOBODY}, since=since)
        records = records_of(trips)
        records[0]["attributes"]["SentTimestamp"] = str(int((trips.clock.now() - commands.GIVE_UP_AFTER - 1) * 1000))
        assert commands.handler({"Records": records}, LambdaContext())["batchItemFailures"] == []
        assert len(letters(trips)) == 1

    def test_what_this_code_cannot_handle_is_given_up_with_its_reason(
        self, trips: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: Any, **__: Any) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(type(trips.engine.starter), "start", broken)
        send(trips, {"command": "start", "type": "trip", "request": {"item": "train"}})
        assert work_off(trips, receives=10) == [True]
        (letter,) = letters(trips)
        assert letter["reason"] == "handling it failed: ZeroDivisionError"

    def test_what_there_is_no_time_for_comes_back(self, trips: Site) -> None:
        send(trips, {"command": "start", "type": "trip", "request": {"item": "train"}})
        assert work_off(trips, remaining=5.0) == [False]
        assert listed(trips, "trip") == []
