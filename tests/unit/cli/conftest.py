"""The command line against a stub of the API, found as the local stack is."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import typer.testing
from typer.testing import CliRunner, Result

from sagas.cli.main import app
from tests.unit.client.stub import BEGAN, SAGA_ID, StubApi, a_saga, a_step, attention, serving

_testing = cast("Any", typer.testing)
_testing._get_command = cache(_testing._get_command)
"""Typer makes the commands from their functions anew for each call, which takes longer than most of the calls."""

Run = Callable[..., Result]
DEAD = a_saga(
    "DEAD_LETTERED",
    steps=[
        a_step("upload"),
        a_step("announce", "FAILED", attempts=4, error={"type": "NotFound", "message": "no\n\x1b[31mtopic"}),
    ],
    error={"step": "announce", "type": "NotFound", "message": "no\n\x1b[31mtopic"},
    attention=attention(
        "exhausted",
        {"step": "announce", "type": "NotFound", "message": "no\n\x1b[31mtopic"},
        reason="step announce used up its attempts",
    ),
)
ENTRY: dict[str, Any] = {
    "saga_id": SAGA_ID, "seq": 1, "at": BEGAN, "type": "create-zip", "action": "StepFailed", "step": "announce",
    "attempt": 4, "status": "RUNNING", "actor": "arn:aws:iam::1:user/ann", "correlation_id": SAGA_ID, "trace_id": None,
    "details": {"error": {"type": "NotFound", "message": "no [topic]"}, "stack_trace": "Traceback"},
}  # fmt: skip
PAUSE: dict[str, Any] = {
    "step": None, "saga_id": None, "starts_only": False, "starts": False, "undos": False, "at": BEGAN, "by": "ann",
    "reason": None, "until": None,
}  # fmt: skip
DEFINITION: dict[str, Any] = {
    "type": "create-zip", "version": "1", "description": "", "active": False, "paused": False, "reason": "closed",
    "failures": 0, "pauses": [PAUSE | {"starts_only": True, "reason": "closed"}], "cancellable": True, "find_by": {},
    "request": {},
    "steps": [{"name": "upload"}, {"name": "announce"}],
}  # fmt: skip


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[StubApi]:
    """A stub that is the local stack of the working directory."""
    for name in ("SAGAS_STACK", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # which has the jobs
    with serving() as stub:
        where = {"api_url": stub.url, "region": "us-east-1", "endpoint_url": stub.url, "supervisor": "the-supervisor"}
        (tmp_path / ".sagas").mkdir()
        (tmp_path / ".sagas" / "local.json").write_text(
            json.dumps({**where, "queues": {"create-zip": {}}, "dead_letter_queues": {}})
        )
        yield stub


@pytest.fixture
def run(api: StubApi) -> Run:
    """Runs ``sagas`` with arguments, and with a text on standard input."""

    def invoke(*arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(app, arguments, input=text)

    return invoke
