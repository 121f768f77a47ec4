"""``sagas commands`` and ``sagas events``: what gets into a service by its command queue, and what it tells."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from sagas.cli.output import emit, say
from sagas.cli.target import Target, on_target

commands_app = typer.Typer(help="Messages of a service's command queue.", no_args_is_help=True)
events_app = typer.Typer(help="Events that a service tells on EventBridge.", no_args_is_help=True)
_SPAN = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@commands_app.callback()
def _commands() -> None:  # pyright: ignore[reportUnusedFunction] - registered by the decorator
    """Messages of a service's command queue."""


@events_app.callback()
def _events() -> None:  # pyright: ignore[reportUnusedFunction] - as above
    """Events that a service tells on EventBridge."""


@commands_app.command("schema")
def commands_schema() -> None:
    """Print the JSON Schema of what the command queue takes."""
    from sagas.messaging.commands import command_schema

    typer.echo(json.dumps(command_schema(), indent=2))


@events_app.command("schema")
def events_schema() -> None:
    """Print the JSON Schema of the events."""
    from sagas.engine.observe.telling import event_schema

    typer.echo(json.dumps(event_schema(), indent=2))


@events_app.command("replay")
@on_target
def replay(
    target: Target,
    since: Annotated[str, typer.Option(metavar="T", help="A time such as 2026-01-31T12:00:00Z, or a span such as 2h.")],
    name: Annotated[str | None, typer.Argument(metavar="[TYPE]", help="Only of sagas of this type.")] = None,
) -> None:
    """Publish events again, from the journals, each with the id it has."""
    client = target.client()
    if span := _SPAN.fullmatch(since):
        begin = datetime.fromtimestamp(target.now(), UTC) - timedelta(**{_UNITS[span[2]]: int(span[1])})
    else:
        try:
            begin = datetime.fromisoformat(since)
        except ValueError:
            begin = None
    if begin is None or begin.tzinfo is None:
        expected = "must be a time with its zone, such as 2026-01-31T12:00:00Z, or a span such as 90m, 2h or 3d"
        raise typer.BadParameter(expected, param_hint="--since")
    published = client.replay_events(begin, name)
    if target.as_json:
        emit({"published": published})
    else:
        say(f"Published {published} event{'' if published == 1 else 's'} again")
