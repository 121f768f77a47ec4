"""How much time is to be skipped, and whom it concerns."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sagas.engine.attempt.context import StepContext
from sagas.engine.clock import SystemClock
from sagas.local.clock import StackClock
from sagas.local.deploy.description import Description
from sagas.local.errors import LocalStackError
from sagas.local.files import Files

DAY = 86_400.0


def test_functions_on_an_emulator_have_the_clock_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "clock"
    monkeypatch.setenv("SAGAS_CLOCK", str(file))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    clock = SystemClock()
    assert abs(clock.now() - time.time()) < 60, "nothing was skipped yet"
    file.write_text("172800.000\n")
    assert abs(clock.now() - time.time() - 2 * DAY) < 60
    file.write_text("nonsense")
    assert abs(clock.now() - time.time()) < 60


def test_a_step_is_told_the_time_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "clock"
    file.write_text("172800.000\n")
    monkeypatch.setenv("SAGAS_CLOCK", str(file))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    ctx = StepContext("id", "trip", "book", 1, False, "", 0.0, SystemClock(), logging.getLogger())
    ahead = ctx.now - datetime.now(UTC)
    assert timedelta(days=2, minutes=-1) < ahead < timedelta(days=2, milliseconds=1), "the clock has milliseconds"


def test_on_aws_there_is_no_such_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "clock"
    file.write_text("172800.000\n")
    monkeypatch.setenv("SAGAS_CLOCK", str(file))
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    assert abs(SystemClock().now() - time.time()) < 60


def test_a_stack_that_is_not_ours_has_none_to_move(tmp_path: Path) -> None:
    files = Files(tmp_path)
    with pytest.raises(LocalStackError, match="no local stack is running for this project"):
        StackClock(files)
    files.root.mkdir()
    Description("http://elsewhere", "us-east-1").write(files.description)
    with pytest.raises(
        LocalStackError,
        match="only in the emulator that `sagas local up` starts itself; this stack is at http://elsewhere",
    ):
        StackClock(files)
