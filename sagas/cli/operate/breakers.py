"""``sagas breakers``: circuit breakers, and closing one by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from sagas.cli.output import display, emit, say
from sagas.cli.read.reading import Name
from sagas.cli.tables import breaker_table
from sagas.cli.target import Target, on_target

app = typer.Typer()

_Step = Annotated[str, typer.Argument(metavar="STEP", help="Name of the step.", show_default=False)]


@on_target
def breakers(target: Target, context: typer.Context) -> None:
    """List the circuit breakers: which are open, until when, and how many sagas wait; or close one."""
    if context.invoked_subcommand is not None:
        sources = {name: context.get_parameter_source(name) for name in context.params}
        given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
        if given:
            # Silently ignored, they would have another service's breaker closed.
            raise typer.BadParameter(f"goes after {context.invoked_subcommand}", param_hint=f"--{given[0]}")
        return
    found = target.client().breakers()
    if target.as_json:
        emit({"breakers": found})
    elif found:
        display(breaker_table(found))
    else:
        say("No step declares a circuit breaker.")


@on_target
def close(target: Target, name: Name, step: _Step) -> None:
    """Close a circuit breaker: the sagas that wait behind it go on, spread over time."""
    breaker = target.client().close_breaker(name, step)
    if target.as_json:
        emit(breaker)
        return
    say(f"The breaker of step {step} is closed. Waiting sagas that were sent on their way: {breaker['waiting']}.")
    if breaker["more_waiting"]:
        say("There may be more: they go on by themselves, within a quarter of an hour.")


app.callback(invoke_without_command=True)(breakers)
app.command("close")(close)
