"""Sagas in flight from the last release's tables are finished by this version.

``in_flight.json`` is what the release left in both tables, messages lost. ``pytest tests/versions/test_upgrade.py``
with ``RECORD_IN_FLIGHT=1`` records it anew, from the wheel beside it, which is done once a release.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.aws import HandmadeStack
from tests.versions.turns import ERRANDS, HERE, RELEASE, Turns, taking_turns

pytestmark = pytest.mark.timeout(400)

_RECORDED = HERE / "in_flight.json"
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
    """This version alone at work; the release where it is to be recorded."""
    alone: dict[str, list[Path]] = {"release": [RELEASE]} if os.environ.get("RECORD_IN_FLIGHT") else {"this": []}
    with taking_turns(monkeypatch, 3, alone, lossy=False) as one:  # all messages were lost with the release's queues
        yield one


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
    text = json.dumps({"release": RELEASE.name, "started": started, "items": items}, indent=1, sort_keys=True)
    # Stack traces tell where this machine has its packages, and this project.
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    _RECORDED.write_text(text.replace(packages, "/shop/packages").replace(str(HERE.parents[1]), "/shop") + "\n")


def test_this_version_finishes_what_the_release_began(turns: Turns) -> None:
    if os.environ.get("RECORD_IN_FLIGHT"):
        record(turns)
        return
    recorded = json.loads(_RECORDED.read_text())
    assert recorded["release"] == RELEASE.name, "record it anew"
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
