"""An HTTP server on 127.0.0.1 that answers as it is told and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SAGA_ID = "01a1fd82-30a8-780f-adb2-367c651cfde6"
SEQ = 9
"""The number of the last audit entry of each saga here."""
BEGAN = "2026-11-21T09:48:50.216Z"


@dataclass(frozen=True)
class Asked:
    """A request that came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    raw: bytes = b""


@dataclass
class StubApi:
    """Answers each request with the next of its answers; the last one stays.

    An answer is status and JSON body, and headers if there are any; ``None`` hangs up without a word.
    """

    url: str = ""
    asked: list[Asked] = field(default_factory=list[Asked])
    answers: list[tuple[int, Any, Mapping[str, str]] | None] = field(default_factory=list[Any])

    def will(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> StubApi:
        """Give this answer next."""
        self.answers.append((status, body, headers or {}))
        return self

    def will_hang_up(self) -> StubApi:
        """Give no answer next."""
        self.answers.append(None)
        return self

    def next(self) -> tuple[int, Any, Mapping[str, str]] | None:
        """Return the answer to give."""
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def serving() -> Generator[StubApi]:
    """Serve a stub at a free port."""
    stub = StubApi()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(stub))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(stub: StubApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            stub.asked.append(
                Asked(self.command, self.path, dict(self.headers.items()), json.loads(raw) if raw else None, raw)
            )
            answer = stub.next()
            if answer is None:
                self.close_connection = True
                return
            status, body, headers = answer
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - as the base class calls them

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the tests' output clean."""

    return Handler


def an_error(code: str, message: str, details: Any = None) -> dict[str, Any]:
    """Return an error as the API answers it."""
    return {"error": {"code": code, "message": message, "details": details}}


def an_overview(**fields: Any) -> dict[str, Any]:
    """Return an overview as the API shows it: of a service in which nothing needs an operator."""
    known: dict[str, Any] = {
        "at": BEGAN,
        "attention": {"count": 0, "at_least": False, "types": [], "tag": "a"},
        "open": {"due": 0, "waiting": 0, "paused": 0, "at_least": False, "tag": "w"},
        "overdue": {"count": 0, "at_least": False, "sagas": []},
        "breakers": [],
        "pauses": [],
        "messages": [],
        "left_out": {"types": 0, "overdue": 0, "breakers": 0, "pauses": 0, "messages": 0},
    }
    return known | fields


def a_step(name: str, status: str = "COMPLETED", **fields: Any) -> dict[str, Any]:
    """Return a step as the API shows it."""
    known = {
        "name": name, "status": status, "attempts": 1, "undo_attempts": 0, "started_at": BEGAN, "ended_at": BEGAN,
        "result": None, "error": None, "next_attempt_at": None, "took": None,
    }  # fmt: skip
    return known | fields


def attention(
    code: str, error: dict[str, Any] | None = None, *, step: str = "announce", reason: str = "the reason"
) -> dict[str, Any]:
    """Return why a saga needs an operator."""
    shown = error and {"step": step, "undo": False, **error}
    at, kind = (shown["step"], shown["type"]) if shown else (step, None)
    return {"code": code, "step": at, "error_type": kind, "reason": reason, "since": BEGAN, "error": shown}


def a_saga(status: str = "COMPLETED", **fields: Any) -> dict[str, Any]:
    """Return a saga as the API shows it."""
    known = {
        "saga_id": SAGA_ID, "type": "create-zip", "label": None, "key": None, "version": "1", "status": status,
        "seq": SEQ, "in_doubt": [],
        "recovery_attempts": 0, "cancel_requested_at": None, "created_at": BEGAN, "updated_at": BEGAN, "ended_at": None,
        "links": {"self": f"/v1/sagas/create-zip/{SAGA_ID}"}, "request": {}, "steps": [a_step("check")], "error": None,
        "attention": None, "progress": None, "breaker": None, "paused": False, "resolution": None,
        "correlation_id": SAGA_ID,
    }  # fmt: skip
    return known | fields
