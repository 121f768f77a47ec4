"""``sagas commands``, ``sagas events`` and ``sagas openapi``: print schemas, and publish events again."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated

import typer

from sagas.cli.one_saga import OneType
from sagas.cli.output import count_of, emit, fail, say
from sagas.cli.project.types import Types, types_of_project
from sagas.cli.target import Target, on_target
from sagas.cli.times import Moment, moment
from sagas.errors import SagaError, full_text

commands_app = typer.Typer(help="Messages of a service's command queue.", no_args_is_help=True)
events_app = typer.Typer(help="Events that a service publishes on EventBridge.", no_args_is_help=True)


@commands_app.callback()
@events_app.callback()
def _group() -> None:  # pyright: ignore[reportUnusedFunction] - makes groups of apps that can have one command
    """Subcommands."""


@commands_app.command("schema")
def commands_schema() -> None:
    """Print the JSON Schema of the command queue's messages."""
    from sagas.messaging.commands import command_schema

    typer.echo(json.dumps(command_schema(), indent=2))


@events_app.command("schema")
def events_schema() -> None:
    """Print the JSON Schema of the events."""
    from sagas.engine.observe.events import event_schema

    typer.echo(json.dumps(event_schema(), indent=2))


def openapi(
    sagas: Types = None,
    service: Annotated[str, typer.Option(help="Name of the service, for the title")] = "Sagas",
) -> None:
    """Print the OpenAPI document of the API for these saga types, to generate a client."""
    from sagas.engine.registry import SagaType
    from sagas.handlers.http.openapi import describe

    try:
        types = [SagaType(definition) for definition in types_of_project(sagas or ())]
    except SagaError as error:
        fail(full_text(error))
    typer.echo(json.dumps(describe(types, service=service), indent=2))


@events_app.command("replay")
@on_target
def replay(
    target: Target,
    since: Annotated[Moment, moment(help="Publish the events since TIME")],
    name: OneType = None,
) -> None:
    """Publish events again from the journals. Each event keeps its id."""
    published = target.client().replay_events(datetime.fromisoformat(since.at(target.now())), name)
    if target.as_json:
        emit({"published": published})
    else:
        say(f"Published {count_of(published, 'event')} again")


def add_to(app: typer.Typer) -> None:
    app.add_typer(commands_app, name="commands")
    app.add_typer(events_app, name="events")
    app.command()(openapi)
