"""What the commands print."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from sagas.core.text import plain as plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.status import Status

_PIPE_WIDTH = 10_000
"""Columns where the output is not a terminal: no line is broken there."""


def say(line: str) -> None:
    """Print a line without buffering: a program may be waiting for it at the other end of a pipe."""
    typer.echo(line)


def emit(data: Any) -> None:
    """Print one JSON document."""
    typer.echo(escaped(json.dumps(data, indent=2, ensure_ascii=False)))


def escaped(text: str) -> str:
    """Return JSON with all unprintable characters escaped: a payload must not control a terminal."""
    return "".join(
        character if character.isprintable() or character == "\n" else json.dumps(character)[1:-1] for character in text
    )


def fail(message: str, status: int = 1) -> NoReturn:
    """Print one line on standard error and end with an exit status."""
    typer.echo(f"sagas: {plain(message)}", err=True)
    raise typer.Exit(status)


def count_of(number: int, noun: str) -> str:
    """Return ``1 saga`` or ``2 sagas``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def progress_line() -> Status:
    """Return a line that shows the current task on a terminal and then disappears; elsewhere it prints nothing."""
    from rich.console import Console

    return Console(stderr=True, markup=False, emoji=False, highlight=False).status("Starting")


def plain_line(text: str) -> str:
    """Return a line without control characters for a terminal, with its spaces."""
    return "".join(character if character.isprintable() else " " for character in text)


def pretty(value: Any) -> str:
    """Return JSON indented, and any other text unchanged."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    return json.dumps(value, indent=2, ensure_ascii=False)


def display(page: RenderableType) -> None:
    """Print a page; where the output is not a terminal, without the spaces that fill its columns."""
    console = screen()
    if console.is_terminal:
        console.print(page, crop=False)
        return
    with console.capture() as capture:
        console.print(page)
    typer.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def screen() -> Console:
    """Return the console for tables. It does not read square brackets as markup."""
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    return console if console.is_terminal else Console(markup=False, emoji=False, highlight=False, width=_PIPE_WIDTH)
