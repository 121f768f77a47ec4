"""The command line against a stub of the API, found as the local stack is."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sagas.cli.main import app
from tests.unit.client.stub import StubApi, serving

Run = Callable[..., Result]


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[StubApi]:
    """A stub that is the local stack of the working directory."""
    for name in ("SAGAS_STACK", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with serving() as stub:
        where = {"api_url": stub.url, "region": "us-east-1", "endpoint_url": stub.url, "supervisor": "the-supervisor"}
        (tmp_path / ".sagas").mkdir()
        (tmp_path / ".sagas" / "local.json").write_text(
            json.dumps({**where, "queues": {"create-zip": {}}, "dead_letter_queues": {"create-zip": stub.url}})
        )
        yield stub


@pytest.fixture
def run(api: StubApi) -> Run:
    """Runs ``sagas`` with arguments, and with a text on standard input."""

    def invoke(*arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(app, arguments, input=text)

    return invoke
