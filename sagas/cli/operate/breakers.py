"""``sagas breakers``: lists circuit breakers, and closes one."""

from __future__ import annotations

from typing import Annotated

import typer

from sagas.cli.completion import complete
from sagas.cli.one_saga import Type
from sagas.cli.output import display, emit, say
from sagas.cli.tables import breaker_table
from sagas.cli.target import Target, on_target

_app = typer.Typer()

_Step = Annotated[
    str, typer.Argument(metavar="STEP", help="Name of the step", show_default=False, autocompletion=complete)
]


@on_target
def breakers(target: Target, context: typer.Context) -> None:
    """List the circuit breakers: which are open, until when, and how many sagas wait."""
    if context.invoked_subcommand is not None:
        sources = {name: context.get_parameter_source(name) for name in context.params}
        misplaced = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
        if misplaced:
            # If these options were ignored, another service's breaker would be closed.
            raise typer.BadParameter(f"belongs after {context.invoked_subcommand}", param_hint=f"--{misplaced[0]}")
        return
    views = target.client().breakers()
    if target.as_json:
        emit({"breakers": views})
    elif views:
        display(breaker_table(views))
    else:
        say("No step declares a circuit breaker.")


@on_target
def close(target: Target, name: Type, step: _Step) -> None:
    """Close a circuit breaker. The sagas that wait for it continue, spread over time."""
    breaker = target.client().close_breaker(name, step)
    if target.as_json:
        emit(breaker)
        return
    say(f"The breaker of step {step} is closed. Waiting sagas that were resumed: {breaker['waiting']}.")
    if breaker["more_waiting"]:
        say("More sagas may wait. They resume within 15 minutes.")


_app.callback(invoke_without_command=True)(breakers)
_app.command("close")(close)


def add_to(app: typer.Typer) -> None:
    app.add_typer(_app, name="breakers")
