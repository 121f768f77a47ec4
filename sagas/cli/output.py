"""What the commands print."""

from __future__ import annotations

from typing import NoReturn

import typer

__all__ = ["fail", "say"]


def say(line: str) -> None:
    """Print a line, at once: whoever reads our output through a pipe waits for it."""
    typer.echo(line)


def fail(message: str) -> NoReturn:
    """Print one line on standard error and end with exit code 1."""
    typer.echo(f"sagas: {' '.join(message.split())}", err=True)
    raise typer.Exit(1)
