"""``sagas cancel | retry | compensate | resolve | purge | ...``: what an operator does about sagas and their types."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sagas.cli.bulk import MANY, SETTINGS, or_all
from sagas.cli.output import emit, fail, say
from sagas.cli.reading import Name, SagaId, Timeout, Watch, print_started
from sagas.cli.target import Target, on_target
from sagas.cli.watching import report, watch

if TYPE_CHECKING:
    from sagas.client import DefinitionView

_Note = Annotated[str, typer.Option(help="Why; kept in the audit trail.")]


@on_target
@or_all("cancel")
def cancel(
    target: Target,
    name: Name,
    saga_id: SagaId,
    note: _Note = "",
    force: Annotated[bool, typer.Option("--force", help="Also a child whose parent is not over.")] = False,
) -> None:
    """Cancel a saga: it stops, and what was done is undone."""
    report(target, target.client().cancel(name, saga_id, note, force=force))


@on_target
def signal(
    target: Target,
    name: Name,
    saga_id: SagaId,
    step: Annotated[str, typer.Argument(metavar="STEP", help="Name of the step that waits.", show_default=False)],
    file: Annotated[
        typer.FileText | None,
        typer.Option("--file", "-f", encoding="utf-8", help="The value, as JSON; - reads it from standard input."),
    ] = None,
    data: Annotated[str | None, typer.Option("--data", "-d", help="The value, as JSON.")] = None,
) -> None:
    """Send a saga what one of its steps waits for."""
    if (file is None) == (data is None):
        fail("say what to send: --file FILE, or --data JSON")
    try:
        value = json.loads(file.read() if file is not None else data or "")
    except (ValueError, RecursionError) as error:
        fail(f"the value is not JSON: {error}")
    report(target, target.client().signal(name, saga_id, step, value))


@on_target
@or_all("retry")
def retry(
    target: Target, name: Name, saga_id: SagaId, note: _Note = "", watching: Watch = False, timeout: Timeout = None
) -> None:
    """Try again what failed: the step of a DEAD_LETTERED saga, the undos of a COMPENSATION_FAILED one, or a step whose
    function handled no message."""
    client = target.client()
    saga = client.retry(name, saga_id, note)
    if watching:
        watch(target, client, saga, timeout)
    else:
        report(target, saga)


@on_target
@or_all("rerun")
def rerun(
    target: Target,
    name: Name,
    saga_id: SagaId,
    key: Annotated[str | None, typer.Option(help="Idempotency key of the new saga.")] = None,
) -> None:
    """Run a saga again: start a new one with the request of this one."""
    print_started(target, target.client().rerun(name, saga_id, key))


@on_target
@or_all("compensate")
def compensate(
    target: Target,
    name: Name,
    saga_id: SagaId,
    note: _Note = "",
    force: Annotated[bool, typer.Option("--force", help="Also one that is COMPLETED or past its pivot.")] = False,
) -> None:
    """Give up on a DEAD_LETTERED or FAILED saga and undo what was done."""
    report(target, target.client().compensate(name, saga_id, note, force=force))


@on_target
@or_all("resolve")
def resolve(
    target: Target,
    name: Name,
    saga_id: SagaId,
    note: Annotated[str, typer.Option(help="Why it is settled; kept in the audit trail.", show_default=False)],
    action: Annotated[str, typer.Option(help="What was done.")] = "",
    step: Annotated[list[str] | None, typer.Option(help="A step that was undone by hand; may be repeated.")] = None,
) -> None:
    """Say that a saga which needs a person is settled: it leaves the attention list."""
    report(target, target.client().resolve(name, saga_id, note, action, step or ()))


@on_target
def purge(
    target: Target,
    name: Name,
    saga_id: SagaId,
    note: Annotated[str, typer.Option("--reason", "--note", help="Why; kept with what is left.")] = "",
) -> None:
    """Delete what is stored of a saga that is over; name the S3 objects of its results, which the sweep looks after."""
    report(target, target.client().purge(name, saga_id, note))


@on_target
def enable(
    target: Target, name: Name, reason: Annotated[str, typer.Option(help="Why; shown to operators.")] = ""
) -> None:
    """Let sagas of a type be started again."""
    _print(target, target.client().enable(name, reason))


@on_target
def disable(
    target: Target,
    name: Name,
    reason: Annotated[str, typer.Option(help="Why; shown to operators.", show_default=False)],
) -> None:
    """Refuse to start sagas of a type; those under way go on."""
    _print(target, target.client().disable(name, reason))


@on_target
def pause(
    target: Target,
    name: Name,
    starts: Annotated[bool, typer.Option("--starts", help="Accept new sagas meanwhile; they wait, too.")] = False,
    undos: Annotated[bool, typer.Option("--undos", help="Have undos wait, too.")] = False,
    reason: Annotated[str, typer.Option(help="Why; shown to operators.")] = "",
) -> None:
    """Have the sagas of a type stop before their next step; steps that run go on to their end."""
    definition = target.client().pause(name, reason, starts=starts, undos=undos)
    if target.as_json:
        emit(definition)
        return
    told = "accepted, and wait" if starts else "refused"
    say(f"{name} is paused: its sagas stop before their next step; new ones are {told}.")
    say(f"`sagas resume {name}` lets them go on.")


@on_target
def resume(target: Target, name: Name, reason: Annotated[str, typer.Option(help="Why.")] = "") -> None:
    """Let the sagas of a paused type go on, spread over time."""
    definition = target.client().resume(name, reason)
    if target.as_json:
        emit(definition)
    else:
        say(f"{name} is not paused any more: its sagas go on.")


def _print(target: Target, definition: DefinitionView) -> None:
    if target.as_json:
        emit(definition)
    else:
        say(f"Starting {definition['name']} is {'enabled' if definition['active'] else 'disabled'}.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    for name, command in (
        ("cancel", cancel),
        ("signal", signal),
        ("retry", retry),
        ("compensate", compensate),
        ("rerun", rerun),
        ("resolve", resolve),
        ("purge", purge),
        ("enable", enable),
        ("disable", disable),
        ("pause", pause),
        ("resume", resume),
    ):
        app.command(name, context_settings=SETTINGS if name in MANY else {})(command)
