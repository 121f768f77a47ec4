"""``sagas cancel | retry | compensate | resolve | purge | ...``: an operator's actions on sagas and their types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from sagas.cli.completion import complete
from sagas.cli.one_saga import SagaRef, Type, on_saga, which
from sagas.cli.operate.bulk import or_all
from sagas.cli.output import emit, say, warn
from sagas.cli.read.reading import Data, File, json_input, print_started
from sagas.cli.read.watching import Watch, report, watch
from sagas.cli.target import Target, on_target
from sagas.cli.times import Timeout
from sagas.operations import RETRY, SEQ_HELP, VERBS, Operation

if TYPE_CHECKING:
    from sagas.client import SagaClient

_Reason = Annotated[str, typer.Option(help="Why; kept in the audit trail")]
_Seq = Annotated[int | None, typer.Option(help=SEQ_HELP)]


def command_of(operation: Operation) -> Callable[..., None]:
    """Return the command for an operation. It calls the client for one saga and prints the saga or, if the operation
    allows ``--all``, calls the client for many. Its options are the fields of the operation's body."""

    def run(target: Target, saga: SagaRef, **options: Any) -> None:
        values = {option: value for option, value in options.items() if value is not None}
        client = target.client()
        view = getattr(client, operation.name)(saga.type, saga.saga_id, **values)
        warn(client.take_letters(operation, saga.type, [saga.saga_id]))
        report(target, view)

    kinds = get_type_hints(operation.body)
    own = [_parameter(field, kinds[field.name]) for field in operation.options]
    own.sort(key=lambda parameter: parameter.default is not Parameter.empty)
    positional = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
        for name, kind in (("target", Target), ("saga", SagaRef))
    ]
    run.__dict__["__signature__"] = Signature([*positional, *own])
    run.__name__ = operation.name
    return on_target(or_all(operation.name)(run)) if operation.bulk_statuses else on_saga()(run)


def _parameter(field: Field[Any], kind: Any) -> Parameter:
    """Return a field of a body as an option. The option of a list is repeated for each value."""
    flags = [*field.metadata["flags"]]
    default = field.default
    help = field.metadata["help"]
    if kind is bool:
        flags = flags or [f"--{field.name}"]
    if field.default_factory is not MISSING:
        kind = kind | None
        default = None
        help = f"{help}; repeatable"
    required = default is MISSING
    option = typer.Option(*flags, help=help, show_default=not required)
    default = Parameter.empty if required else default
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


@on_saga("step")
def signal(target: Target, saga: SagaRef, step: str, file: File = None, data: Data = None) -> None:
    """Send a saga the value that one of its steps waits for."""
    value = json_input(file, data)
    report(target, target.client().signal(saga.type, saga.saga_id, step, value))


@on_target
@or_all("retry")
def retry(
    target: Target,
    saga: SagaRef,
    reason: _Reason = "",
    seq: _Seq = None,
    watching: Watch = False,
    timeout: Timeout = None,
) -> None:
    """Retry the failed step or undos, and watch the saga if requested."""
    client = target.client()
    view = client.retry(saga.type, saga.saga_id, reason, seq=seq)
    warn(client.take_letters(RETRY, saga.type, [saga.saga_id]))
    if watching:
        watch(target, client, view, timeout)
    else:
        report(target, view)


@on_target
@or_all("rerun")
def rerun(
    target: Target,
    saga: SagaRef,
    key: Annotated[str | None, typer.Option(help="Idempotency key of the new saga")] = None,
) -> None:
    """Start a new saga with the request of this one."""
    print_started(target, target.client().rerun(saga.type, saga.saga_id, key))


_Scope = Annotated[
    str | None,
    typer.Argument(
        metavar="[STEP|ID]", help="One step, or one saga by its id", show_default=False, autocompletion=complete
    ),
]


@on_target
def pause(
    target: Target,
    name: Type,
    what: _Scope = None,
    *,
    starts_only: Annotated[
        bool, typer.Option("--starts-only", help="Only refuse new sagas; sagas in flight continue")
    ] = False,
    starts: Annotated[bool, typer.Option("--starts", help="Accept new sagas; they wait, too")] = False,
    undos: Annotated[bool, typer.Option("--undos", help="Pause undos, too")] = False,
    reason: Annotated[str, typer.Option(help="Why; shown to operators", show_default=False)],
) -> None:
    """Pause a type, a step or one saga: the sagas stop before their next step."""
    if not reason.strip():
        raise typer.BadParameter("must not be blank", param_hint="--reason")
    client = target.client()
    scope = _scope(client, name, what)
    view = client.pause(name, reason, starts_only=starts_only, starts=starts, undos=undos, **scope)
    if target.as_json:
        emit(view)
        return
    paused = " ".join([name, *scope.values()])
    if starts_only:
        say(f"Starts of {name} are paused. Sagas in flight continue.")
    elif scope:
        say(f"{paused} is paused: no step starts.")
    else:
        say(f"{name} is paused: no step starts. New sagas are {'accepted and wait' if starts else 'refused'}.")
    say(f"`sagas resume {paused}` ends the pause.")


@on_target
def resume(target: Target, name: Type, what: _Scope = None, reason: _Reason = "") -> None:
    """End a pause. Paused sagas continue, spread over time."""
    client = target.client()
    scope = _scope(client, name, what)
    view = client.resume(name, reason, **scope)
    if target.as_json:
        emit(view)
    else:
        say(f"{' '.join([name, *scope.values()])} is no longer paused.")


def _scope(client: SagaClient, name: str, what: str | None) -> dict[str, str]:
    """Return the step or saga to pause, as an argument of the client; nothing if the whole type is meant."""
    if what is None:
        return {}
    view = next((view for view in client.types() if view["type"] == name), None)
    steps = [] if view is None else [step["name"] for step in view["steps"]]
    # A release may have removed a step while it was paused.
    steps += [] if view is None else [pause["step"] for pause in view["pauses"] if pause["step"]]
    if what in steps:
        return {"step": what}
    return {"saga_id": which(client, [name, what]).saga_id}


def add_to(app: typer.Typer) -> None:
    by_hand = {"retry": retry, "signal": signal, "rerun": rerun, "pause": pause, "resume": resume}
    for name, operation in VERBS.items():
        app.command(name, help=operation.verb.help)(by_hand.pop(name, None) or command_of(operation))
    for name, command in by_hand.items():
        app.command(name)(command)
