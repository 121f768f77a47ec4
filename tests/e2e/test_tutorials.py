"""The `console` blocks of the tutorials, played on the local stack: what a page shows is what one sees."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.e2e.conftest import project_in
from tests.e2e.pages import play
from tests.e2e.stack import REPOSITORY, Running, assembled, launched

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.embedded("it kills what it started itself"),
    pytest.mark.timeout(600),
]

TUTORIALS = REPOSITORY / "docs" / "tutorial"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """What `make run` starts, in a directory of its own that has the repository's events."""
    project = project_in(tmp_path_factory.mktemp("tutorials"))
    (project / "events").symlink_to(REPOSITORY / "events")
    with launched(project, assembled("python -m infra.app"), "--seed", "python -m demo.seed") as running:
        yield running


@pytest.mark.parametrize("name", ["fail-and-undo.md", "wait-for-a-person.md"])
def test_a_page_shows_what_one_sees(name: str, stack: Running) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    play(TUTORIALS / name, stack.project, {**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY)})
