"""Playing the `console` blocks of a page in a shell: what it shows must be what one sees."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

_MARK = "\x1e"


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


def play(page: Path, directory: Path, environment: Mapping[str, str], before: str = "") -> None:
    """Run the commands of a page in one shell, as a reader would: what a command sets the next one has.

    Args:
        page: with `console` blocks.
        directory: where the shell begins.
        environment: of the shell.
        before: what is run first, and not shown.

    Raises:
        AssertionError: a command prints something else than the page shows.
    """
    given = commands(page)
    assert given
    script = "\n".join([before, *(f"printf '{_MARK}\\n'\n{command}" for command, _ in given)])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=directory,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    outputs = done.stdout.split(f"{_MARK}\n")[1:]
    assert len(outputs) == len(given), done.stdout
    for (command, lines), output in zip(given, outputs, strict=True):
        assert re.fullmatch(pattern(lines), output, re.DOTALL), f"$ {command}\n{output}\nis not\n" + "\n".join(lines)
