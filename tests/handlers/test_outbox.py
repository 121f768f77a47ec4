"""The function that tells events, from the stream of the control table and from the journals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import boto3
import pytest
from jsonschema_rs import validator_for
from msgspec.structs import replace

from benchmarks import prices
from sagas import Context, Saga, step, wait_for
from sagas.cdk.messages.events import filters_of
from sagas.core.rules import needs_attention
from sagas.core.states import Parent, SagaState, SagaStatus, StepState, StepStatus
from sagas.core.text import iso
from sagas.engine.observe.events import SAGA_EVENTS, STEP_EVENTS, event_schema, events_of_entries
from sagas.errors import InvalidRequest, NotFound, Rejected, Unavailable
from sagas.handlers import outbox, supervisor
from sagas.handlers.tasks import publishing
from sagas.store.journal.entries import Entry
from sagas.store.journal.journal import Journal
from sagas.testing.expressions import copied
from tests.engine.metering import metered
from tests.handlers.conftest import Make, Site
from tests.handlers.test_commands import Loan
from tests.support.aws import REGION, LambdaContext
from tests.support.dynamodb import aws
from tests.support.sagas import FAIL, Order, Trip


class Bus:
    """A bus that keeps what it is told, and may be down."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.requests: list[int] = []
        self.down = 0
        """How many of the next entries it refuses."""

    def put_events(self, Entries: list[dict[str, Any]]) -> dict[str, Any]:
        results: list[dict[str, str]] = []
        self.requests.append(len(Entries))
        assert sum(len(entry["Detail"].encode()) for entry in Entries) <= 256 * 1024, "EventBridge refuses all of these"
        for entry in Entries:
            if self.down > 0:
                self.down -= 1
                results.append({"ErrorCode": "ThrottlingException", "ErrorMessage": "later"})
            else:
                self.entries.append(entry)
                results.append({"EventId": "e"})
        return {"FailedEntryCount": sum("ErrorCode" in one for one in results), "Entries": results}

    @property
    def told(self) -> list[tuple[str, dict[str, Any]]]:
        return [(one["DetailType"], json.loads(one["Detail"])) for one in self.entries]

    def names(self, saga_id: str) -> list[str]:
        return [name for name, detail in self.told if detail["saga_id"] == saga_id]


class Outbox:
    """A deployment whose control table has a stream."""

    def __init__(self, site: Site, bus: Bus) -> None:
        self.site, self.bus = site, bus
        with aws() as tables:
            self.stream = tables.memory.streams.setdefault(site.stack.sagas_table, [])
        self.done = 0

    def records(self) -> list[dict[str, Any]]:
        return copied(self.stream)

    def tell(self) -> list[str]:
        """Invoke the function with what is new in the stream; return the names of the events."""
        records, before = self.records()[self.done :], len(self.bus.entries)
        outbox.handler({"Records": records}, LambdaContext())
        self.done += len(records)
        return [one["DetailType"] for one in self.bus.entries[before:]]

    def replay(self, since: float = 0.0, **more: Any) -> dict[str, Any]:
        return supervisor.handler({"task": "replay", "since": iso(since), **more}, LambdaContext())


@pytest.fixture
def box(site: Make) -> Callable[..., Outbox]:
    def make(**environment: str) -> Outbox:
        names = {"SAGAS_EVENT_BUS": "bus", "SAGAS_EVENT_SOURCE": "sagas.test"}
        made, bus = site(Trip, Loan, SmallLoan, **names, **environment), Bus()
        outbox.reset()
        supervisor.reset()
        publishing.bus().__dict__["_client"] = bus
        return Outbox(made, bus)

    return make


class SmallLoan(Saga[Order]):
    """Answers its own wait."""

    @wait_for(bool, timeout=timedelta(days=1))
    def approval(self, ctx: Context) -> None:
        ctx.signal(True)

    @step
    def pay(self, approval: bool) -> bool:
        return approval


MakeBox = Callable[..., Outbox]


def test_the_requests_are_such_as_eventbridge_takes(site: Make) -> None:
    """The other tests keep what is told in a bus of their own."""
    cast("Any", boto3).client("events", region_name=REGION).create_event_bus(Name="mine")
    made = site(Trip, Loan, SAGAS_EVENT_BUS="mine", SAGAS_EVENT_SOURCE="sagas.test")
    outbox.reset()
    box = Outbox(made, Bus())
    made.begin("trip")
    assert outbox.handler({"Records": box.records()}, LambdaContext()) == {"published": 1}


def test_start_and_end_are_told_and_nothing_between(box: MakeBox) -> None:
    b = box()
    saga_id = b.site.begin("trip")
    assert b.tell() == ["SagaStarted"]
    b.site.run()
    assert b.tell() == ["SagaCompleted"]
    (_, started), (_, completed) = b.bus.told
    state = b.site.state(saga_id)
    assert completed == {
        "id": f"{saga_id}:{state.seq}:SagaCompleted", "type": "trip", "saga_id": saga_id, "seq": state.seq,
        "status": "COMPLETED", "at": iso(state.updated_at), "correlation_id": saga_id,
    }  # fmt: skip
    assert (started["seq"], started["status"]) == (1, "PENDING")
    assert {one["Source"] for one in b.bus.entries} == {"sagas.test"}
    assert {one["EventBusName"] for one in b.bus.entries} == {"bus"}


def endings(site: Site) -> dict[str, tuple[str, list[str]]]:
    """Sagas that end in each way, and what is told of each after its start."""
    found: dict[str, tuple[str, list[str]]] = {}
    FAIL["pay"] = Rejected("no")
    found["undone"] = site.begin("trip"), ["SagaCompensated"]
    site.run()
    FAIL["unbook"] = RuntimeError("stuck")
    found["stuck"] = site.begin("trip"), ["SagaCompensationFailed", "SagaNeedsAttention"]
    site.run()
    FAIL.clear()
    found["cancelled"] = site.begin("loan"), ["SagaWaiting", "SagaCancelled"]
    found["signalled"] = site.begin("loan"), ["SagaWaiting", "SagaCompleted"]
    found["signalled before"] = site.begin("loan"), ["SagaCompleted"]
    site.call("POST", f"/sagas/loan/{found['signalled before'][0]}/signals/approval", {"granted": True})
    site.clock.advance(1)
    found["answered"] = site.begin("small-loan"), ["SagaCompleted"]
    site.run()
    assert site.call("DELETE", f"/sagas/loan/{found['cancelled'][0]}").status in (200, 202)
    site.call("POST", f"/sagas/loan/{found['signalled'][0]}/signals/approval", {"granted": True})
    site.run()
    return found


def test_each_end_and_each_wait_is_told_once(box: MakeBox) -> None:
    b = box()
    expected = endings(b.site)
    b.tell()
    for saga_id, names in expected.values():
        assert b.bus.names(saga_id) == ["SagaStarted", *names]
    waiting = next(detail for name, detail in b.bus.told if name == "SagaWaiting")
    assert (waiting["step"], waiting["waiting_for"], waiting["status"]) == ("approval", "signal", "WAITING")
    assert waiting["waits_until"] > waiting["at"]
    described = validator_for(event_schema("sagas.test"))
    for entry in b.bus.entries:
        told = {"source": entry["Source"], "detail-type": entry["DetailType"], "detail": json.loads(entry["Detail"])}
        described.validate(told)


def test_a_replay_tells_the_same_events_with_the_same_ids(box: MakeBox) -> None:
    b = box()
    endings(b.site)
    b.tell()
    first = {detail["id"]: (name, detail) for name, detail in b.bus.told}
    b.bus.entries.clear()
    answer = b.replay()
    again = {detail["id"]: (name, detail) for name, detail in b.bus.told}
    assert again.keys() == first.keys()
    for id, (name, detail) in again.items():
        assert (name, {**detail, "at": 0}) == (first[id][0], {**first[id][1], "at": 0})
    assert (answer["published"], answer["sagas"], answer["cursor"]) == (len(first), 6, None)


def test_a_replay_tells_of_a_failed_child_what_was_told() -> None:
    """It is on no list: its parent has failed, or tolerates it."""
    steps = (StepState("pay", StepStatus.FAILED),)
    state = SagaState("c", "child", "1", steps, status=SagaStatus.FAILED, seq=2)
    entries = [Entry("c", 1, 1.0, "child", "SagaStarted", "PENDING", 0)]
    entries.append(Entry("c", 2, 2.0, "child", "SagaFailed", "FAILED", 1))
    told = [one.name for one in events_of_entries(state, entries, 0.0, steps=False)]
    assert told == ["SagaStarted", "SagaFailed", "SagaNeedsAttention"]
    child = replace(state, parent=Parent("p", "parent", "children", 0))
    assert not needs_attention(child)
    assert [one.name for one in events_of_entries(child, entries, 0.0, steps=False)] == ["SagaStarted", "SagaFailed"]


def test_a_replay_of_a_type_since_a_time(box: MakeBox) -> None:
    b = box()
    b.site.begin("trip")
    b.site.run()
    b.site.clock.advance(3600)
    since = b.site.clock.now()
    b.site.begin("loan")
    later = b.site.begin("trip")
    b.site.run()
    assert b.replay(since, type="trip")["published"] == 2
    assert {detail["saga_id"] for _, detail in b.bus.told} == {later}


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"task": "replay"}, "since"),
        ({"task": "replay", "since": "yesterday"}, "since"),
        ({"task": "replay", "since": 7}, "since"),
        ({"task": "replay", "since": iso(0), "cursor": 7}, "cursor"),
    ],
)
def test_a_replay_that_does_not_fit(box: MakeBox, event: dict[str, Any], error: str) -> None:
    box()
    with pytest.raises(InvalidRequest) as raised:
        supervisor.handler(event, LambdaContext())
    assert error in raised.value.problems[0].path


def test_a_caller_of_the_supervisor_cannot_forge_an_event(box: MakeBox) -> None:
    b = box()
    b.site.begin("trip")
    forged = json.loads(json.dumps(b.records()[-1], default=str))
    forged["dynamodb"]["NewImage"]["status"]["S"] = "COMPLETED"
    with pytest.raises(InvalidRequest, match="the task must be"):
        supervisor.handler({"Records": [forged]}, LambdaContext())
    with pytest.raises(InvalidRequest) as refused:
        supervisor.handler({"task": "replay", "since": iso(0), "Records": [forged]}, LambdaContext())
    assert [problem.path for problem in refused.value.problems] == ["$.Records"]
    answer = supervisor.handler({"task": "replay", "since": iso(0)}, LambdaContext())
    assert answer["published"] == 1
    assert [name for name, _ in b.bus.told] == ["SagaStarted"]


@pytest.mark.parametrize("event", [{}, {"task": "replay", "since": iso(0)}, {"Records": None}])
def test_the_function_of_the_stream_takes_records_only(box: MakeBox, event: dict[str, Any]) -> None:
    b = box()
    b.site.begin("trip")
    with pytest.raises(InvalidRequest, match="no records of a stream"):
        outbox.handler(event, LambdaContext())
    assert b.bus.told == []


def test_a_replay_of_a_service_that_publishes_no_events(site: Make) -> None:
    site(Trip)
    publishing.bus.cache_clear()
    supervisor.reset()
    with pytest.raises(InvalidRequest, match="this service publishes no events"):
        supervisor.handler({"task": "replay", "since": iso(0)}, LambdaContext())


def test_a_replay_of_an_unknown_type(box: MakeBox) -> None:
    b = box()
    with pytest.raises(NotFound):
        b.replay(type="tripp")


def test_what_the_bus_does_not_take_is_sent_again_and_then_left_to_lambda(box: MakeBox) -> None:
    b = box()
    for _ in range(12):
        b.site.begin("trip")
    b.bus.down = 1
    assert b.tell() == ["SagaStarted"] * 12
    assert b.bus.requests == [10, 1, 2]
    b.site.begin("trip")
    b.bus.down = 3
    with pytest.raises(Unavailable, match="1 of 1 events were not accepted"):
        b.tell()
    assert b.tell() == ["SagaStarted"]


def test_what_cannot_be_read_holds_nothing_up(box: MakeBox, capsys: pytest.CaptureFixture[str]) -> None:
    b = box()
    b.site.begin("trip")
    good = [record for record in b.records() if "created_at" in record["dynamodb"]["NewImage"]]
    bad = json.loads(json.dumps(good[0], default=str))
    del bad["dynamodb"]["NewImage"]["created_at"]
    other = {"eventName": "INSERT", "dynamodb": {"NewImage": {"saga_id": {"S": "breaker#trip#pay"}}}}
    gone = {"eventName": "REMOVE", "dynamodb": {"OldImage": good[0]["dynamodb"]["NewImage"]}}
    assert outbox.handler({"Records": [bad, other, gone, *good]}, LambdaContext()) == {"published": 1}
    assert "EventNotPublished" in capsys.readouterr().out


ENTRIES: list[dict[str, Any]] = [
    {"format": {"N": "2"}},
    {"format": {"S": "1"}},
    {"action": {"S": "Invented"}},
    {"at": {"S": "soon"}},
    {"attempt": {"N": "0.5"}},
    {"details": {"S": "none"}},
    {"status": {"N": "1"}},
    {"correlation_id": {"S": "x" * 300_000}},
]
CONTROLS: list[dict[str, Any]] = [
    {"seq": {"N": "0.5"}},
    {"seq": {"N": "1E+40"}},
    {"seq": {"N": "1000000"}},
    {"seq": {"N": "1" + "0" * 40}},
    {"status": {"S": "WAITING"}, "steps": {"L": [{"S": "x"}]}},
    {"status": {"N": "1"}},
    {"updated_at": {"N": "1"}},
    {"saga_id": {"N": "1"}},
    {"saga": {"S": "x" * 300_000}, "status": {"S": "COMPLETED"}},
]


class TestSpoiled:
    """One item that cannot be read, because a newer version or a step's role wrote it, stops no other event."""

    def published(self, b: Outbox, saga_id: str) -> list[str]:
        """The events of a saga, if Lambda hands over one record after the other, and none of them fails."""
        for record in b.records():
            outbox.handler({"Records": [record]}, LambdaContext())
        return b.bus.names(saga_id)

    @pytest.mark.parametrize("spoiled", ENTRIES, ids=lambda each: str(each)[:60])
    def test_entry(self, box: MakeBox, spoiled: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
        b = box(SAGAS_EVENTS="steps")
        one, two = b.site.begin("trip"), b.site.begin("trip")
        b.site.run()
        key = {"saga_id": {"S": one}, "seq": {"N": "2"}}
        tables = b.site.stack.dynamodb
        item = tables.get_item(TableName=b.site.stack.audit_table, Key=key)["Item"]
        assert item["action"]["S"] == "StepCompleted"
        tables.put_item(TableName=b.site.stack.audit_table, Item=item | spoiled)
        whole = ["SagaStarted", *["StepCompleted"] * len(b.site.state(two).steps), "SagaCompleted"]
        assert sorted(self.published(b, two)) == sorted(whole)
        missing = len(whole) - len(b.bus.names(one))
        assert missing in (0, 1)
        assert ("EventNotPublished" in capsys.readouterr().out) is (missing == 1)
        before = len(b.bus.entries)
        assert b.replay()["sagas"] == 2
        assert "SagaCompleted" in [entry["DetailType"] for entry in b.bus.entries[before:] if two in entry["Detail"]]

    @pytest.mark.parametrize("spoiled", CONTROLS, ids=lambda each: str(each)[:60])
    def test_control_item(self, box: MakeBox, spoiled: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
        b = box(SAGAS_EVENTS="steps,payloads")
        one, two = b.site.begin("trip"), b.site.begin("trip")
        tables, name = b.site.stack.dynamodb, b.site.stack.sagas_table
        written = (record["dynamodb"]["NewImage"] for record in b.records())
        new = next(image for image in written if "name_shard" in image and image["saga_id"]["S"] == one)
        images = {"OldImage": new, "NewImage": new | {"seq": {"N": "2"}} | spoiled}
        bad = {"eventName": "MODIFY", "dynamodb": images}
        assert outbox.handler({"Records": [bad, *b.records()]}, LambdaContext())["published"] >= 2
        assert two in {detail["saga_id"] for _, detail in b.bus.told}
        assert "EventNotPublished" in capsys.readouterr().out or "updated_at" in spoiled
        if "saga_id" not in spoiled:
            stored = tables.get_item(TableName=name, Key={"saga_id": {"S": one}})["Item"]
            tables.put_item(TableName=name, Item=stored | {"steps": {"S": "none"}})
            assert b.replay()["sagas"] == 2

    def test_an_outage_is_still_an_error(self, box: MakeBox, monkeypatch: pytest.MonkeyPatch) -> None:
        """Lambda hands over the records again."""
        b = box(SAGAS_EVENTS="steps")
        b.site.begin("trip")
        b.site.run()

        def away(*_: object, **_named: object) -> None:
            raise Unavailable("DynamoDB is out of reach")

        monkeypatch.setattr(Journal, "readable", away)
        with pytest.raises(Unavailable):
            b.tell()


def test_steps_are_told_where_that_is_asked_for(box: MakeBox) -> None:
    b = box(SAGAS_EVENTS="steps")
    FAIL["pay"] = 1
    saga_id = b.site.begin("trip")
    b.site.run()
    b.tell()
    names = b.bus.names(saga_id)
    assert names.count("StepCompleted") == len(b.site.state(saga_id).steps)
    assert names.count("StepFailed") == 1
    seqs = [detail["seq"] for _, detail in b.bus.told if _.startswith("Step")]
    assert seqs == sorted(set(seqs))
    failed = next(detail for name, detail in b.bus.told if name == "StepFailed")
    assert (failed["step"], failed["attempt"]) == ("pay", 1)


def test_payloads_are_told_where_that_is_asked_for(box: MakeBox) -> None:
    b = box(SAGAS_EVENTS="steps,payloads")
    saga_id = b.site.begin("trip", {"item": "train", "count": 2})
    b.site.run()
    b.tell()
    told = {name: detail for name, detail in b.bus.told if name != "StepCompleted"}
    assert told["SagaStarted"]["request"] == {"item": "train", "count": 2}
    assert told["SagaCompleted"]["result"] == b.site.show(saga_id)["result"]
    first = next(detail for name, detail in b.bus.told if name == "StepCompleted")
    assert first["result"] == {"number": 2}


def test_a_payload_that_is_gone_is_not_told_as_null(box: MakeBox) -> None:
    b = box(SAGAS_EVENTS="steps,payloads")
    saga_id = b.site.begin("trip")
    b.site.run()
    b.site.clock.advance(3600)
    # The bus was away until after the purge.
    assert b.site.call("POST", f"/sagas/trip/{saga_id}/purge", {"reason": "asked to"}).status == 200
    b.tell()
    assert {"SagaStarted", "SagaCompleted"} <= {*b.bus.names(saga_id)}
    assert [detail for _, detail in b.bus.told if "request" in detail or "result" in detail] == []


def test_a_payload_that_cannot_be_read_is_not_told_as_null(box: MakeBox) -> None:
    b = box(SAGAS_EVENTS="steps,payloads", SAGAS_PAYLOAD_LIMIT="1024")
    saga_id = b.site.begin("trip", {"item": "train" * 1_000})
    for one in b.site.stack.s3.list_objects_v2(Bucket=b.site.stack.bucket)["Contents"]:
        b.site.stack.s3.delete_object(Bucket=b.site.stack.bucket, Key=one["Key"])
    b.tell()
    assert b.bus.names(saga_id) == ["SagaStarted"]
    assert "request" not in b.bus.told[0][1]


def test_a_result_is_told_of_a_saga_that_was_undone_since(box: MakeBox) -> None:
    b = box(SAGAS_EVENTS="payloads")
    saga_id = b.site.begin("loan")
    b.site.run()
    assert b.site.call("POST", f"/sagas/loan/{saga_id}/signals/approval", {"granted": True}).status == 202
    b.site.run()
    assert b.site.show(saga_id)["result"] is True
    assert b.site.call("POST", f"/sagas/loan/{saga_id}/compensate", {"reason": "a", "force": True}).status == 202
    b.site.run()
    b.tell()
    told = dict(b.bus.told)
    assert told["SagaCompleted"]["result"] is True
    assert "SagaCompensated" in told


def test_all_that_is_listed_is_described() -> None:
    assert event_schema()["properties"]["detail-type"]["enum"] == [*SAGA_EVENTS, *STEP_EVENTS]


# What docs/build/events.md says of the costs, against what is counted.

PAGE = (Path(__file__).parents[2] / "docs" / "build" / "events.md").read_text()
EVENT = 1.00
"""A million events of up to 64 KB put on a bus."""
GIGABYTES, SECONDS = 0.25, 0.05
STEPS = 3


def passes(record: Any, pattern: Any) -> bool:
    """Whether a record of a stream matches a pattern of Lambda's event filtering, as far as ours go."""
    if isinstance(pattern, dict):
        inside = cast("dict[str, Any]", pattern)
        if set(inside) <= {"exists", "prefix"}:
            return (record is not None) if inside.get("exists") else str(record or "").startswith(inside["prefix"])
        found = cast("dict[str, Any]", record or {})
        return all(passes(found.get(name), one) for name, one in inside.items())
    return any(record == one if isinstance(one, str) else passes(record, one) for one in pattern)


def told(b: Outbox, monkeypatch: pytest.MonkeyPatch, *, steps: bool) -> tuple[int, int, float]:
    """Tell a saga of three steps, each change by itself, which is the worst: how many invocations, events and read
    units that takes."""
    b.site.begin("trip")
    b.site.run()
    patterns, records = filters_of(steps=steps), b.records()
    records = [one for one in records if any(passes(one, pattern) for pattern in patterns)]
    meter = metered(b.site, monkeypatch)
    for one in records:
        outbox.handler({"Records": [one]}, LambdaContext())
    return len(records), len(b.bus.entries), meter.read_units


def usd(invocations: int, events: int, read_units: float) -> float:
    lasting = invocations * SECONDS * GIGABYTES * prices.GIGABYTE_SECOND_ARM
    return events * EVENT + invocations * prices.INVOCATION + lasting + read_units * prices.READ_UNIT


def said(row: str) -> tuple[float, str]:
    """The figure at the end of a row of the page, and the row."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {row}")]
    found = re.search(r"\| ([\d.]+)[^|]*\|$", line)
    assert found is not None
    return float(found[1]), line


def test_what_a_million_sagas_told_cost(box: MakeBox, monkeypatch: pytest.MonkeyPatch) -> None:
    invocations, events, reads = told(box(), monkeypatch, steps=False)
    assert (invocations, events, reads) == (2, 2, 0)
    figure, line = said("sagas that start and end, published")
    assert usd(invocations, events, reads) == pytest.approx(figure, abs=0.005), line


def test_what_each_step_told_costs_more(box: MakeBox, monkeypatch: pytest.MonkeyPatch) -> None:
    invocations, events, reads = told(box(SAGAS_EVENTS="steps"), monkeypatch, steps=True)
    assert (invocations, events, reads) == (1 + 2 * STEPS, 2 + STEPS, STEPS)
    more = usd(2, 1, 1)  # its claim is a change, too, of which nothing is told
    figure, line = said("with `steps=True`")
    assert more == pytest.approx(figure, abs=0.005), line
    assert usd(invocations, events, reads) <= usd(2, 2, 0) + STEPS * more
