"""Sagas in flight from the last release's tables are finished by this version.

``in_flight.json`` is what the release left in both tables, messages lost. ``pytest tests/versions/test_upgrade.py``
with ``RECORD_IN_FLIGHT=1`` records it anew, from the wheel beside it, which is done once a release.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.aws import REGION, HandmadeStack
from tests.support.databases import emulator
from tests.versions.shared_sagas import Errands
from tests.versions.test_side_by_side import ERRANDS, Turns, Version

pytestmark = pytest.mark.timeout(400)

_HERE = Path(__file__).parent
_RECORDED = _HERE / "in_flight.json"
_RELEASE = next(_HERE.glob("*.whl"))
_ENDS = {
    "happy": "COMPLETED",
    "once at first": "COMPLETED",
    "once at third": "COMPLETED",
    "rejected at second": "COMPENSATED",
    "rejected at third": "COMPENSATED",
    "rejected at fourth": "COMPENSATED",
    "exhausted": "COMPENSATED",
    "dead-lettered": "DEAD_LETTERED",
}


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Turns]:
    """A stack with empty tables, and this version alone at work; the release where it is to be recorded."""
    url = emulator().endpoint_url
    credentials = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}
    for key, value in credentials.items():
        monkeypatch.setenv(key, value)
    stack = HandmadeStack(Errands, prefix=f"u{uuid4().hex[:8]}", endpoint_url=url)
    environment = stack.environment | credentials | {"AWS_ENDPOINT_URL": url or "", "TURN_REMAINING": "60"}
    path = [_RELEASE] if os.environ.get("RECORD_IN_FLIGHT") else []
    version = Version("release" if path else "this", path, environment)
    yield Turns(stack, [version], random.Random(3))  # noqa: S311 - the same turns each time
    version.end()


def _tables(stack: HandmadeStack) -> dict[str, str]:
    return {"sagas": stack.sagas_table, "audit": stack.audit_table}


def record(turns: Turns) -> None:
    """Start sagas by the release, let them get to different places, and write down what its tables hold."""
    started: dict[str, str] = {}
    for further in (2, 3, 0):  # those that began earlier are further on
        for errand in ERRANDS:
            if errand["name"] in _ENDS:
                _, saga = turns.next().call("POST", "/sagas/errands", errand)
                started[saga["saga_id"]] = errand["name"]
        for _ in range(further):
            turns.deliver()
    items: dict[str, list[dict[str, Any]]] = {}
    for name, table in _tables(turns.stack).items():
        pages = turns.stack.dynamodb.get_paginator("scan").paginate(TableName=table)
        items[name] = [item for page in pages for item in page["Items"]]
    text = json.dumps({"release": _RELEASE.name, "started": started, "items": items}, indent=1, sort_keys=True)
    _RECORDED.write_text(text + "\n")


def test_this_version_finishes_what_the_release_began(turns: Turns) -> None:
    if os.environ.get("RECORD_IN_FLIGHT"):
        record(turns)
        return
    recorded = json.loads(_RECORDED.read_text())
    assert recorded["release"] == _RELEASE.name, "record it anew"
    for name, table in _tables(turns.stack).items():
        for item in recorded["items"][name]:
            turns.stack.dynamodb.put_item(TableName=table, Item=item)
    started: dict[str, str] = recorded["started"]
    stood = {turns.stack.control(saga_id)["status"]["S"] for saga_id in started}
    assert len(stood) > 2, "they stand at different places"
    ended = turns.run(list(started))
    assert {saga_id: _ENDS[name] for saga_id, name in started.items()} == ended
    (this,) = turns.versions
    for saga_id in started:
        entries = turns.stack.entries(saga_id)
        assert [int(entry["seq"]) for entry in entries] == list(range(1, len(entries) + 1))
        status, verified = this.call("GET", f"/sagas/errands/{saga_id}/verification")
        assert (status, verified["verified"]) == (200, True), verified
