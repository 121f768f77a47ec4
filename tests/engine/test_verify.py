"""Audit trails are verified by their hashes: whatever is changed, taken away or put in is found, and named."""

from __future__ import annotations

from typing import Any

import pytest

from sagas.errors import NotFound, Rejected
from sagas.store.journal.chain import Bad, ChainFinding, Wrong
from sagas.store.journal.journal import Journal
from tests.engine.metering import Wire
from tests.support.bench import Bench, Make
from tests.support.sagas import FAIL, Bulky, Trip

pytestmark = pytest.mark.usefixtures("clean")
LONG = "c" * 128


def _undone(b: Bench, **options: Any) -> str:
    """A trip with something of everything: a retry, a failure, undos."""
    FAIL["book"], FAIL["tell"] = 1, Rejected("no")
    saga_id = b.start("trip", {"item": "train"}, **options)
    b.run()
    assert b.status(saga_id) == "COMPENSATED"
    return saga_id


def _found(b: Bench, saga_id: str, name: str = "trip") -> ChainFinding:
    return b.engine.verifier.verify(name, saga_id).finding


def _set(b: Bench, saga_id: str, seq: int, path: str, value: dict[str, Any] | None) -> None:
    names = {f"#{part}": part for part in path.split(".")}
    where = ".".join(names)
    given: dict[str, Any] = {"ExpressionAttributeValues": {":value": value}} if value else {}
    b.stack.dynamodb.update_item(
        TableName=b.stack.audit_table,
        Key={"saga_id": {"S": saga_id}, "seq": {"N": str(seq)}},
        UpdateExpression=f"SET {where} = :value" if value else f"REMOVE {where}",
        ExpressionAttributeNames=names,
        **given,
    )


def _delete(b: Bench, saga_id: str, seq: int) -> None:
    b.stack.dynamodb.delete_item(TableName=b.stack.audit_table, Key={"saga_id": {"S": saga_id}, "seq": {"N": str(seq)}})


def _set_head(b: Bench, saga_id: str, value: bytes) -> None:
    b.stack.dynamodb.update_item(
        TableName=b.stack.sagas_table,
        Key={"saga_id": {"S": saga_id}},
        UpdateExpression="SET head = :head",
        ExpressionAttributeValues={":head": {"B": value}},
    )


def test_a_trail_that_nobody_touched_verifies(bench: Make) -> None:
    b = bench(Trip)
    saga_id = _undone(b)
    assert _found(b, saga_id) == ChainFinding(b.state(saga_id).seq, None)


def test_so_does_one_at_every_moment_of_its_life(bench: Make) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", {"item": "train"})
    assert _found(b, saga_id) == ChainFinding(1, None)
    for name in ("book", "pay", "tell"):
        b.deliver("trip", name)
        assert _found(b, saga_id) == ChainFinding(b.state(saga_id).seq, None)


CHANGES: list[tuple[str, dict[str, Any] | None]] = [
    ("at", {"S": "2026-01-01T00:00:00.000Z"}),
    ("saga", {"S": "other"}),
    ("action", {"S": "SagaRecovered"}),
    ("action", {"S": "Whatever"}),
    ("status", {"S": "DEAD_LETTERED"}),
    ("step", {"S": "pay"}),
    ("attempt", {"N": "7"}),
    ("actor", {"S": "mallory"}),
    ("correlation_id", {"S": "other"}),
    ("trace_id", {"S": "other"}),
    ("token", {"N": "99"}),
    ("details.more", {"S": "more"}),
    ("payload", {"S": '{"number":9}'}),
    ("salt", {"S": "0" * 22}),
    ("action", None),
    ("at", None),
]


@pytest.mark.parametrize("seq", [1, 3, 8])
def test_a_changed_entry_is_named(bench: Make, seq: int) -> None:
    b = bench(Trip)
    saga_id = _undone(b)
    assert b.state(saga_id).seq == 8
    key = {"saga_id": {"S": saga_id}, "seq": {"N": str(seq)}}
    item = b.stack.dynamodb.get_item(TableName=b.stack.audit_table, Key=key)["Item"]
    for path, value in CHANGES:
        _set(b, saga_id, seq, path, value)
        assert _found(b, saga_id).bad == Bad(seq, Wrong.CHANGED), path
        b.stack.dynamodb.put_item(TableName=b.stack.audit_table, Item=item)
    assert _found(b, saga_id).bad is None


@pytest.mark.parametrize("value", [{"B": b"x" * 32}, None])
@pytest.mark.parametrize("seq", [2, 3, 8])
def test_so_is_one_whose_hash_of_its_predecessor_was_changed(
    bench: Make, seq: int, value: dict[str, Any] | None
) -> None:
    b = bench(Trip)
    saga_id = _undone(b)
    _set(b, saga_id, seq, "prev", value)
    assert _found(b, saga_id).bad == Bad(seq, Wrong.CHANGED)


@pytest.mark.parametrize(("seq", "wrong"), [(1, Wrong.MISSING), (3, Wrong.MISSING), (8, Wrong.CUT_OFF)])
def test_a_missing_entry_is_named(bench: Make, seq: int, wrong: Wrong) -> None:
    b = bench(Trip)
    saga_id = _undone(b)
    _delete(b, saga_id, seq)
    assert _found(b, saga_id).bad == Bad(seq, wrong)


def test_a_trail_that_is_cut_off_is_found_by_the_control_item(bench: Make) -> None:
    b = bench(Trip)
    saga_id = _undone(b)
    for seq in (5, 6, 7, 8):
        _delete(b, saga_id, seq)
    assert _found(b, saga_id).bad == Bad(5, Wrong.CUT_OFF)


def _insert(b: Bench, saga_id: str, seq: int) -> None:
    """Put a copy of the last entry into the trail."""
    key = {"saga_id": {"S": saga_id}, "seq": {"N": "8"}}
    item = b.stack.dynamodb.get_item(TableName=b.stack.audit_table, Key=key)["Item"]
    b.stack.dynamodb.put_item(TableName=b.stack.audit_table, Item=item | {"seq": {"N": str(seq)}})


def test_an_entry_that_was_put_in_behind_the_last_is_found(bench: Make) -> None:
    b = bench(Trip)
    saga_id = _undone(b)
    _insert(b, saga_id, 10)
    assert _found(b, saga_id).bad == Bad(10, Wrong.INSERTED)


def test_one_in_the_open_slot_may_be_a_holders_that_died(bench: Make) -> None:
    b = bench(Trip)
    saga_id = _undone(b)
    _insert(b, saga_id, 9)
    assert _found(b, saga_id) == ChainFinding(8, None)


@pytest.mark.parametrize("head", [b"x" * 32, b""])
def test_another_head_means_the_last_entry_is_not_the_one_that_was_written(bench: Make, head: bytes) -> None:
    b = bench(Trip)
    saga_id = _undone(b)
    _set_head(b, saga_id, head)
    assert _found(b, saga_id).bad == Bad(8, Wrong.CHANGED)


@pytest.mark.parametrize("body", [b'"' + b"y" * 20_000 + b'"', None])
def test_a_payload_in_the_bucket_is_looked_at_too(bench: Make, body: bytes | None) -> None:
    b = bench(Bulky)
    saga_id = b.start("bulky", {"item": "x"})
    b.run()
    assert _found(b, saga_id, "bulky") == ChainFinding(3, None)
    [stored] = b.stack.s3.list_objects_v2(Bucket=b.stack.bucket)["Contents"]
    if body is None:
        b.stack.s3.delete_object(Bucket=b.stack.bucket, Key=stored["Key"])
    else:
        b.stack.s3.put_object(Bucket=b.stack.bucket, Key=stored["Key"], Body=body)
    assert _found(b, saga_id, "bulky").bad == Bad(2, Wrong.CHANGED)


def test_what_a_purge_leaves_verifies(bench: Make) -> None:
    b = bench(Trip)
    saga_id = _undone(b)
    b.clock.advance(100)
    purged_at = b.clock.now()
    b.engine.purger.purge("trip", saga_id, "asked for", "ann")
    assert b.engine.control.get(saga_id) is None
    verified = b.engine.verifier.verify("trip", saga_id)
    assert (verified.finding, verified.purged_at) == (ChainFinding(8, None), purged_at)


def test_a_tombstone_that_was_changed_does_not(bench: Make) -> None:
    b = bench(Trip)
    saga_id = _undone(b)
    b.clock.advance(100)
    b.engine.purger.purge("trip", saga_id, "asked for", "ann")
    key = {"saga_id": {"S": saga_id}, "seq": {"N": "1"}}
    actions = b.stack.dynamodb.get_item(TableName=b.stack.audit_table, Key=key)["Item"]["purge"]["M"]["actions"]["L"]
    actions[3]["L"][6] = {"S": "mallory"}
    _set(b, saga_id, 1, "purge.actions", {"L": actions})
    assert _found(b, saga_id).bad == Bad(1, Wrong.CHANGED)
    _set(b, saga_id, 1, "purge.actions", {"L": [*actions[:2], *actions[3:]]})
    assert _found(b, saga_id).bad == Bad(3, Wrong.MISSING)


def test_an_unknown_saga(bench: Make) -> None:
    b = bench(Trip, Bulky)
    with pytest.raises(NotFound):
        _found(b, "01a201d8-242d-7440-bbb8-d476b8c7cd6b")
    with pytest.raises(NotFound):
        _found(b, _undone(b), "bulky")


def test_a_saga_that_goes_on_meanwhile_is_no_broken_one(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", {"item": "train"})
    everything = b.engine.journal.everything

    def late(self: Journal, asked_for: str) -> Any:
        b.run()
        return everything(asked_for)

    monkeypatch.setattr(Journal, "everything", late)
    assert _found(b, saga_id) == ChainFinding(4, None)


# A sample.


def test_a_sample_finds_what_is_broken(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip, Bulky)
    b.clock.advance(10_000)
    whole = _undone(b)
    b.clock.advance(100)
    broken = _undone(b)
    _set(b, broken, 3, "actor", {"S": "mallory"})
    b.clock.advance(86_400)
    dice = iter([at / 7 for at in range(7)] * 300)
    monkeypatch.setattr(b.clock, "chance", lambda: next(dice))
    report = b.engine.verifier.sample(400, 60.0)
    assert (report.verified, report.failed) == (2, 0)
    assert report.broken == [("trip", broken, Bad(3, Wrong.CHANGED))]
    assert whole != broken


def test_a_sample_ends_in_time(bench: Make) -> None:
    b = bench(Trip)
    _undone(b)
    assert b.engine.verifier.sample(10, 0.0).verified == 0


def test_one_that_cannot_be_looked_at_keeps_no_other(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    _undone(b)
    dice = iter([at / 7 for at in range(7)] * 30)
    monkeypatch.setattr(b.clock, "chance", lambda: next(dice))

    def fail(*_: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(Journal, "everything", fail)
    report = b.engine.verifier.sample(20, 60.0)
    assert (report.verified, report.failed) == (0, 1)


# A correlation id that is too long for the control item is in the journal and in the messages.


def test_a_long_correlation_id_stays_in_every_entry_and_message(bench: Make, wire: Wire) -> None:
    b = bench(Trip)
    FAIL["book"], FAIL["tell"] = 1, Rejected("no")
    saga_id = b.start("trip", {"item": "train"}, correlation_id=LONG)
    assert LONG not in str(b.stack.control(saga_id))
    b.lose_messages()
    b.clock.advance(1_000)
    assert b.recover() == [saga_id]
    b.run()
    assert b.status(saga_id) == "COMPENSATED"
    assert {str(entry["correlation_id"]) for entry in b.stack.entries(saga_id)} == {LONG}
    assert b.show(saga_id)["correlation_id"] == LONG
    bodies = [asked["MessageBody"] for name, asked in wire.requests if name == "SendMessage"]
    assert all(LONG in body for body in bodies)
    assert _found(b, saga_id) == ChainFinding(b.state(saga_id).seq, None)


def test_and_when_a_cancel_wins_over_the_commit(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", {"item": "train"}, correlation_id=LONG)
    b.deliver("trip", "book")
    commit = b.engine.control.commit

    def cancelled_before(*arguments: Any) -> None:
        monkeypatch.undo()
        b.engine.operations.cancel("trip", saga_id, "ann")
        commit(*arguments)

    monkeypatch.setattr(b.engine.control, "commit", cancelled_before)
    b.run()
    assert b.status(saga_id) == "CANCELLED"
    assert {str(entry["correlation_id"]) for entry in b.stack.entries(saga_id)} == {LONG}
    assert _found(b, saga_id) == ChainFinding(b.state(saga_id).seq, None)
