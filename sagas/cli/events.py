"""Commands about what gets into a service by its command queue."""

from __future__ import annotations

import json

import typer

from sagas.messaging.commands import command_schema

commands_app = typer.Typer(help="Messages of a service's command queue.", no_args_is_help=True)


@commands_app.callback()
def _commands() -> None:  # pyright: ignore[reportUnusedFunction] - registered by the decorator
    """Messages of a service's command queue."""


@commands_app.command("schema")
def commands_schema() -> None:
    """Print the JSON Schema of what the command queue takes."""
    typer.echo(json.dumps(command_schema(), indent=2))
