"""``sagas cancel | retry | compensate | resolve | purge | ...``: what an operator does about sagas and their types."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, Field
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from sagas.cli.operate.bulk import SETTINGS, or_all
from sagas.cli.output import emit, fail, say
from sagas.cli.read.reading import Name, SagaId, Timeout, Watch, print_started, which
from sagas.cli.read.watching import report, watch
from sagas.cli.target import Target, on_target
from sagas.operations import VERBS, Operation

if TYPE_CHECKING:
    from sagas.client import SagaClient

_Reason = Annotated[str, typer.Option(help="Why; kept in the audit trail.")]


def command_of(operation: Operation) -> Callable[..., None]:
    """Return the command that does an operation to one saga by the client's call of its name, and prints the saga; with
    ``--all`` to many, if it is for many. Its options are the fields of the operation's body."""

    def run(target: Target, name: str, saga_id: str, **options: Any) -> None:
        given = {option: value for option, value in options.items() if value is not None}
        report(target, getattr(target.client(), operation.name)(name, saga_id, **given))

    kinds = get_type_hints(operation.body)
    own = [_parameter(field, kinds[field.name]) for field in operation.options]
    own.sort(key=lambda one: one.default is not Parameter.empty)
    which = [("target", Target), ("name", Name), ("saga_id", SagaId)]
    named = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind) for name, kind in which]
    run.__dict__["__signature__"] = Signature([*named, *own])
    run.__name__ = operation.name
    return on_target(or_all(operation.name)(run) if operation.many else run)


def _parameter(field: Field[Any], kind: Any) -> Parameter:
    """A field of a body as an option. Of a list each value is given by itself."""
    flags, default = [*field.metadata["flags"]], field.default
    if kind is bool:
        flags = flags or [f"--{field.name}"]
    if field.default_factory is not MISSING:
        kind, default = kind | None, None
    needed = default is MISSING
    option = typer.Option(*flags, help=field.metadata["help"], show_default=not needed)
    given = Parameter.empty if needed else default
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=given, annotation=Annotated[kind, option])


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
    target: Target, name: Name, saga_id: SagaId, reason: _Reason = "", watching: Watch = False, timeout: Timeout = None
) -> None:
    """Retry what failed, and watch it where that is asked for."""
    client = target.client()
    saga = client.retry(name, saga_id, reason)
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


_What = Annotated[str | None, typer.Argument(metavar="[STEP|ID]", help="One step, or one saga.", show_default=False)]


@on_target
def pause(
    target: Target,
    name: Name,
    what: _What = None,
    *,
    starts_only: Annotated[
        bool, typer.Option("--starts-only", help="Refuse new sagas only; those in flight go on.")
    ] = False,
    starts: Annotated[bool, typer.Option("--starts", help="Accept new sagas meanwhile; they wait, too.")] = False,
    undos: Annotated[bool, typer.Option("--undos", help="Have undos wait, too.")] = False,
    reason: Annotated[str, typer.Option(help="Why; shown to operators.", show_default=False)],
) -> None:
    """Have the sagas of a type, those at a step, or one saga stop before the next step."""
    client = target.client()
    scope = _scope(client, name, what)
    definition = client.pause(name, reason, starts_only=starts_only, starts=starts, undos=undos, **scope)
    if target.as_json:
        emit(definition)
        return
    paused = " ".join([name, *scope.values()])
    if starts_only:
        say(f"Starts of {name} are paused; sagas in flight go on.")
    elif scope:
        say(f"{paused} is paused: no step begins.")
    else:
        say(f"{name} is paused: no step begins. New sagas are {'accepted, and wait' if starts else 'refused'}.")
    say(f"`sagas resume {paused}` lets them go on.")


@on_target
def resume(
    target: Target, name: Name, what: _What = None, reason: Annotated[str, typer.Option(help="Why.")] = ""
) -> None:
    """End a pause; sagas go on, spread over time."""
    client = target.client()
    scope = _scope(client, name, what)
    definition = client.resume(name, reason, **scope)
    if target.as_json:
        emit(definition)
    else:
        say(f"{' '.join([name, *scope.values()])} is not paused any more.")


def _scope(client: SagaClient, name: str, what: str | None) -> dict[str, str]:
    """What is paused of a type, as the client takes it: a step, a saga, or all."""
    if what is None:
        return {}
    types = {one["type"]: one for one in client.types()}
    if name in types and what in (step["name"] for step in types[name]["steps"]):
        return {"step": what}
    return {"saga_id": which(client, name, what, last=False)[1]}


@on_target
def enable(target: Target, name: Name, reason: str = "") -> None:
    """Answer with the command that took its place."""
    fail(f"enable is now `sagas resume {name}`")


@on_target
def disable(target: Target, name: Name, reason: str = "") -> None:
    """Answer with the command that took its place."""
    fail(f"disable is now `sagas pause {name} --starts-only`")


@on_target
def definitions(target: Target) -> None:
    """Answer with the command that took its place."""
    fail("definitions is now `sagas types`")


def add_to(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    by_hand = {"retry": retry, "signal": signal, "rerun": rerun, "pause": pause, "resume": resume}
    for name, operation in VERBS.items():
        command, settings = by_hand.pop(name, None) or command_of(operation), SETTINGS if operation.many else {}
        app.command(name, help=operation.verb.help, context_settings=settings)(command)
    for name, command in by_hand.items():
        app.command(name, context_settings=SETTINGS if command is rerun else {})(command)
    for name, command in (("enable", enable), ("disable", disable), ("definitions", definitions)):
        app.command(name, hidden=True)(command)
