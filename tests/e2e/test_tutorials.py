"""The `console` blocks of the tutorials, played on the local stack: what a page shows is what one sees."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.e2e.pages import play
from tests.e2e.stack import REPOSITORY, Running, assembled, launch

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.proof("tutorials"),
    pytest.mark.embedded("it kills what it started itself"),
    pytest.mark.timeout(600),
]

TUTORIALS = REPOSITORY / "docs" / "tutorial"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """What `make run` starts, in a directory of its own that has the repository's events."""
    project = tmp_path_factory.mktemp("tour")
    (project / ".sagas").mkdir()
    (REPOSITORY / ".sagas" / "cache").mkdir(parents=True, exist_ok=True)
    (project / ".sagas" / "cache").symlink_to(REPOSITORY / ".sagas" / "cache")
    (project / "events").symlink_to(REPOSITORY / "events")
    running = launch(project, assembled("python -m infra.app"), "--seed", "python -m demo.seed")
    try:
        yield running
    finally:
        running.stop()


@pytest.mark.parametrize("name", ["tour.md", "break-it.md"])
def test_a_page_shows_what_one_sees(name: str, stack: Running) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    play(TUTORIALS / name, stack.project, {**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY)})
