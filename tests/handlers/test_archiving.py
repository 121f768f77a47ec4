"""The archive of the audit trail: what the function on the audit table's stream writes."""

from __future__ import annotations

import base64
import copy
import gzip
import json
from typing import Any

import pytest
from typer.testing import CliRunner

from sagas.cli.main import app
from sagas.core.text import iso
from sagas.errors import FORMAT, InvalidRequest
from sagas.handlers import archiving
from sagas.store.connection import SharedConnection
from sagas.store.journal.entries import linked
from sagas.store.restored import purged_by_hand
from tests.handlers.conftest import ANN, Make, Site
from tests.support.aws import REGION, LambdaContext
from tests.support.sagas import Trip

AT = 1_790_000_000
BUCKET = "kept"
KEY = "audit/2026/09/21/14/000000000000000000001-id1.jsonl.gz"


@pytest.fixture
def trips(site: Make) -> Site:
    made = site(Trip, SAGAS_ARCHIVE_BUCKET=BUCKET)
    made.stack.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return made


def image(value: Any) -> Any:
    """An attribute as an event of a stream has it."""
    match value:
        case {"B": content}:
            return {"B": base64.b64encode(content).decode()}
        case {"M": members}:
            return {"M": {name: image(one) for name, one in members.items()}}
        case _:
            return value


def record(item: dict[str, Any], change: str = "INSERT", number: int = 1, event_id: str = "id1") -> dict[str, Any]:
    shown = {name: image(value) for name, value in item.items()}
    told = {"NewImage": shown, "SequenceNumber": f"{number:021d}", "ApproximateCreationDateTime": AT}
    return {"eventID": event_id, "eventName": change, "eventSource": "aws:dynamodb", "dynamodb": told}


def entries(site: Site) -> list[dict[str, Any]]:
    items = site.stack.dynamodb.scan(TableName=site.stack.audit_table)["Items"]
    return sorted(items, key=lambda item: int(item["seq"]["N"]))


def archive(*records: dict[str, Any]) -> dict[str, Any]:
    return archiving.handler({"Records": list(records)}, LambdaContext())


def archived(site: Site, key: str = KEY) -> list[dict[str, Any]]:
    body = site.stack.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    return [json.loads(line) for line in gzip.decompress(body).decode().splitlines()]


def test_what_was_written_is_archived_with_its_hashes(trips: Site) -> None:
    saga_id = trips.begin("trip", {"item": "a secret"})
    trips.run()
    found = entries(trips)
    assert archive(*map(record, found)) == {"key": KEY, "lines": len(found)}
    lines = archived(trips)
    assert [line["action"] for line in lines] == trips.actions(saga_id)
    assert {(line["saga_id"], line["saga"], line["change"]) for line in lines} == {(saga_id, "trip", "written")}
    head = b""
    for line in lines:
        assert base64.b64decode(line["prev"]) == head
        told = (line[name] for name in ("action", "step", "attempt", "status", "actor"))
        head = linked(head, (line["saga_id"], line["seq"], line["at"], line["saga"], *told), line["seal"])
    assert head == trips.state(saga_id).head


def test_no_payload_and_no_text_is_archived(trips: Site) -> None:
    trips.begin("trip", {"item": "a secret"})
    trips.run()
    archive(*map(record, entries(trips)))
    body = trips.stack.s3.get_object(Bucket=BUCKET, Key=KEY)["Body"].read()
    assert b"secret" not in gzip.decompress(body)


def test_a_batch_that_is_repeated_writes_the_same_object(trips: Site) -> None:
    trips.begin("trip")
    trips.run()
    batch = [record(item) for item in entries(trips)]
    tags: set[str] = set()
    for _ in range(2):
        archive(*batch)
        tags.add(trips.stack.s3.head_object(Bucket=BUCKET, Key=KEY)["ETag"])
    assert len(tags) == trips.stack.s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 1


def test_batches_of_two_shards_with_the_same_number_are_two_objects(trips: Site) -> None:
    trips.begin("trip")
    trips.run()
    first, second, *_ = entries(trips)
    keys = [archive(record(first))["key"], archive(record(second, event_id="id2"))["key"]]
    assert [[line["seq"] for line in archived(trips, key)] for key in keys] == [[1], [2]]


def test_a_purge_and_a_change_are_told_apart(trips: Site) -> None:
    saga_id = trips.begin("trip")
    trips.run()
    trips.clock.advance(3600)
    changed = record(entries(trips)[1], "MODIFY")
    assert trips.call("POST", f"/sagas/trip/{saga_id}/purge", {"reason": "asked to"}).status == 200
    (left,) = entries(trips)
    archive(changed, record(left, "MODIFY"))
    assert [(line["seq"], line["change"]) for line in archived(trips)] == [(2, "changed"), (1, "purged")]
    assert "asked to" not in json.dumps(archived(trips))


def test_what_is_no_entry_is_told_of(trips: Site) -> None:
    trips.begin("trip")
    item = {name: value for name, value in entries(trips)[0].items() if name != "action"}
    archive(record(item))
    assert [line["change"] for line in archived(trips)] == ["unreadable"]


SPOILED: list[dict[str, Any]] = [
    {"seq": {"N": "0.5"}},
    {"seq": {"N": "1E+40"}},
    {"seq": {"N": "10000000000000000000000000000000000000000"}},
    {"format": {"N": str(FORMAT + 1)}},
    {"format": {"N": "0.5"}},
    {"format": {"S": "1"}},
    {"action": {"S": "Invented"}},
    {"at": {"S": "soon"}},
    {"at": {"N": "1"}},
    {"details": {"S": "none"}},
    {"details": {"M": {"hidden": {"B": b"\x00"}}}},
    {"prev": {"S": "none"}},
    {"token": {"N": "1E+40"}},
    {"attempt": {"N": "0.5"}},
    {"payload": {"N": "1"}},
    {"purge": {"M": {}}},
    {"purge": {"S": "now"}},
    {"payload_ref": {"L": []}},
]


@pytest.mark.parametrize("spoiled", SPOILED, ids=str)
def test_an_entry_that_cannot_be_read_stops_no_other(trips: Site, spoiled: dict[str, Any]) -> None:
    """A step's role may write anything into the table."""
    saga_id = trips.begin("trip")
    trips.run()
    first, second, *_ = entries(trips)
    archive(record(first | spoiled), record(second))
    lines = archived(trips)
    assert [line["saga_id"] for line in lines] == [saga_id, saga_id]
    assert lines[0]["change"] in ("unreadable", "written")
    assert lines[0].get("action", "SagaStarted") == "SagaStarted"
    assert (lines[1]["seq"], lines[1]["change"]) == (2, "written")
    if "seq" in spoiled:
        assert str(lines[0]["seq"]) == spoiled["seq"]["N"]


def test_what_was_deleted_is_no_entry(trips: Site) -> None:
    assert archive({"eventName": "REMOVE", "dynamodb": {}}) == {}


OTHERS: list[Any] = [{}, {"Records": [{}]}, {"Records": None}, [], {"Records": [record({})]}]


@pytest.mark.parametrize("event", OTHERS)
def test_another_event_is_refused(trips: Site, event: Any) -> None:
    with pytest.raises(InvalidRequest, match="the event is invalid"):
        archiving.handler(event, LambdaContext())


def test_sagas_purged_by_hand_that_a_restore_brings_back_are_listed(trips: Site) -> None:
    purged, gone, expired, kept, earlier = (trips.begin("trip") for _ in range(5))
    trips.run()
    trips.clock.advance(3_600)
    restored_to = trips.clock.now()
    table = trips.stack.sagas_table
    items = {one["saga_id"]["S"]: one for one in trips.stack.dynamodb.scan(TableName=table)["Items"]}
    trips.clock.advance(60)
    for saga_id in (purged, gone, expired):
        path = f"/sagas/trip/{saga_id}/purge"
        assert trips.call("POST", path, {"reason": "asked to"}).status == 200
    tombstones = {one["saga_id"]["S"]: one for one in entries(trips) if "purge" in one}
    by_supervisor = copy.deepcopy(tombstones[expired])
    by_supervisor["purge"]["M"]["purge"]["M"]["by"] = {"S": "supervisor"}
    before: dict[str, Any] = copy.deepcopy(tombstones[purged]) | {"saga_id": {"S": earlier}}
    before["purge"]["M"]["purge"]["M"]["at"] = {"S": iso(restored_to - 60)}
    changes = [tombstones[purged], tombstones[gone], by_supervisor, before]
    at = trips.clock.now()
    for _ in range(2):  # a batch may be archived twice
        archive(*(at_time(record(one, "MODIFY"), at) for one in changes), at_time(record(entries(trips)[0]), at))
    for saga_id in (purged, expired, kept, earlier):  # the other one had not begun at the time of the restore
        trips.stack.dynamodb.put_item(TableName=table, Item=items[saga_id])
    connection = SharedConnection(region=REGION)
    (found,) = purged_by_hand(connection, trips.stack.s3, table, BUCKET, restored_to)
    assert (found.saga, found.saga_id, found.actor) == ("trip", purged, ANN)
    assert purged_by_hand(connection, trips.stack.s3, table, BUCKET, at + 7_200) == []
    arguments = ["trim", table, trips.stack.audit_table, "--archive", BUCKET, "--region", REGION, "--yes"]
    result = CliRunner().invoke(app, [*arguments, "--restored-to", iso(restored_to)])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[1:] == [
        f"{BUCKET}: 1 saga purged by hand after that time",
        f"sagas purge trip {purged}  # purged at {found.at} by {ANN}",
    ]


def at_time(change: dict[str, Any], at: float) -> dict[str, Any]:
    """A change at another time."""
    return change | {"dynamodb": change["dynamodb"] | {"ApproximateCreationDateTime": at}}
