"""What the commands print."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import typer
from rich.console import Console, RenderableType
from rich.status import Status

from sagas.core.text import plain as plain

_PIPE_WIDTH = 400
"""Columns where nobody reads along: no line is broken for them."""


def say(line: str) -> None:
    """Print a line, at once: a program that reads our output through a pipe waits for it."""
    typer.echo(line)


def emit(data: Any) -> None:
    """Print one JSON document."""
    typer.echo(escaped(json.dumps(data, indent=2, ensure_ascii=False)))


def escaped(text: str) -> str:
    """Return JSON in which every character that is not printable is escaped: a payload must not control a terminal."""
    return "".join(
        character if character.isprintable() or character == "\n" else json.dumps(character)[1:-1] for character in text
    )


def fail(message: str) -> NoReturn:
    """Print one line on standard error and end with exit code 1."""
    typer.echo(f"sagas: {plain(message)}", err=True)
    raise typer.Exit(1)


def at_work() -> Status:
    """Return what says on a terminal what is done right now, and leaves no line; elsewhere nothing."""
    return Console(stderr=True, markup=False, emoji=False, highlight=False).status("Beginning")


def plain_line(text: str) -> str:
    """Return a line that does nothing to a terminal but show, with its spaces."""
    return "".join(character if character.isprintable() else " " for character in text)


def pretty(value: Any) -> str:
    """Return JSON indented; a text that is no JSON as it is."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    return json.dumps(value, indent=2, ensure_ascii=False)


def display(page: RenderableType) -> None:
    """Print a page; where nobody reads along, without the spaces that fill its columns up."""
    console = screen()
    if console.is_terminal:
        console.print(page)
        return
    with console.capture() as capture:
        console.print(page)
    typer.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def screen() -> Console:
    """Return the console for tables. Square brackets in what it prints are just that."""
    console = Console(markup=False, emoji=False, highlight=False)
    return console if console.is_terminal else Console(markup=False, emoji=False, highlight=False, width=_PIPE_WIDTH)
