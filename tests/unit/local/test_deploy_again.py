"""``sagas local up`` while a detached stack runs: the app is deployed into it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sagas.local import stack
from sagas.local.deploy.description import Description
from sagas.local.errors import LocalStackError
from sagas.local.files import Files, hold_lock
from sagas.local.stack import Settings, deploy_again

RUNNING = Description("http://127.0.0.1:4566", "us-east-1", pid=os.getpid(), detached=True, enforce_iam=True)

QUEUES = dict[str, dict[str, str]]()
"""The queues after the deployment."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose emulator is this process. The synthesis and the deployment are stand-ins."""
    QUEUES.clear()
    files = Files(tmp_path)
    files.root.mkdir()
    RUNNING.write(files.description)

    def deployed(_clients: Any, settings: Settings, *_: Any, pid: int | None, **_more: Any) -> Any:
        new = replace(RUNNING, pid=pid, detached=settings.detach, enforce_iam=settings.enforce_iam)
        return replace(new, outputs={"app": settings.app}, queues={**QUEUES}), []

    monkeypatch.setattr(stack, "_deploy", deployed)

    def synthesized(_app: str, files: Files) -> Path:
        return files.assembly

    monkeypatch.setattr(stack, "synthesize", synthesized)
    return tmp_path


def test_the_description_is_renewed_with_the_options_it_has(project: Path) -> None:
    assert hold_lock(Files(project).lock)
    expected = replace(RUNNING, outputs={"app": "python -m app"})
    assert deploy_again(Settings(project, "python -m app")) == expected
    assert Description.read(Files(project).description) == expected


def test_steps_whose_queue_is_gone_are_named(project: Path) -> None:
    """A group's queue has the names of its first and last step."""
    assert hold_lock(Files(project).lock)
    before = replace(
        RUNNING, queues={"trip": {"book": "old", "charge": "old", "ship": "kept"}, "loan": {"ask": "same"}}
    )
    before.write(Files(project).description)
    QUEUES.update({"trip": {"book": "new", "bill": "new", "ship": "kept"}, "loan": {"ask": "same"}})
    said = list[str]()
    deploy_again(Settings(project, "app"), tell=said.append)
    late = "the supervisor sends messages that were in it again, minutes later"
    assert said == [f"trip: the queue of book, charge was replaced or deleted; {late}"]


@pytest.mark.parametrize(
    ("option", "fields"),
    [
        ("--port", {"port": 4567}),
        ("--persist", {"persist": Path("state")}),
        ("--watch", {"watch": True}),
        ("--allow-origin", {"origins": ("http://127.0.0.1:3000",)}),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(project: Path, option: str, fields: dict[str, Any]) -> None:
    assert hold_lock(Files(project).lock)
    with pytest.raises(LocalStackError, match=f"already running .*, so {option} has no effect"):
        deploy_again(Settings(project, "app", **fields))
    assert Description.read(Files(project).description) == RUNNING


def test_where_none_is_detached_one_is_started(project: Path) -> None:
    assert deploy_again(Settings(project, "app")) is None, "none is running"
    assert hold_lock(Files(project).lock)
    replace(RUNNING, detached=False).write(Files(project).description)
    assert deploy_again(Settings(project, "app")) is None, "its command still runs"
