"""What a purge leaves to the sweep: the objects in S3 that a saga's results named."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sagas import S3Object, Saga, step
from sagas.authoring.redaction import Secret
from sagas.errors import Unavailable
from sagas.store.journal.journal import Payloads
from tests.engine.purges import DAY, HOUR, purge, start, stored
from tests.support.bench import Bench, Make
from tests.support.sagas import Order


@dataclass
class Pages:
    title: str
    first: S3Object
    others: list[S3Object]
    hidden: Secret[str]
    draft: Secret[S3Object]


class Book(Saga[Order], name="book"):
    @step
    def scan(self) -> S3Object:
        return S3Object("books", "books/1/scan.pdf", 12)

    @step
    def bind(self, scan: S3Object, request: Order) -> Pages:
        parts = [S3Object("books", f"books/1/{number}.pdf") for number in range(int(request.item))]
        return Pages("x" * 20_000, scan, parts, "s3cret", S3Object("books", "books/1/draft.pdf"))


class Memo(Saga[Order], name="memo"):
    """Its first execution has much to say, the next one little."""

    executions = 0

    @step
    def write(self) -> str:
        Memo.executions += 1
        return "x" * 20_000 if Memo.executions == 1 else "x"


def _left(bench: Bench, saga_id: str) -> tuple[list[str], int]:
    """The keys that the answer names, and how many more there were."""
    shown = bench.engine.reader.show("book", saga_id)
    assert {one["bucket"] for one in shown.get("objects", [])} <= {"books"}
    return [one["key"] for one in shown.get("objects", [])], shown.get("more_objects", -1)


def _bound(bench: Bench, parts: str = "2") -> str:
    saga_id = start(bench, "book", {"item": parts}).state.saga_id
    bench.run()
    assert bench.show(saga_id)["status"] == "COMPLETED"
    assert "objects" not in bench.engine.reader.show("book", saga_id)
    bench.clock.advance(HOUR)
    return saga_id


def test_objects_that_the_results_named_are_named_once_by_what_is_left(keeping: Make) -> None:
    bench = keeping(Book)
    saga_id = _bound(bench)
    left = purge(bench, saga_id, name="book")
    expected = ("books/1/scan.pdf", "books/1/0.pdf", "books/1/1.pdf")
    assert (left.objects, left.more_objects) == (tuple(("books", key) for key in expected), 0)
    assert _left(bench, saga_id) == ([*expected], 0)
    purge(bench, saga_id, name="book")
    assert _left(bench, saga_id) == ([*expected], 0)
    assert "draft" not in stored(bench)


def test_a_purge_by_retention_names_them_too(keeping: Make) -> None:
    bench = keeping(Book)
    saga_id = _bound(bench, "0")
    bench.clock.advance(DAY)
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    assert _left(bench, saga_id) == (["books/1/scan.pdf"], 0)


def test_a_hundred_are_named_and_the_others_counted(keeping: Make) -> None:
    bench = keeping(Book)
    saga_id = _bound(bench, "150")
    purge(bench, saga_id, name="book")
    keys, more = _left(bench, saga_id)
    assert (len(keys), keys[-1], more) == (100, "books/1/98.pdf", 51)


def test_long_names_leave_room_for_the_rest_of_a_tombstone(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.engine.supervise.purge._MOST_BYTES", 50)
    bench = keeping(Book)
    saga_id = _bound(bench)
    purge(bench, saga_id, name="book")
    assert _left(bench, saga_id) == (["books/1/scan.pdf", "books/1/0.pdf"], 1)


def test_a_purge_that_is_interrupted_still_names_them(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = keeping(Book)
    saga_id = _bound(bench)
    tombstones = bench.engine.purger.tombstones
    for method in ("put", "clear"):
        with monkeypatch.context() as patched:
            patched.setattr(tombstones, method, _away)
            with pytest.raises(Unavailable):
                purge(bench, saga_id, name="book")
    purge(bench, saga_id, name="book")
    assert len(_left(bench, saga_id)[0]) == 3


def _away(*_: object, **__: object) -> None:
    raise Unavailable("DynamoDB is out of reach")


def test_a_payload_that_is_gone_stops_no_purge(keeping: Make) -> None:
    bench = keeping(Book)
    saga_id = _bound(bench)
    for one in bench.stack.s3.list_objects_v2(Bucket=bench.stack.bucket)["Contents"]:
        bench.stack.s3.delete_object(Bucket=bench.stack.bucket, Key=one["Key"])
    purge(bench, saga_id, name="book")
    assert _left(bench, saga_id) == (["books/1/scan.pdf"], 0)


def test_what_an_earlier_version_left_names_none(keeping: Make) -> None:
    bench = keeping(Book)
    saga_id = _bound(bench)
    purge(bench, saga_id, name="book")
    update = "REMOVE purge.objects, purge.more_objects"
    key = {"saga_id": {"S": saga_id}, "seq": {"N": "1"}}
    bench.stack.dynamodb.update_item(TableName=bench.stack.audit_table, Key=key, UpdateExpression=update)
    assert _left(bench, saga_id) == ([], 0)


def test_what_an_execution_put_aside_and_never_named_goes_too(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = keeping(Memo)
    monkeypatch.setattr(Memo, "executions", 0)
    put = Payloads.put

    def dying(self: Payloads, saga_id: str, seq: int, token: int, payload: str) -> str:
        put(self, saga_id, seq, token, payload)
        raise SystemExit

    saga_id = start(bench, "memo").state.saga_id
    with monkeypatch.context() as patched:
        patched.setattr(Payloads, "put", dying)
        with pytest.raises(SystemExit):
            bench.deliver("memo", "write")
    bench.clock.advance(HOUR)
    bench.run()
    assert (bench.show(saga_id)["status"], Memo.executions) == ("COMPLETED", 2)
    assert f"{saga_id}/2/1/" in stored(bench)
    bench.clock.advance(HOUR)
    purge(bench, saga_id, name="memo")
    assert "payloads/" not in stored(bench)


def test_where_nothing_was_put_aside_retention_does_not_ask_s3(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = keeping(Memo)
    monkeypatch.setattr(Memo, "executions", 1)
    asked: list[str] = []

    def delete_all(_: Payloads, saga_id: str) -> None:
        asked.append(saga_id)

    monkeypatch.setattr(Payloads, "delete_all", delete_all)
    saga_id = start(bench, "memo").state.saga_id
    bench.run()
    bench.clock.advance(DAY)
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    assert asked == []


def test_a_purge_by_hand_always_asks_s3(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused start may have died after it stored its request, which no entry names."""
    bench = keeping(Memo)
    monkeypatch.setattr(Memo, "executions", 1)
    saga_id = start(bench, "memo").state.saga_id
    bench.run()
    bench.engine.payloads.put(saga_id, 1, "of a refused start", "x" * 20_000)
    purge(bench, saga_id, name="memo")
    assert "payloads/" not in stored(bench)
