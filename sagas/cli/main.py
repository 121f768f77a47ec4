"""The ``sagas`` command."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from sagas.cli.doctor.command import doctor
from sagas.cli.operate import breakers, dead_letters, events, operating, supervising
from sagas.cli.output import say
from sagas.cli.project import check, console, init, local
from sagas.cli.read import logs, reading, statistics

app = typer.Typer(
    name="sagas",
    help="Sagas on AWS serverless.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
reading.add_to(app)
operating.add_to(app)
app.command()(supervising.recover)
app.command()(supervising.sweep)
app.command()(statistics.top)
app.command("console")(console.console)
app.command("open")(console.open_saga)
app.command()(init.init)
app.command()(check.check)
app.command()(doctor)
app.command()(logs.logs)
app.command()(supervising.trim)
app.add_typer(breakers.app, name="breakers")
app.add_typer(dead_letters.app, name="dlq")
app.add_typer(events.commands_app, name="commands")
app.add_typer(events.events_app, name="events")
app.command()(events.openapi)
app.add_typer(local.app, name="local")


def _version(requested: bool) -> None:
    if requested:
        say(f"lambda-sagas {version('lambda-sagas')}")
        raise typer.Exit


@app.callback()
def _root(  # pyright: ignore[reportUnusedFunction] - registered by the decorator
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else; for all commands")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit")
    ] = False,
) -> None:
    """Sagas on AWS serverless."""
    context.obj = {"json": as_json}


def main() -> None:
    """Run the command and exit: 0 for success, 1 for an error, which is printed in one line, and 2 for wrong usage.

    Commands that watch a saga exit with 3 if the saga did not end COMPLETED, and with 4 if it is still in flight.
    """
    app()
