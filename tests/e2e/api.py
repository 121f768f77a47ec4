"""The API of a stack, as a stranger calls it."""

from __future__ import annotations

import json
from typing import Any, cast

import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from sagas.core.text import epoch
from tests.e2e.stack import Stack, poll

_WHOLE = 1.0
"""Queues delay by whole seconds."""
_ENDS = ("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED", "DEAD_LETTERED")


class Api:
    """The stack's API, as a stranger calls it: with what AWS publishes of signing, and nothing of ours."""

    def __init__(self, stack: Stack, session: Any = None) -> None:
        self.stack = stack
        self.url: str = stack.description["api_url"]
        self._session = session or stack.session
        self._region: str = stack.description["region"]
        self._http = urllib3.PoolManager()

    def call(
        self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """Call a path below the stage. Return status, body and headers of the answer."""
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        return self.send(method, self.url + path, data, {name.replace("_", "-"): v for name, v in headers.items()})

    def send(
        self, method: str, url: str, data: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        """Make a signed request."""
        signed = self._signed(method, url, data, {"Content-Type": "application/json", **(headers or {})})
        answer = self._http.request(method, url, body=data, headers=signed, timeout=30.0)
        return answer.status, answer.json(), dict(answer.headers)

    def _signed(self, method: str, url: str, data: bytes, headers: dict[str, str]) -> dict[str, str]:
        request: Any = cast("Any", AWSRequest)(method=method, url=url, data=data, headers=headers)
        cast("Any", SigV4Auth)(self._session.get_credentials(), "execute-api", self._region).add_auth(request)
        return dict(request.headers.items())

    def start(self, name: str, body: Any) -> dict[str, Any]:
        status, saga, _ = self.call("POST", f"/sagas/{name}", body)
        assert status == 202, saga
        return saga

    def show(self, saga: dict[str, Any]) -> dict[str, Any]:
        return self.call("GET", f"/sagas/{saga['type']}/{saga['saga_id']}")[1]

    def wait(self, saga: dict[str, Any], *statuses: str, deadline: float = 30.0, skips: bool = False) -> dict[str, Any]:
        """Wait until the saga has one of the statuses; without any, until it is over or waits for a person.

        Args:
            saga: as it was.
            statuses: the statuses.
            deadline: seconds.
            skips: go to each next attempt at once, where the stack's clock can be moved. Each is gone to once, before
                it begins: an attempt that is under way would run into its timeout.
        """
        wanted, skipped = statuses or _ENDS, set[str]()

        def reached() -> dict[str, Any] | None:
            now = self.show(saga)
            if now["status"] in wanted:
                return now
            waiting = now["waiting"]
            if skips and waiting and waiting["kind"] == "backoff" and waiting["until"] not in skipped:
                skipped.add(waiting["until"])
                self.stack.skip_to(epoch(waiting["until"]) + _WHOLE)
            return None

        return poll(f"{saga['type']} to be {' or '.join(wanted)}", reached, deadline)

    def run(self, name: str, body: Any, *, skips: bool = False) -> dict[str, Any]:
        return self.wait(self.start(name, body), skips=skips)

    def audit(self, saga: dict[str, Any]) -> list[dict[str, Any]]:
        return self.call("GET", f"/sagas/{saga['type']}/{saga['saga_id']}/audit?limit=100")[1]["entries"]

    def actions(self, saga: dict[str, Any]) -> list[str]:
        return [entry["action"] for entry in self.audit(saga)]

    def count(self, name: str) -> int:
        return len(self.call("GET", f"/sagas?type={name}&limit=100")[1]["sagas"])
