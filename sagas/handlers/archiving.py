"""The function behind the audit table's stream: copies the audit trail to S3, as it is written."""

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
from sagas.handlers.observability.telemetry import telemetry
from sagas.handlers.warming import warm
from sagas.store.journal.entries import action_of
from sagas.store.journal.journal import entry_if_any

ARCHIVE_BUCKET = "SAGAS_ARCHIVE_BUCKET"
"""The variable that names the bucket."""
_PREFIX = "audit"


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Write the records of one batch into one object, a line of JSON each.

    Its key is ``audit/YYYY/MM/DD/HH/NUMBER-ID.jsonl.gz``, by the time, the sequence number and the id of its first
    record: a batch that is repeated writes the same object. Numbers are of a shard: those of two may be the same.
    Batches that are cut otherwise when repeated write some lines again; saga and seq tell.

    A line has what a purge leaves of an entry too (when, who, what of which saga and step), its ``seal``, which stands
    for payload and details, and ``prev``, the hash of the entry before it: no payload, no text of an error. Returns the
    object's ``key`` and how many ``lines`` it has; nothing if there was nothing to write.
    """
    try:
        changes = [one for one in event["Records"] if one["eventName"] != "REMOVE"]
        lines = [_line(one["eventName"], one["dynamodb"]["NewImage"]) for one in changes]
        first = [
            (one["dynamodb"]["ApproximateCreationDateTime"], one["dynamodb"]["SequenceNumber"], one["eventID"])
            for one in changes
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = Problem("$.Records", "must be records of a DynamoDB stream with new images")
        raise InvalidRequest("the event does not fit", [problem]) from error
    if not lines:
        return {}
    at, number, event_id = first[0]
    key = f"{_PREFIX}/{datetime.fromtimestamp(float(at), UTC):%Y/%m/%d/%H}/{number}-{event_id}.jsonl.gz"
    # Without a time in it, the same lines are the same bytes.
    body = gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
    with translated("S3"):
        connect("s3", PAYLOADS).put_object(
            Bucket=os.environ[ARCHIVE_BUCKET],
            Key=key,
            Body=body,
            ContentType="application/x-ndjson",
            ContentEncoding="gzip",
            # Buckets with Object Lock ask for a checksum.
            ChecksumAlgorithm="SHA256",
        )
    telemetry().logger.info("archived", extra={"key": key, "lines": len(lines)})
    return {"key": key, "lines": len(lines)}


def _line(change: str, image: Mapping[str, Any]) -> str:
    """One entry as it is archived. An item that is no entry is told of, for nobody else will."""
    item = {name: _plain(value) for name, value in image.items()}
    saga_id, seq = item["saga_id"]["S"], int(item["seq"]["N"])
    entry = entry_if_any(item)
    if entry is None:
        told: dict[str, Any] = {"saga_id": saga_id, "seq": seq, "change": "unreadable"}
    elif entry.tombstone is not None:
        purge = entry.tombstone.purge
        told = {"saga_id": saga_id, "seq": seq, "change": "purged", "saga": entry.saga}
        told |= {"at": iso(purge.at), "actor": purge.by}
    else:
        action = action_of(entry)
        told = {
            "saga_id": saga_id,
            "seq": seq,
            # Entries are written once: another change is nothing that the library does.
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
    return json.dumps(told, separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """An attribute as DynamoDB itself answers it: an event has bytes in base64."""
    match value:
        case {"B": str(text)}:
            return {"B": base64.b64decode(text)}
        case {"M": members}:
            return {"M": {name: _plain(one) for name, one in cast("dict[str, Any]", members).items()}}
        case {"L": members}:
            return {"L": [_plain(one) for one in cast("list[Any]", members)]}
        case _:
            return value


warm(lambda: connect("s3", PAYLOADS))
