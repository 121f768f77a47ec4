"""The last release and this one at work on the same sagas, in turns: every saga ends, and its journal is whole.

Every later version must keep this test green; a release then goes into ``tests/versions`` as a wheel, built by
``python -m hatchling build -t wheel`` at its tag, in place of the one before.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.aws import REGION, HandmadeStack
from tests.support.databases import emulator
from tests.versions.shared_sagas import Errands

_HERE = Path(__file__).parent
_RELEASE = next(_HERE.glob("*.whl"))
_NAME = "errands"
_OVER = {"COMPLETED", "COMPENSATED", "CANCELLED", "DEAD_LETTERED"}
_ROUNDS = 2_000
ERRANDS: list[dict[str, str]] = [
    {"name": "happy"},
    {"name": "large", "note": "x" * 20_000},
    *({"name": f"once at {step}", "fails_at": step, "how": "once"} for step in ("first", "third")),
    *({"name": f"rejected at {step}", "fails_at": step, "how": "rejected"} for step in ("second", "third", "fourth")),
    {"name": "exhausted", "fails_at": "third", "how": "always"},
    {"name": "dead-lettered", "fails_at": "fourth", "how": "always"},
]


@dataclass
class Version:
    """A process of one version of the library."""

    name: str
    path: list[Path]
    environment: dict[str, str]
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        # The sagas are imported as what the environment names them; this directory's parent has both.
        path = os.pathsep.join(map(str, [*self.path, _HERE.parents[1]]))
        self.process = subprocess.Popen(
            [sys.executable, str(_HERE / "turn.py")],
            env=self.environment | {"PYTHONPATH": path, "PATH": os.environ["PATH"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def tell(self, handler: str, event: dict[str, Any]) -> dict[str, Any]:
        """Have a handler handle an event; return its answer."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"handler": handler, "event": event}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"{self.name} has died"
        return json.loads(line)

    def call(self, method: str, path: str, body: Any = None, key: str = "") -> tuple[int, dict[str, Any]]:
        """Call the API; return the status and the body."""
        headers = {"Idempotency-Key": key} if key else {}
        event = {"httpMethod": method, "path": path, "headers": headers, "requestContext": {"stage": "v1"}}
        answer = self.tell("api", event | {"body": None if body is None else json.dumps(body)})
        return answer["statusCode"], json.loads(answer["body"])

    def end(self) -> None:
        """End the process."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(10)
        assert self.process.stdout
        self.process.stdout.close()


@dataclass
class Turns:
    """Both versions on one stack; ``dice`` decides whose turn it is."""

    stack: HandmadeStack
    versions: list[Version]
    dice: random.Random
    handled: Counter[str] = field(default_factory=Counter[str])

    def next(self) -> Version:
        return self.dice.choice(self.versions)

    def deliver(self) -> int:
        """Deliver a message from each queue: mostly once, at times twice, at times not at all."""
        delivered = 0
        for saga, step in self.stack.steps():
            records = self.stack.receive(saga, step)
            if not records:
                continue
            delivered += 1
            chance = self.dice.random()
            if chance < 0.04:  # lost
                self.stack.settle(saga, step, records, {"batchItemFailures": []})
                continue
            version = self.next()
            self.handled[version.name] += 1
            answer = version.tell("step", {"Records": records})
            if chance > 0.92:  # twice: the other one may get it, too
                answer = self.next().tell("step", {"Records": records})
            self.stack.settle(saga, step, records, answer)
        return delivered

    def run(self, saga_ids: list[str]) -> dict[str, str]:
        """Deliver, and recover where nothing moves, until every saga is over or waits for an operator."""
        for _ in range(_ROUNDS):
            if self.deliver():
                continue
            found = {saga_id: self.stack.control(saga_id)["status"]["S"] for saga_id in saga_ids}
            if set(found.values()) <= _OVER:
                return found
            self.next().tell("supervisor", {"task": "recover", "stale_after": 0})
        raise AssertionError("the sagas do not end")


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Turns]:
    url = emulator().endpoint_url
    credentials = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}
    for key, value in credentials.items():
        monkeypatch.setenv(key, value)
    stack = HandmadeStack(Errands, prefix=f"v{uuid4().hex[:8]}", endpoint_url=url)
    environment = stack.environment | credentials | {"AWS_ENDPOINT_URL": url or "", "TURN_REMAINING": "60"}
    versions = [Version("release", [_RELEASE], environment), Version("this", [], environment)]
    yield Turns(stack, versions, random.Random(7))  # noqa: S311 - the same turns each time
    for version in versions:
        version.end()


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
