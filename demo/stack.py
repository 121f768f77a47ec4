"""The local stack and its API, for the demonstration."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import boto3
import urllib3

DESCRIPTION = Path(".sagas/local.json")
OVER = ("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED", "DEAD_LETTERED")
_PATIENCE = 60.0
_POLL = 0.1


class DemoFailed(Exception):
    """A check of the demonstration failed."""


@dataclass(frozen=True)
class LocalStack:
    """The running stack, as described in ``.sagas/local.json``."""

    description: dict[str, Any]

    @property
    def outputs(self) -> dict[str, str]:
        """The stack's outputs."""
        return self.description["outputs"]

    def client(self, service: str) -> Any:
        """Return a boto3 client of the stack."""
        anyone = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        where = {"region_name": self.description["region"], "endpoint_url": self.description["endpoint_url"]}
        return cast("Any", boto3).client(service, **anyone, **where)


class Api:
    """The REST API of the stack."""

    def __init__(self, stack: LocalStack) -> None:
        self._url = stack.description["api_url"]
        self._http = urllib3.PoolManager()

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Call the API, and raise an error if it answers with one."""
        answer = self._http.request(method, self._url + path, json=body, timeout=30.0)
        if answer.status >= 300:
            raise DemoFailed(f"{method} {path} answered {answer.status}: {answer.data.decode()}")
        return answer.json()

    def run(self, name: str, request: object) -> dict[str, Any]:
        """Start a saga and wait until it has ended. Return the saga."""
        return self.wait(self.call("POST", f"/sagas/{name}", request))

    def wait(self, saga: dict[str, Any]) -> dict[str, Any]:
        """Wait until a saga has ended. Return the saga."""
        name, end = saga["type"], time.monotonic() + _PATIENCE
        while saga["status"] not in OVER:
            if time.monotonic() > end:
                raise DemoFailed(f"{name} {saga['saga_id']} is still {saga['status']} after {_PATIENCE:.0f} s")
            time.sleep(_POLL)
            saga = self.call("GET", f"/sagas/{name}/{saga['saga_id']}")
        return saga

    def children(self, saga: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the sagas that a saga has started."""
        return self.call("GET", f"/sagas?parent={saga['saga_id']}&limit=100")["sagas"]

    def audit(self, saga: dict[str, Any]) -> list[dict[str, Any]]:
        """Return a saga's audit trail."""
        return self.call("GET", f"/sagas/{saga['type']}/{saga['saga_id']}/audit?limit=100")["entries"]


def _sagas(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("sagas")), "local", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def skip(length: str) -> None:
    """Move the local stack's clock forward by a length of time such as ``1d``."""
    ticked = _sagas("tick", "--advance", length)
    if ticked.returncode != 0:
        raise DemoFailed(ticked.stderr.strip() or f"{length} were not skipped")


@contextmanager
def local_stack() -> Generator[LocalStack]:
    """Start the local stack on a free port, and stop it at the end. If one already runs, use it and do not stop it."""
    if _answers():
        yield LocalStack(json.loads(DESCRIPTION.read_text()))
        return
    started = _sagas("up", "--detach", "--port", str(_free_port()))
    if started.returncode != 0:
        raise DemoFailed(started.stderr.strip() or "the local stack did not start")
    try:
        yield LocalStack(json.loads(DESCRIPTION.read_text()))
    finally:
        _sagas("down")


def _answers() -> bool:
    """Whether this directory's local stack is running."""
    if not DESCRIPTION.is_file():
        return False
    url: str = json.loads(DESCRIPTION.read_text())["endpoint_url"]
    try:
        return urllib3.PoolManager().request("GET", url, timeout=2.0, retries=False).status < 500
    except urllib3.exceptions.HTTPError:
        return False
