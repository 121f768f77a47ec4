"""The tick only finds, and hands out what it finds: each saga once, as long as its message may be under way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sagas.engine.supervise import due_scan
from sagas.engine.supervise.due_scan import FindReport
from sagas.errors import Unavailable
from sagas.messaging.work import DueSagas, Work, parse_work
from sagas.store.index.listing import IndexPosition, Listing
from tests.support.bench import Bench
from tests.support.sagas import Trip

Make = Callable[..., Bench]


def stalled(b: Bench, count: int) -> set[str]:
    """Sagas whose messages are lost, due by now."""
    ids = {b.start("trip") for _ in range(count)}
    b.lose_messages()
    b.clock.advance(600)
    return ids


def taken(b: Bench) -> list[Work]:
    """What the queue holds; it is empty then."""
    found: list[Work] = []
    while records := b.stack.receive_from(b.stack.work, 10):
        for record in records:
            found.append(parse_work(record))
            b.stack.sqs.delete_message(QueueUrl=b.stack.work, ReceiptHandle=record["receiptHandle"])
    return found


def ids_in(work: list[Work]) -> list[str]:
    return [saga_id for one in work for _, saga_id in DueSagas.of(one).sagas]


def find(b: Bench) -> FindReport:
    return b.engine.finder.run("recover", 60.0)


def test_nothing_due_asks_the_index_and_nothing_else(bench: Make, wire: Any) -> None:
    b = bench(Trip)
    b.start("trip")
    wire.requests.clear()
    assert find(b) == FindReport()
    noted = ["GetItem", "UpdateItem"]
    each = "once for each shard, each of long waits, and once an hour each of paused sagas"
    assert [name for name, _ in wire.requests] == [*noted, *["Query"] * 8], each
    wire.requests.clear()
    assert find(b) == FindReport()
    assert [name for name, _ in wire.requests] == ["GetItem", *["Query"] * 4], "how many shards there are is noted once"


def test_many_ids_go_into_each_message(bench: Make, wire: Any) -> None:
    b = bench(Trip)
    ids = stalled(b, 60)
    wire.requests.clear()
    report = find(b)
    assert (report.found, report.messages, report.finished) == (60, 3, True)
    assert report.overdue > 0
    names = [name for name, _ in wire.requests]
    assert names.count("SendMessageBatch") == 1
    assert names.count("UpdateItem") == 3, "one for each page of a shard, and one that notes how many shards there are"
    work = taken(b)
    assert {one.task for one in work} == {"recover"}
    assert sorted(ids_in(work)) == sorted(ids)


def test_what_waits_in_the_queue_is_not_handed_out_again(bench: Make) -> None:
    b = bench(Trip)
    ids = stalled(b, 5)
    assert find(b).found == 5
    later = {b.start("trip") for _ in range(3)}
    b.lose_messages()
    counts: list[int] = []
    for _ in range(10):
        b.clock.advance(60)
        counts.append(find(b).found)
    assert sum(counts) == 3, counts
    assert sorted(ids_in(taken(b))) == sorted(ids | later)


def test_a_message_that_was_lost_loses_no_saga(bench: Make) -> None:
    b = bench(Trip)
    ids = stalled(b, 5)
    find(b)
    taken(b)
    assert find(b).found == 0, "the count of messages may be old"
    b.clock.advance(60)
    assert find(b).found == 5
    assert sorted(ids_in(taken(b))) == sorted(ids)


def test_a_round_ends_however_much_the_queue_holds(bench: Make) -> None:
    b = bench(Trip)
    ids = stalled(b, 5)
    find(b)
    first = taken(b)
    b.engine.queues.send_work("bulk", [Work("sweep")])
    for _ in range(13):
        b.clock.advance(60)
        assert find(b).found == 0
    b.clock.advance(60)
    assert find(b).found == 5
    second = [one for one in taken(b) if one.task == "recover"]
    assert sorted(ids_in(second)) == sorted(ids)
    assert DueSagas.of(first[0]).until - b.clock.now() <= 60, "the messages of the first round are void by then"
    assert DueSagas.of(second[0]).until == b.clock.now() + due_scan.ROUND


def test_two_runs_at_once_hand_out_each_saga_once(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    ids = stalled(b, 10)
    other, page = b.deploy(), Listing.due_page
    seen: list[FindReport] = []

    def beaten(listing: Listing, shard: str, until: float, after: IndexPosition | None, limit: int) -> Any:
        found = page(listing, shard, until, after, limit)
        if limit > 1 and not seen:  # between the look at the first page and the note of it
            monkeypatch.setattr(Listing, "due_page", page)
            seen.append(other.finder.run("recover", 60.0))
        return found

    monkeypatch.setattr(Listing, "due_page", beaten)
    report = find(b)
    assert report.found + seen[0].found == 10
    assert sorted(ids_in(taken(b))) == sorted(ids)


def test_pages_are_read_until_the_budget_ends(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    ids = stalled(b, 30)
    monkeypatch.setattr(due_scan, "_PAGE", 4)
    page = type(b.engine.finder.listing).due_page

    def slow(*given: Any) -> Any:
        b.clock.advance(10)
        return page(*given)

    monkeypatch.setattr(type(b.engine.finder.listing), "due_page", slow)
    report = find(b)
    assert not report.finished
    assert 0 < report.found < 30
    found = ids_in(taken(b))
    b.engine.queues.send_work("bulk", [Work("sweep")])
    for _ in range(10):
        find(b)
    found += ids_in([one for one in taken(b) if one.task == "recover"])
    assert sorted(found) == sorted(ids), "the next goes on where this one stopped"


def test_what_was_noted_and_not_sent_is_found_again(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    ids = stalled(b, 5)

    def away(queue: str, work: Any) -> None:
        raise Unavailable("SQS is out of reach")

    with monkeypatch.context() as patch:
        patch.setattr(b.engine.queues, "send_work", away)
        with pytest.raises(Unavailable):
            find(b)
    b.clock.advance(60)
    assert find(b).found == 5
    assert sorted(ids_in(taken(b))) == sorted(ids)


def test_not_all_of_a_batch_were_taken(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    client = b.engine.queues._client  # pyright: ignore[reportPrivateUsage]

    def refuse(**_given: Any) -> dict[str, Any]:
        return {"Failed": [{"Id": "1"}]}

    monkeypatch.setattr(client, "send_message_batch", refuse)
    with pytest.raises(Unavailable, match="1 of 2 messages were not accepted"):
        b.engine.queues.send_work("bulk", [Work("sweep"), Work("sweep")])


def test_the_item_of_a_shard_is_in_no_index(bench: Make) -> None:
    b = bench(Trip)
    stalled(b, 5)
    find(b)
    items = b.stack.dynamodb.scan(TableName=b.stack.sagas_table)["Items"]
    ours = [item for item in items if item["saga_id"]["S"].startswith("due#")]
    assert ours
    assert not [item for item in ours if {"due", "open_shard", "name_shard"} & set(item)]
    assert json.dumps(ours)
