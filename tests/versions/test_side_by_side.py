"""The last release and this one at work on the same sagas, in turns: every saga ends, and its journal is whole.

Every later version must keep this test green; a release then goes into ``tests/versions`` as a wheel, built by
``python -m hatchling build -t wheel`` at its tag, in place of the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.versions.turns import ERRANDS, RELEASE, Turns, taking_turns

_NAME = "errands"


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Turns]:
    with taking_turns(monkeypatch, 7, {"release": [RELEASE], "this": []}) as both:
        yield both


def _check(turns: Turns, saga_id: str) -> None:
    """The journal is whole, and both versions read the same saga."""
    entries = turns.stack.entries(saga_id)
    assert [int(entry["seq"]) for entry in entries] == list(range(1, len(entries) + 1))
    completed = Counter(entry["step"] for entry in entries if entry["action"] == "StepCompleted")
    undone = Counter(entry["step"] for entry in entries if entry["action"] == "StepCompensated")
    assert set(completed.values()) | set(undone.values()) <= {1}
    read = [version.call("GET", f"/sagas/{_NAME}/{saga_id}") for version in turns.versions]
    released, saga = (body for _, body in read)
    assert [status for status, _ in read] == [200, 200]
    told = {field: saga[field] for field in released}
    told["steps"] = [
        {field: step[field] for field in known} for step, known in zip(saga["steps"], released["steps"], strict=True)
    ]
    assert released == told, "this version may tell more"
    assert saga["status"] == entries[-1]["status"]
    verified = turns.versions[1].call("GET", f"/sagas/{_NAME}/{saga_id}/verification")[1]
    assert verified["verified"], verified


def test_every_saga_ends(turns: Turns) -> None:
    started: dict[str, str] = {}
    for errand in ERRANDS * 2:
        status, saga = turns.next().call("POST", f"/sagas/{_NAME}", errand)
        assert status == 202
        started[saga["saga_id"]] = errand["name"]
    ended = turns.run(list(started))
    for saga_id, name in started.items():
        _check(turns, saga_id)
        if name == "dead-lettered":
            status, _ = turns.next().call("POST", f"/sagas/{_NAME}/{saga_id}/retry", {"note": "once more"})
            assert status == 202
    assert {started[saga_id]: status for saga_id, status in ended.items()} == {
        "happy": "COMPLETED",
        "large": "COMPLETED",
        "once at first": "COMPLETED",
        "once at third": "COMPLETED",
        "rejected at second": "COMPENSATED",
        "rejected at third": "COMPENSATED",
        "rejected at fourth": "COMPENSATED",
        "exhausted": "COMPENSATED",
        "dead-lettered": "DEAD_LETTERED",
    }
    dead = [saga_id for saga_id, name in started.items() if name == "dead-lettered"]
    turns.run(dead)
    for saga_id in dead:
        status, _ = turns.next().call("POST", f"/sagas/{_NAME}/{saga_id}/compensate", {"note": "no more"})
        assert status == 202
    assert set(turns.run(dead).values()) == {"COMPENSATED"}
    for saga_id in dead:
        _check(turns, saga_id)
    assert min(turns.handled.values()) > 20, "both had their turns"


def test_what_this_version_purged_the_release_does_not_run_again(turns: Turns) -> None:
    """It knows of no purge: it takes the key for one that was used with another request."""
    release, this = turns.versions
    path, errand = f"/sagas/{_NAME}", {"name": "happy"}
    status, saga = this.call("POST", path, errand, key="once")
    assert status == 202
    saga_id = saga["saga_id"]
    assert turns.run([saga_id]) == {saga_id: "COMPLETED"}
    key, long_ago = {"saga_id": {"S": saga_id}}, {"Value": {"S": "2026-01-01T00:00:00.000Z"}}
    turns.stack.dynamodb.update_item(
        TableName=turns.stack.sagas_table, Key=key, AttributeUpdates={"created_at": long_ago | {"Action": "PUT"}}
    )
    assert this.call("POST", f"{path}/{saga_id}/purge")[0] == 200
    status, refused = release.call("POST", path, errand, key="once")
    assert (status, refused["error"]["code"]) == (422, "idempotency_key_reused")
    status, left = this.call("POST", path, errand, key="once")
    assert (status, left["status"], left["request"]) == (200, "COMPLETED", None)
    assert turns.deliver() == 0
    assert "Item" not in turns.stack.dynamodb.get_item(TableName=turns.stack.sagas_table, Key=key)
    assert len(turns.stack.entries(saga_id)) == 1
