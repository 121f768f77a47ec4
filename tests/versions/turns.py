"""Versions of the library, each in a process of its own, that take turns on one stack."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest

from tests.support.aws import REGION, HandmadeStack
from tests.support.databases import emulator
from tests.support.gateway import matched
from tests.versions.shared_sagas import Errands

HERE = Path(__file__).parent
RELEASE = next(HERE.glob("*.whl"))
_OVER = {"COMPLETED", "COMPENSATED", "CANCELLED", "DEAD_LETTERED"}
_PATIENCE = 300.0
"""Seconds until all sagas are over: what was lost is delivered again when its time is over, on the emulator's clock."""
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
        path = os.pathsep.join(map(str, [*self.path, HERE.parents[1]]))
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "turn.py")],
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
        resource, parameters = matched(path)
        event = {"httpMethod": method, "resource": resource, "path": path, "pathParameters": parameters}
        event |= {"headers": headers, "requestContext": {"stage": "v1"}}
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
    """Both versions on one stack; ``dice`` decides whose turn it is.

    Args:
        stack: where they work.
        versions: who does.
        dice: decides what happens next.
        lossy: whether messages get lost on their way; one that is lost twice is sent again minutes later.
    """

    stack: HandmadeStack
    versions: list[Version]
    dice: random.Random
    lossy: bool = True
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
            if chance < 0.04 and self.lossy:
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
        end = monotonic() + _PATIENCE
        while monotonic() < end:
            if self.deliver():
                continue
            found = {saga_id: self.stack.control(saga_id)["status"]["S"] for saga_id in saga_ids}
            if set(found.values()) <= _OVER:
                return found
            self.next().tell("supervisor", {"task": "recover", "stale_after": 0})
        raise AssertionError("the sagas do not end")


@contextmanager
def taking_turns(
    monkeypatch: pytest.MonkeyPatch, seed: int, paths: Mapping[str, list[Path]], *, lossy: bool = True
) -> Generator[Turns]:
    """A stack with empty tables, and versions at work on it.

    Args:
        monkeypatch: sets this process's credentials.
        seed: of whose turn it is: the same each time.
        paths: where each version is, by its name; this one is here already.
        lossy: whether messages get lost on their way.
    """
    url = emulator().endpoint_url
    credentials = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}
    for key, value in credentials.items():
        monkeypatch.setenv(key, value)
    stack = HandmadeStack(Errands, prefix=f"v{uuid4().hex[:8]}", endpoint_url=url)
    environment = stack.environment | credentials | {"AWS_ENDPOINT_URL": url or "", "TURN_REMAINING": "60"}
    versions = [Version(name, path, environment) for name, path in paths.items()]
    yield Turns(stack, versions, random.Random(seed), lossy)  # noqa: S311 - no secret
    for version in versions:
        version.end()
