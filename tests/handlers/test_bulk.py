"""The function behind the work queue ``bulk``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sagas.core.text import iso
from sagas.errors import FORMAT
from sagas.handlers import bulk, supervisor
from sagas.messaging.work import MOST_HOPS, DueSagas, Work
from tests.handlers.conftest import Make, Site, load
from tests.support.aws import LambdaContext
from tests.support.sagas import Trip

NOBODY = "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17"


@pytest.fixture
def trips(site: Make) -> Site:
    bulk.reset()
    return site(Trip)


def send(site: Site, body: str) -> None:
    site.stack.sqs.send_message(QueueUrl=site.stack.work, MessageBody=body)


def work_off(site: Site) -> list[bool]:
    """Invoke the function with what its queue has, one message each time; whether each was handled."""
    handled: list[bool] = []
    while records := site.stack.receive_from(site.stack.work):
        answer = bulk.handler({"Records": records}, LambdaContext())
        handled.append(not answer["batchItemFailures"])
        if handled[-1]:
            site.stack.sqs.delete_message(QueueUrl=site.stack.work, ReceiptHandle=records[0]["receiptHandle"])
        elif len(handled) > 3:
            break
    return handled


def due(site: Site, *saga_ids: str, until: float = 900.0) -> DueSagas:
    return DueSagas([(iso(site.clock.now()), saga_id) for saga_id in saga_ids], site.clock.now() + until)


def test_recovers_what_was_found(trips: Site) -> None:
    ids = [trips.begin("trip") for _ in range(3)]
    trips.lose_messages()
    trips.clock.advance(600)
    send(trips, due(trips, *ids, NOBODY).work("recover").body)
    assert work_off(trips) == [True]
    assert [trips.state(saga_id).unanswered for saga_id in ids] == [1, 1, 1]
    trips.run()
    assert {trips.show(saga_id)["status"] for saga_id in ids} == {"COMPLETED"}


def test_a_tick_finds_what_the_queue_then_recovers(trips: Site, capsys: pytest.CaptureFixture[str]) -> None:
    saga = trips.begin("trip")
    trips.lose_messages()
    trips.clock.advance(600)
    supervisor.reset()
    assert supervisor.handler(load("schedule_recover"), LambdaContext()) == {
        "found": 1,
        "messages": 1,
        "finished": True,
    }
    assert trips.state(saga).recovery.attempts == 0
    assert supervisor.handler(load("schedule_recover"), LambdaContext())["found"] == 0
    assert work_off(trips) == [True]
    trips.run()
    assert trips.show(saga)["status"] == "COMPLETED"
    written = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "CloudWatchMetrics" in line]
    names = [
        (name, line.get("saga")) for line in written for name in ("OldestOverdueSaga", "MessageResent") if name in line
    ]
    of_service, of_type = ("OldestOverdueSaga", None), ("OldestOverdueSaga", "trip")
    assert names == [of_service, of_service, ("MessageResent", "trip"), of_type]


def test_a_tick_tells_that_shards_was_lowered(
    trips: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    supervisor.reset()
    supervisor.handler(load("schedule_recover"), LambdaContext())
    assert "ShardsReduced" not in capsys.readouterr().out
    monkeypatch.setenv("SAGAS_SHARDS", "1")
    supervisor.reset()
    supervisor.handler(load("schedule_recover"), LambdaContext())
    supervisor.reset()
    metrics = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "CloudWatchMetrics" in line]
    assert [line["ShardsReduced"] for line in metrics] == [[1.0]]


def test_a_second_delivery_does_nothing(trips: Site) -> None:
    saga = trips.begin("trip")
    trips.lose_messages()
    trips.clock.advance(600)
    body = due(trips, saga).work("recover").body
    send(trips, body)
    send(trips, body)
    assert work_off(trips) == [True, True]
    assert trips.state(saga).unanswered == 1


def test_a_message_that_came_too_late_is_void(trips: Site) -> None:
    saga = trips.begin("trip")
    trips.lose_messages()
    trips.clock.advance(600)
    send(trips, due(trips, saga, until=0).work("recover").body)
    send(trips, due(trips, saga, until=0).work("purge").body)
    assert work_off(trips) == [True, True]
    assert trips.state(saga).recovery.attempts == 0


def test_purges_only_what_is_over(trips: Site) -> None:
    saga = trips.begin("trip")
    send(trips, due(trips, saga).work("purge").body)
    assert work_off(trips) == [True]
    assert trips.state(saga).purge is None


def test_a_sweep_goes_on_by_further_messages(trips: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def sweep(work: Work, context: Any, engine: Any) -> list[dict[str, Any]]:
        details = work.details
        seen.append(details)
        return [{"from": details["from"] + 1}] if details["from"] < 3 else []

    monkeypatch.setattr(bulk, "continue_sweep", sweep)
    send(trips, Work("sweep", {"from": 1}, MOST_HOPS - 2).body)
    assert work_off(trips) == [True] * 3
    assert seen == [{"from": 1}, {"from": 2}, {"from": 3}]
    send(trips, Work("sweep", {"from": 1}, MOST_HOPS).body)
    assert work_off(trips)[:2] == [True, False], "a loop ends with the dead letters"


@pytest.mark.parametrize("body", ["", "no", "{}", '{"task":"dance"}', '{"task":"recover","details":{}}'])
def test_what_cannot_be_done_dies(trips: Site, body: str, caplog: pytest.LogCaptureFixture) -> None:
    send(trips, body or " ")
    assert work_off(trips)[0] is False
    assert "message refused" in [record.message for record in caplog.records]


def test_what_a_newer_version_sent_waits(trips: Site) -> None:
    send(trips, json.dumps({"task": "recover", "format": FORMAT + 1}))
    assert work_off(trips) == [True]
    counts = trips.stack.sqs.get_queue_attributes(QueueUrl=trips.stack.work, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessagesDelayed"] == "1"


def test_a_record_that_fails_is_back_in_a_second(trips: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(work: Work, context: Any, engine: Any) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(bulk, "recover_due", fail)
    hidden: list[float] = []
    send(trips, Work("recover").body)
    records = trips.stack.receive_from(trips.stack.work)
    engine = bulk._engine()  # pyright: ignore[reportPrivateUsage]

    def delay_record(record: object, seconds: float) -> None:
        hidden.append(seconds)

    monkeypatch.setattr(engine.queues, "delay_record", delay_record)
    assert bulk.handler({"Records": records}, LambdaContext())["batchItemFailures"]
    assert hidden == [0.75]
