"""The `console` blocks of the tutorials, played on the local stack: what a page shows is what one sees."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.e2e.stack import REPOSITORY, Running, launch

pytestmark = [pytest.mark.e2e, pytest.mark.embedded("it kills what it started itself"), pytest.mark.timeout(600)]

TUTORIALS = REPOSITORY / "docs" / "tutorial"
MARK = "\x1e"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """What `make run` starts, in a directory of its own that has the repository's events."""
    project = tmp_path_factory.mktemp("tour")
    (project / ".sagas").mkdir()
    (REPOSITORY / ".sagas" / "cache").mkdir(parents=True, exist_ok=True)
    (project / ".sagas" / "cache").symlink_to(REPOSITORY / ".sagas" / "cache")
    (project / "events").symlink_to(REPOSITORY / "events")
    running = launch(project, "python -m infra.app", "--seed", "python -m demo.seed")
    try:
        yield running
    finally:
        running.stop()


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Each command of a page's `console` blocks, with the lines it is shown to print."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def pattern(lines: list[str]) -> str:
    """What the output must match: `...` stands for any text, and as a line for any lines."""
    parts = [".*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*?") + r"[^\n]*\n" for line in lines]
    return "".join(parts) + r"\s*"


@pytest.mark.parametrize("name", ["tour.md", "break-it.md"])
def test_a_page_shows_what_one_sees(name: str, stack: Running) -> None:
    given = commands(TUTORIALS / name)
    assert given
    # in one shell, as a reader would: what a command sets the next one has
    script = "\n".join(f"printf '{MARK}\\n'\n{command}" for command, _ in given)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=stack.project,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    outputs = done.stdout.split(f"{MARK}\n")[1:]
    assert len(outputs) == len(given), done.stdout
    for (command, lines), output in zip(given, outputs, strict=True):
        assert re.fullmatch(pattern(lines), output, re.DOTALL), f"$ {command}\n{output}\nis not\n" + "\n".join(lines)
