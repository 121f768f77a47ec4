"""The function of the audit table's stream: copies the audit trail to S3 as it is written."""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from sagas.aws import PAYLOADS, connect, translated
from sagas.core.text import iso
from sagas.errors import InvalidRequest, Problem
from sagas.handlers.invocation import warm
from sagas.handlers.telemetry import frames, telemetry
from sagas.store.journal.entries import ARCHIVED, Entry, action_of
from sagas.store.journal.journal import entry_if_any

ARCHIVE_BUCKET = "SAGAS_ARCHIVE_BUCKET"
"""The variable that names the bucket."""


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Write the records of a batch into one object, with a line of JSON per record.

    The key is ``audit/YYYY/MM/DD/HH/NUMBER-ID.jsonl.gz``, from time, sequence number and id of the first record, so a
    repeated batch writes the same object. The id is needed because two shards can have the same sequence numbers. If a
    repeated batch has other bounds, some lines are written again. The fields saga and seq identify a line.

    A record that cannot be read becomes a line with ``"change": "unreadable"``. An error would have Lambda hold back
    all later records of the shard.

    A line contains what a purge leaves of an entry: time, actor, action, saga and step. It also has ``seal``, a hash
    that covers payload and details, and ``prev``, the hash of the previous entry. It has no payload and no error text.
    Returns the object's ``key`` and its number of ``lines``, or nothing if there was nothing to write.
    """
    try:
        changes = [record for record in event["Records"] if record["eventName"] != "REMOVE"]
        images = [(record["eventName"], record["dynamodb"]["NewImage"]) for record in changes]
        keys = [(image["saga_id"]["S"], image["seq"]["N"]) for _, image in images]
        first = [
            (record["dynamodb"]["ApproximateCreationDateTime"], record["dynamodb"]["SequenceNumber"], record["eventID"])
            for record in changes
        ]
    except (KeyError, TypeError, AttributeError) as error:
        problem = Problem("$.Records", "must be records of a DynamoDB stream with new images")
        raise InvalidRequest("the event is invalid", [problem]) from error
    lines = [_line(change, image, *key) for (change, image), key in zip(images, keys, strict=True)]
    if not lines:
        return {}
    at, number, event_id = first[0]
    key = f"{ARCHIVED}/{datetime.fromtimestamp(float(at), UTC):%Y/%m/%d/%H}/{number}-{event_id}.jsonl.gz"
    # Without the current time, the same lines give the same bytes.
    body = gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
    with translated("S3"):
        connect("s3", PAYLOADS).put_object(
            Bucket=os.environ[ARCHIVE_BUCKET],
            Key=key,
            Body=body,
            ContentType="application/x-ndjson",
            ContentEncoding="gzip",
            # Buckets with Object Lock require a checksum.
            ChecksumAlgorithm="SHA256",
        )
    telemetry().logger.info("archived", extra={"key": key, "lines": len(lines)})
    return {"key": key, "lines": len(lines)}


def _line(change: str, image: Mapping[str, Any], saga_id: str, seq: str) -> str:
    """Return the archived line of an item. An item that is not an entry, or that a newer version of the library has
    written, also gets a line. Otherwise nobody would notice it."""
    try:
        item = {name: _plain(value) for name, value in image.items()}
        entry = entry_if_any(item)
        fields = {"change": "unreadable"} if entry is None else _fields(change, entry)
        return _text({"saga_id": saga_id, "seq": int(seq), **fields})
    except Exception as error:  # noqa: BLE001 - whoever may write to the table must not stop the archive
        telemetry().logger.error("an entry could not be read", error=type(error).__name__, at=frames(error))
        return _text({"saga_id": saga_id, "seq": seq, "change": "unreadable"})


def _fields(change: str, entry: Entry) -> dict[str, Any]:
    if entry.tombstone is not None:
        purge = entry.tombstone.purge
        return {"change": "purged", "saga": entry.saga, "at": iso(purge.at), "actor": purge.by}
    action = action_of(entry)
    return {
        # The library writes each entry once. A start changes the item of an expired tombstone.
        "change": "written" if change == "INSERT" else "changed",
        "saga": entry.saga,
        "action": action.action,
        "status": action.status,
        "step": action.step,
        "attempt": action.attempt,
        "at": iso(action.at),
        "actor": action.actor,
        "seal": action.seal,
        "prev": base64.b64encode(entry.link).decode(),
    }


def _text(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return an attribute as DynamoDB itself would. In events, bytes are in base64."""
    match value:
        case {"B": str(text)}:
            return {"B": base64.b64decode(text)}
        case {"M": members}:
            return {"M": {name: _plain(member) for name, member in cast("dict[str, Any]", members).items()}}
        case {"L": members}:
            return {"L": [_plain(member) for member in cast("list[Any]", members)]}
        case _:
            return value


warm(lambda: connect("s3", PAYLOADS))
