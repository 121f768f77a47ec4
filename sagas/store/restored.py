"""Trims restored tables: removes entries and joins that are newer than the restored table of sagas.

DynamoDB restores tables one by one, to slightly different times. Missing items would be lost, so entries and joins are
restored to a later time than the sagas. All surplus items were written after the time of the sagas. A parallel scan
filters by time, and compares a hundred results at a time with the sagas, so memory does not grow with the tables. No
saga may run on the tables yet. An interrupted run can be repeated.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from functools import partial
from threading import Event
from typing import Any

from msgspec import Struct

from sagas.aws import translated
from sagas.core.ids import child_id
from sagas.core.states import ENDED, Purge
from sagas.core.text import epoch, iso
from sagas.store.connection import SharedConnection
from sagas.store.control.mapping import Item, attributes_of, number_in
from sagas.store.joins import FORWARD
from sagas.store.journal.entries import ARCHIVED

_SEGMENTS = 32
"""The number of segments of a table that are scanned in parallel."""
_TOGETHER = 100
"""The number of items that are compared with their sagas at a time. DynamoDB reads up to 100 per request."""
_BEFORE = 3_600.0
"""Seconds of overlap. A function may write an entry up to 15 minutes after its time, and its clock may be off."""


class Trimmed(Struct, frozen=True):
    """The result of a run.

    Args:
        scanned: the number of items that DynamoDB scanned.
        removed: the number of items that were removed.
    """

    scanned: int
    removed: int


def time_of_restore(connection: SharedConnection, table: str) -> float | None:
    """Return the epoch seconds to which DynamoDB restored a table; ``None`` if it was not restored by DynamoDB."""
    described = connection.dispatch("DescribeTable", {"TableName": table})["Table"]
    restored: datetime | None = described.get("RestoreSummary", {}).get("RestoreDateTime")
    return None if restored is None else restored.timestamp()


def trim_audit(connection: SharedConnection, sagas: str, audit: str, restored_to: float) -> Trimmed:
    """Remove entries that the sagas have not committed yet, so each saga is as it was at the time of the restored
    table.
    ``restored_to``: epoch seconds to which the table of sagas was restored."""

    def trim(entries: Sequence[Item]) -> int:
        restored = _sagas(connection, sagas, (entry["saga_id"]["S"] for entry in entries), "seq", "token")
        later = [entry for entry in entries if _comes_later(entry, restored.get(entry["saga_id"]["S"]))]
        connection.delete_many(audit, [{"saga_id": entry["saga_id"], "seq": entry["seq"]} for entry in later])
        return len(later)

    return _scan_recent(connection, audit, restored_to, ("saga_id", "seq", "token", "purge"), trim)


def _comes_later(entry: Item, saga: Item | None) -> bool:
    if saga is None:
        return "purge" not in entry  # tombstones of purged sagas stay
    seq = number_in(entry, "seq")
    # One entry may be ahead of its saga, under the token of the saga's claim. The next worker adopts it.
    ahead = number_in(saga, "seq") + 1, number_in(saga, "token")
    return seq > number_in(saga, "seq") and (seq, number_in(entry, "token")) != ahead


def trim_joins(connection: SharedConnection, sagas: str, joins: str, restored_to: float) -> Trimmed:
    """Remove outcomes that their children have not reached yet, and correct the counts of these joins. ``restored_to``:
    epoch seconds to which the table of sagas was restored."""
    changed = set[str]()

    def look(ends: Sequence[Item]) -> int:
        changed.update(end["join"]["S"] for end in _still_to_come(connection, sagas, ends))
        return 0

    scanned = _scan_recent(connection, joins, restored_to, ("join", "part", "round"), look).scanned
    with ThreadPoolExecutor(_SEGMENTS, "trimming") as pool:
        removed = sum(pool.map(partial(_trim_join, connection, sagas, joins), changed))
    return Trimmed(scanned, removed)


def _trim_join(connection: SharedConnection, sagas: str, joins: str, join: str) -> int:
    """Remove the early outcomes of a join, and correct its counts. Return the number of removed outcomes."""
    request = {
        "TableName": joins,
        "KeyConditionExpression": "#join = :join",
        "ExpressionAttributeNames": {"#join": "join"},
        "ExpressionAttributeValues": {":join": {"S": join}},
        "ConsistentRead": True,
    }
    items = [item for page in _pages(connection, "Query", request) for item in page["Items"]]
    ends = [item for item in items if not item["part"]["S"].startswith("sum#")]
    early = _still_to_come(connection, sagas, ends)
    removed = {item["part"]["S"] for item in early}
    counts = Counter(
        f"{end['part']['S'].partition('#')[0]}_{end['how']['S']}" for end in ends if end["part"]["S"] not in removed
    )
    # The counts come first: while an early outcome remains, a repeated run corrects them again.
    total = attributes_of({"join": join, "part": "sum#00", **counts})
    connection.dispatch("PutItem", {"TableName": joins, "Item": total})
    others = [item for item in items if item["part"]["S"].startswith("sum#") and item["part"] != total["part"]]
    for surplus in (others, early):
        connection.delete_many(joins, [{"join": item["join"], "part": item["part"]} for item in surplus])
    return len(early)


def _still_to_come(connection: SharedConnection, sagas: str, ends: Sequence[Item]) -> list[Item]:
    """Return the outcomes that their children have not reached yet."""
    children = {_child_of(end): end for end in ends}
    restored = _sagas(connection, sagas, children, "status", "order")
    return [end for end in ends if not _has_come(end, restored.get(_child_of(end), {}))]


class PurgedSaga(Struct, frozen=True, order=True):
    """A restored saga that a caller had purged. ``at``: when, as text."""

    at: str
    saga: str
    saga_id: str
    actor: str


def purged_by_hand(
    connection: SharedConnection, s3: Any, sagas: str, bucket: str, restored_to: float
) -> list[PurgedSaga]:
    """Return the restored sagas that callers had purged after that time, as the archive of the audit trail has it.
    Those whose retention expires are purged again without a request. ``restored_to``: epoch seconds to which the table
    of sagas was restored."""
    first = datetime.fromtimestamp(restored_to - _BEFORE, UTC)
    place = {"Bucket": bucket, "Prefix": f"{ARCHIVED}/", "StartAfter": f"{ARCHIVED}/{first:%Y/%m/%d/%H}"}

    def purges(key: str) -> list[PurgedSaga]:
        text = gzip.decompress(s3.get_object(Bucket=bucket, Key=key)["Body"].read()).decode()
        lines = [json.loads(line) for line in text.splitlines() if '"purged"' in line]
        return [
            PurgedSaga(line["at"], line["saga"], line["saga_id"], line["actor"])
            for line in lines
            if line["change"] == "purged" and Purge(epoch(line["at"]), line["actor"]).requested
        ]

    with translated("S3"), ThreadPoolExecutor(_SEGMENTS, "reading") as pool:
        pages = s3.get_paginator("list_objects_v2").paginate(**place)
        keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        purged = {one.saga_id: one for found in pool.map(purges, keys) for one in found if one.at > iso(restored_to)}
    return sorted(purged[saga_id] for saga_id in _sagas(connection, sagas, purged))


def _child_of(end: Item) -> str:
    parent, step, _ = end["join"]["S"].split("#")
    position = int(end["part"]["S"].partition("#")[2])
    return child_id(parent, step, position, number_in(end, "round"))


def _has_come(end: Item, child: Item) -> bool:
    phase = end["part"]["S"].partition("#")[0]
    order = number_in(child, "order")
    if phase == FORWARD:
        return order != 0 or ("status" in child and child["status"]["S"] in ENDED)
    number = int(phase[1:])  # the number of the undo, which is negative in the child once the undo has ended
    return order > number or -order >= number


def _sagas(connection: SharedConnection, table: str, ids: Iterable[str], *attributes: str) -> dict[str, Item]:
    """Return the existing sagas by id."""
    keys = [{"saga_id": {"S": saga_id}} for saga_id in dict.fromkeys(ids)]
    items = connection.get_many(table, keys, consistent=True, attributes=("saga_id", *attributes))
    return {item["saga_id"]["S"]: item for item in items}


def _scan_recent(
    connection: SharedConnection,
    table: str,
    restored_to: float,
    attributes: Sequence[str],
    handle: Callable[[Sequence[Item]], int],
) -> Trimmed:
    """Scan a table with several threads for items from about ``restored_to`` (epoch seconds) or later."""
    stopped = Event()
    request = {
        "TableName": table,
        "FilterExpression": "#at >= :since",
        "ProjectionExpression": ", ".join(f"#{name}" for name in attributes),
        "ExpressionAttributeNames": {f"#{name}": name for name in ("at", *attributes)},
        "ExpressionAttributeValues": {":since": {"S": iso(restored_to - _BEFORE)}},
        "TotalSegments": _SEGMENTS,
    }

    def segment(number: int) -> Trimmed:
        scanned = 0
        removed = 0
        recent = list[Item]()
        for page in _pages(connection, "Scan", request | {"Segment": number}):
            if stopped.is_set():
                break
            scanned += page["ScannedCount"]
            recent += page["Items"]
            if len(recent) >= _TOGETHER:
                removed += handle(recent)
                recent = []
        return Trimmed(scanned, removed + handle(recent))

    with ThreadPoolExecutor(_SEGMENTS, "trimming") as pool:
        segments = [pool.submit(segment, number) for number in range(_SEGMENTS)]
        try:
            wait(segments, return_when=FIRST_EXCEPTION)
        finally:
            stopped.set()  # interrupted by an error or Ctrl-C
    parts = [segment.result() for segment in segments]
    return Trimmed(sum(part.scanned for part in parts), sum(part.removed for part in parts))


def _pages(connection: SharedConnection, operation: str, request: Item) -> Iterator[dict[str, Any]]:
    while True:
        page = connection.dispatch(operation, dict(request))
        yield page
        if "LastEvaluatedKey" not in page:
            return
        request = request | {"ExclusiveStartKey": page["LastEvaluatedKey"]}
