"""Prints the output of commands."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from sagas.core.text import plain as plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.status import Status

_PIPE_WIDTH = 10_000
"""The width if the output is not a terminal. No line is so long that it breaks."""


def say(line: str) -> None:
    """Print a line without buffering, because a program at the other end of a pipe may be waiting for it."""
    typer.echo(line)


def emit(data: Any) -> None:
    typer.echo(escaped(json.dumps(data, indent=2, ensure_ascii=False)))


def escaped(text: str) -> str:
    """Return JSON with all unprintable characters escaped, so a payload cannot control the terminal."""
    return "".join(
        character if character.isprintable() or character == "\n" else json.dumps(character)[1:-1] for character in text
    )


def fail(message: str, status: int = 1) -> NoReturn:
    """Print one line on standard error and end with an exit status."""
    typer.echo(f"sagas: {plain(message)}", err=True)
    raise typer.Exit(status)


def need(what: str, extra: str, *packages: str) -> None:
    """Fail in one line if a package of an extra is not installed. ``what`` needs it."""
    for package in packages:
        if find_spec(package) is None:
            fail(f'{what} needs the package {package}: pip install "lambda-sagas[{extra}]"')


def warn(message: str) -> None:
    if message:
        typer.echo(f"sagas: {plain(message)}", err=True)


def count_of(number: int, noun: str) -> str:
    """Return ``1 saga`` or ``2 sagas``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def progress_line() -> Status:
    """Return a line that shows the current task and then disappears. Without a terminal, it prints nothing."""
    from rich.console import Console

    return Console(stderr=True, markup=False, emoji=False, highlight=False).status("Starting")


def plain_line(text: str) -> str:
    """Return a line for a terminal: each control character becomes a space, and spaces are kept."""
    return "".join(character if character.isprintable() else " " for character in text)


def pretty(value: Any) -> str:
    """Return JSON indented. Any other text stays unchanged."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    return json.dumps(value, indent=2, ensure_ascii=False)


def display(page: RenderableType) -> None:
    """Print a page. If the output is not a terminal, leave out the spaces that fill columns."""
    console = screen()
    if console.is_terminal:
        console.print(page, crop=False)
        return
    with console.capture() as capture:
        console.print(page)
    typer.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def screen() -> Console:
    """Return the console for tables. To it, square brackets are not markup."""
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    return console if console.is_terminal else Console(markup=False, emoji=False, highlight=False, width=_PIPE_WIDTH)
