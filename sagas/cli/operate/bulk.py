"""``sagas cancel | retry | compensate | resolve | rerun --all``: one operation on many sagas."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, NoReturn, ParamSpec

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sagas.cli.output import display, emit, fail, plain, say, screen
from sagas.cli.read.reading import filters, moment_of
from sagas.cli.tables import list_table
from sagas.cli.target import Target
from sagas.core.states import SagaStatus
from sagas.errors import SagaError
from sagas.operations import VERBS

if TYPE_CHECKING:
    from sagas.client import SagaClient
    from sagas.client.operate.batch import Batch
    from sagas.client.operate.outcomes import Outcome, Report
    from sagas.engine.read.answers import Summary

P = ParamSpec("P")

_PANEL = "With --all"
_SHOWN = 20
_ONE_RESTS = 30.0
"""Seconds for which the first saga is watched before the others follow."""


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=_PANEL, **more)


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "all_": (Annotated[bool, _option("--all", help="Do it to all sagas that the options below choose.")], False),
    "status": (
        Annotated[SagaStatus | None, _option("--status", case_sensitive=False, help="Only sagas of this status.")],
        None,
    ),
    "error": (
        Annotated[str | None, _option("--error", help="Only those with this type of error, or text in it.")],
        None,
    ),
    "since": (
        Annotated[str | None, _option("--since", help="Only those started, or ended, since: 2h ago.")],
        None,
    ),
    "reason": (Annotated[str, _option("--reason", help="Why; kept in each audit trail.")], ""),
    "dry_run": (Annotated[bool, _option("--dry-run", help="Show what would be chosen, and do nothing.")], False),
    "rate": (Annotated[float, _option("--rate", min=0.1, max=1000, help="Calls a second, at most.")], 20.0),
    "one_first": (
        Annotated[bool, _option("--one-first", help="Do it to one, look at it, then go on.")],
        False,
    ),
    "outcomes": (
        Annotated[Path | None, _option("--outcomes", help="File of outcomes; one that is there is gone on with.")],
        None,
    ),
    "yes": (Annotated[bool, _option("--yes", "-y", help="Do not ask.")], False),
}
_OF_ONE: dict[str, Any] = {
    name: Annotated[str | None, typer.Argument(metavar=label, help=what, show_default=False)]
    for name, label, what in (("name", "TYPE", "The saga type."), ("saga_id", "ID", "Id of the saga."))
}
"""The arguments of a command for one saga; with ``--all`` there are none."""

_FLAG_OF = {"watching": "--watch"}


def _refuse_with_all(given: Collection[str], own: Iterable[str], allowed: Collection[str]) -> None:
    """Refuse options that a command takes for one saga only."""
    if wrong := next((name for name in own if name in given and name not in allowed), ""):
        raise typer.BadParameter(f"No such option with --all: {_FLAG_OF.get(wrong, f'--{wrong}')}")


def _refuse_without_all(words: Sequence[str], given: Sequence[str]) -> None:
    """Refuse options that a command takes for many sagas only."""
    if words or given:
        wrong = words[0] if words else "--" + given[0].replace("_", "-")
        raise typer.BadParameter(f"No such option without --all: {wrong}")


def _require(arguments: Mapping[str, Any], needed: Iterable[str]) -> None:
    """Refuse a call without what the command for one saga needs."""
    for name in needed:
        if not arguments[name]:
            label = {"name": "argument 'TYPE'", "saga_id": "argument 'ID'"}.get(name, f"option '--{name}'")
            raise typer.BadParameter(f"Missing {label}.")


def or_all(action: str) -> Callable[[Callable[Concatenate[Target, P], None]], Callable[..., None]]:
    """Let a command for one saga be for many, with ``--all``."""

    options = [one.name for one in VERBS[action].options if one.name != "reason"] if action in VERBS else []

    def made(function: Callable[Concatenate[Target, P], None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())
        needed = [one.name for one in own[1:] if one.default is inspect.Parameter.empty]
        has_reason = any(one.name == "reason" for one in own)
        for_many = {name: option for name, option in _OPTIONS.items() if name != "reason" or not has_reason}

        @functools.wraps(function)
        def run(target: Target, **arguments: Any) -> None:
            context: typer.Context = arguments.pop("context")
            told = {name: arguments.pop(name) for name in for_many}
            sources = {name: context.get_parameter_source(name) for name in (*told, *arguments)}
            given = {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
            if told["all_"]:
                words = [*(arguments[one] for one in ("name", "saga_id") if arguments[one]), *context.args]
                told.setdefault("reason", arguments.get("reason", ""))
                _refuse_with_all(given, [parameter.name for parameter in own[1:]], (*_OF_ONE, "reason", *options))
                _all(target, action, told, words, {name: arguments[name] for name in options if arguments[name]})
                return
            _refuse_without_all(context.args, [one for one in told if one in given])
            _require(arguments, needed)
            function(target, **arguments)  # pyright: ignore[reportCallIssue] - by name, as declared below

        parameters = [own[0]]
        for one in own[1:]:
            missing = None if one.name in _OF_ONE else ""
            default = missing if one.name in needed else one.default
            annotation = _OF_ONE.get(one.name, one.annotation)
            parameters.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
        for name, (annotation, default) in {"context": (typer.Context, inspect.Parameter.empty), **for_many}.items():
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(name, kind, annotation=annotation, default=default))
        run.__dict__["__signature__"] = inspect.Signature(parameters)
        run.__annotations__ = {}
        return run

    return made


SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True}
"""Of such commands, for Typer: what a type is found by are options of its own, ``--customer c-17``."""


def _found_by(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Names, and values from ``--customer c-17`` and ``--customer=c-17``."""
    left, find = list[str](), dict[str, str]()
    rest = iter(words)
    for word in rest:
        if not word.startswith("--"):
            left.append(word)
            continue
        field, is_value, value = word[2:].partition("=")
        if not is_value:
            value = next(rest, "")
        if not field or not value or value.startswith("--"):
            raise typer.BadParameter(f"No such option: {word}")
        find[field.replace("-", "_")] = value
    return left, find


def _all(target: Target, action: str, told: Mapping[str, Any], words: list[str], more: Mapping[str, Any]) -> None:
    # With it comes boto3, which no help text needs.
    from sagas.client.operate.batch import Batch, choose, needs_reason

    words, by_option = _found_by(words)
    name, find = filters(words)
    path: Path | None = told["outcomes"]
    begun = path is not None and path.exists()
    if name is None and not begun:
        raise typer.BadParameter("Missing argument 'TYPE'.")
    if needs_reason(action) and not told["reason"].strip() and not begun:
        raise typer.BadParameter("Missing option '--reason': say why they are settled.")
    client = target.client()
    if path is not None and begun:
        _go_on(target, client, _resumed(client, path, action, name, told["rate"], more), told)
        return
    status = told["status"].value if told["status"] is not None else None
    since, error = moment_of(told["since"], "--since", target.now()), told["error"]
    chosen = choose(client, action, str(name), status=status, error=error, since=since, find=find | by_option)
    if told["dry_run"]:
        _show_chosen(target, action, chosen)
        return
    ids = [one["saga_id"] for one in chosen]
    try:
        job = Batch(client, action, str(name), ids, told["reason"], rate=told["rate"], options=more)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    job.path = path or (Path(f"bulk-{job.job}.jsonl") if chosen else None)
    _do(target, client, job, told)


def _resumed(
    client: SagaClient, path: Path, action: str, name: str | None, rate: float, more: Mapping[str, Any]
) -> Batch:
    """The job that a file of outcomes is of; it must be the one that is asked for."""
    from sagas.client.operate.batch import Batch

    job = Batch.resumed(client, path, rate)
    if (job.action, name or job.name) != (action, job.name):
        fail(f"{path} is of another job: {job.action} of {job.name}")
    if any(job.options.get(option) != value for option, value in more.items()):
        fail(f"{path} is of a job with other options: go on with it without them")
    return job


def _show_chosen(target: Target, action: str, chosen: Sequence[Summary]) -> None:
    """Say which sagas a job would be for."""
    if target.as_json:
        emit({"action": action, "chosen": len(chosen), "sagas": chosen})
        return
    if chosen:
        display(list_table(chosen[:_SHOWN], target.now(), screen().width))
    say(f"{len(chosen)} sagas would be chosen" + (f"; the first {_SHOWN} are shown." if len(chosen) > _SHOWN else "."))


def _go_on(target: Target, client: SagaClient, job: Batch, told: Mapping[str, Any]) -> None:
    """Go on with a job; in a dry run only say what is left of it."""
    left = job.report.unfinished
    if not told["dry_run"]:
        _do(target, client, job, told)
    elif target.as_json:
        emit({"action": job.action, "chosen": len(job.saga_ids), "left": len(left), "saga_ids": left})
    else:
        say(f"{len(left)} of {len(job.saga_ids)} sagas are left to do.")


def _do(target: Target, client: SagaClient, job: Batch, told: Mapping[str, Any]) -> None:
    """Ask, do it, and tell what was done; exit code 1 where something failed or is left."""
    count = len(job.report.unfinished)
    if count and not told["yes"] and not typer.confirm(f"{job.action} {count} sagas of type {job.name}?", err=True):
        fail("nothing was done")
    if told["one_first"] and count:
        first, report = job.report.unfinished[0], job.run(most=1)
        if report.stopped:
            _tell(target, job, report)
        became = _became(client, job, first)
        if not target.as_json:
            say(f"The first, {first}: {became}")
        good = report.outcomes[first].outcome == "done" and became not in _BAD
        if not good or (
            not told["yes"] and count > 1 and not typer.confirm(f"Go on with the other {count - 1}?", err=True)
        ):
            report.stopped = "after the first"
            _tell(target, job, report)
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
    )
    with bar if console.is_terminal and not target.as_json else nullcontext():
        task = bar.add_task(job.action, total=len(job.saga_ids), completed=len(job.report.outcomes))

        def shown(one: Outcome) -> None:
            bar.advance(task)
            if one.outcome == "failed":
                typer.echo(f"sagas: {one.saga_id} failed: {plain(one.message)}", err=True)

        report = job.run(shown)
    _tell(target, job, report)


_BAD = tuple(status.value for status in (SagaStatus.DEAD_LETTERED, SagaStatus.FAILED, SagaStatus.COMPENSATION_FAILED))


def _became(client: SagaClient, job: Batch, saga_id: str) -> str:
    """What became of the first saga, after a while."""
    one = job.report.outcomes[saga_id]
    if one.outcome != "done" or job.action == "resolve":
        return one.outcome if not one.message else f"{one.outcome}: {plain(one.message)}"
    try:
        return client.wait(job.name, one.new or saga_id, _ONE_RESTS)["status"]
    except TimeoutError:
        return "still under way"
    except SagaError as error:
        return plain(str(error))


def _tell(target: Target, job: Batch, report: Report) -> NoReturn:
    counts = {kind: report.count(kind) for kind in ("done", "refused", "failed")}
    chosen, left = len(report.chosen), len(report.left)
    where = str(job.path) if job.path is not None else None
    if target.as_json:
        told = {"job": job.job, "action": job.action, "chosen": chosen, **counts, "left": left}
        emit({**told, "stopped": report.stopped or None, "outcomes": where})
    else:
        parts = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        say(f"bulk {job.job}: {chosen} chosen: {parts}" + (f", {left} left." if left else "."))
        for one in [one for one in report.outcomes.values() if one.outcome == "refused"][:_SHOWN]:
            say(f"{one.saga_id} refused: {plain(one.message)}")
        if report.stopped:
            say(f"It was stopped: {report.stopped}.")
        if where and (left or counts["failed"]):
            say(f"`sagas {job.action} {job.name} --all --outcomes {where}` goes on.")
    raise typer.Exit(1 if left or counts["failed"] else 0)
