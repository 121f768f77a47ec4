"""``sagas cancel | retry | compensate | resolve | rerun --all``: one operation on many sagas."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sagas.cli.one_saga import find_values, for_saga
from sagas.cli.output import count_of, emit, fail, plain, say, warn
from sagas.cli.tables import show_list
from sagas.cli.target import Target
from sagas.cli.times import moment
from sagas.core.states import SagaStatus
from sagas.errors import SagaError
from sagas.operations import VERBS

if TYPE_CHECKING:
    from sagas.client import SagaClient
    from sagas.client.operate.batch import Batch
    from sagas.client.operate.outcomes import CallOutcome, Report
    from sagas.engine.read.answers import Summary

_PANEL = "With --all"
_LISTED = 20
_FIRST_WATCHED = 30.0
"""Seconds for which the first saga is watched before the job continues with the others."""
_PAST = {
    "cancel": "Cancelling", "retry": "Retried", "compensate": "Undoing", "resolve": "Resolved", "rerun": "Reran",
}  # fmt: skip


def _flag(name: str, help: str, *more: str) -> tuple[Any, Any]:
    return Annotated[bool, typer.Option(name, *more, help=help, rich_help_panel=_PANEL)], False


def _option(kind: Any, name: str, help: str, default: Any = None, **more: Any) -> tuple[Any, Any]:
    return Annotated[kind, typer.Option(name, help=help, rich_help_panel=_PANEL, **more)], default


def _moment(name: str, help: str) -> tuple[Any, Any]:
    return Annotated[Any, moment(name, help=help, rich_help_panel=_PANEL)], None


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "all_": _flag("--all", "All sagas of TYPE that match these options"),
    "status": _option(SagaStatus | None, "--status", "Only this status", case_sensitive=False),
    "error": _option(str | None, "--error", "Only this error type, or this text in its message"),
    "find": _option(list[str] | None, "--find", "Only this search key; repeatable", metavar="KEY=VALUE"),
    "since": _moment("--since", "Only sagas that started, or ended, since TIME"),
    "until": _moment("--until", "Only sagas that started, or ended, before TIME"),
    "reason": _option(str, "--reason", "Why; kept in each audit trail", ""),
    "dry_run": _flag("--dry-run", "Show the sagas and change nothing"),
    "rate": _option(float, "--rate", "Maximum number of calls per second", 20.0, min=0.1, max=1000),
    "one_first": _flag("--one-first", "Do one saga, wait for its outcome, then continue"),
    "outcomes": _option(Path | None, "--outcomes", "File of outcomes; an existing one is resumed"),
    "yes": _flag("--yes", "Do not ask", "-y"),
}
_FLAGS = {"watching": "--watch", "dry_run": "--dry-run", "one_first": "--one-first"}


def or_all(action: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn a function for one saga into a command for one saga or, with ``--all``, for many."""

    allowed = VERBS[action].bulk_options if action in VERBS else ()

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        single = for_saga()(function)
        parameters = dict(inspect.signature(single).parameters)
        own = [name for name in parameters if name not in ("target", "names", "all_")]
        required = [name for name in own if parameters[name].default is inspect.Parameter.empty]
        for_many = {name: option for name, option in _OPTIONS.items() if name not in own}

        @functools.wraps(single)
        def run(target: Target, context: typer.Context, names: list[str] | None, **arguments: Any) -> None:
            many = {name: arguments.pop(name) for name in for_many}
            sources = {name: context.get_parameter_source(name) for name in (*many, *arguments)}
            passed = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
            refused = {*own} - {"reason", *allowed} if many["all_"] else {*many} - {"all_", "yes"}
            for name in passed:
                if name in refused:
                    problem = f"cannot be used {'with' if many['all_'] else 'without'} --all"
                    raise typer.BadParameter(problem, param_hint=_FLAGS.get(name, f"--{name}"))
            if many["all_"]:
                options = {name: arguments[name] for name in allowed if arguments[name]}
                _all(target, action, {"reason": arguments.get("reason"), **many}, names or (), options)
                return
            for name in required:
                if not arguments[name]:
                    raise typer.BadParameter(f"Missing option '--{name}'.")
            single(target, names, all_=False, **arguments)

        kind = inspect.Parameter.KEYWORD_ONLY
        merged = {"context": inspect.Parameter("context", kind, annotation=typer.Context), **parameters}
        merged |= {name: merged[name].replace(default="") for name in required}
        for name, (annotation, default) in for_many.items():
            merged[name] = inspect.Parameter(name, kind, annotation=annotation, default=default)
        target = merged.pop("target")
        run.__dict__["__signature__"] = inspect.Signature([target, *merged.values()])
        run.__annotations__ = {}
        return run

    return decorated


def _all(
    target: Target, action: str, many: Mapping[str, Any], names: Sequence[str], options: Mapping[str, Any]
) -> None:
    # Imported late: this loads boto3, which no help text needs.
    from sagas.client.operate.batch import Batch, choose, needs_reason

    path: Path | None = many["outcomes"]
    resuming = path is not None and path.exists()
    if len(names) > 1 or not (names or resuming):
        raise typer.BadParameter("needs TYPE, and takes no id", param_hint="--all")
    if needs_reason(action) and not (many["reason"] or "").strip() and not resuming:
        raise typer.BadParameter("Missing option '--reason'.")
    client, name = target.client(), names[0] if names else None
    if path is not None and resuming:
        _resume(target, client, _resumed(client, path, action, name, many["rate"], options), many)
        return
    now = target.now()
    since, until = (many[side] and many[side].at(now) for side in ("since", "until"))
    filters: dict[str, Any] = {"since": since, "until": until, "find": find_values(many["find"])}
    chosen = choose(client, action, str(name), status=many["status"], error=many["error"], **filters)
    if many["dry_run"]:
        _show_chosen(target, action, chosen)
        return
    seqs = {saga["saga_id"]: saga["seq"] for saga in chosen}
    try:
        job = Batch(client, action, str(name), seqs, many["reason"] or "", rate=many["rate"], options=options)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    job.path = path or (Path(f"bulk-{job.job}.jsonl") if chosen else None)
    _do(target, client, job, many)


def _resumed(
    client: SagaClient, path: Path, action: str, name: str | None, rate: float, options: Mapping[str, Any]
) -> Batch:
    """Return the job that a file of outcomes belongs to. The command must ask for the same job."""
    from sagas.client.operate.batch import Batch

    job = Batch.resumed(client, path, rate)
    if (job.action, name or job.type) != (action, job.type):
        fail(f"{path} belongs to another job: {job.action} of {job.type}")
    if any(job.options.get(option) != value for option, value in options.items()):
        fail(f"{path} belongs to a job with other options; resume it without them")
    return job


def _show_chosen(target: Target, action: str, chosen: Sequence[Summary]) -> None:
    if target.as_json:
        emit({"action": action, "chosen": len(chosen), "sagas": chosen})
        return
    if chosen:
        show_list(chosen[:_LISTED], target.now())
    rest = f"; the first {_LISTED} are listed." if len(chosen) > _LISTED else "."
    say(f"{count_of(len(chosen), 'saga')} would be chosen{rest}")


def _resume(target: Target, client: SagaClient, job: Batch, many: Mapping[str, Any]) -> None:
    """Resume a job or, in a dry run, only show its remaining sagas."""
    remaining = job.report.unfinished
    if not many["dry_run"]:
        _do(target, client, job, many)
    elif target.as_json:
        emit({"action": job.action, "chosen": len(job.seqs), "remaining": len(remaining), "saga_ids": remaining})
    else:
        say(f"{len(remaining)} of {count_of(len(job.seqs), 'saga')} remain.")


def _do(target: Target, client: SagaClient, job: Batch, many: Mapping[str, Any]) -> None:
    """Ask for confirmation, run the job and print its outcome. The exit code is 1 if a call failed or sagas remain."""
    count, yes = len(job.report.unfinished), many["yes"]
    question = f"{job.action.capitalize()} {count_of(count, 'saga')} of type {job.type}?"
    if count and not yes and not typer.confirm(question, err=True):
        fail("nothing was changed")
    if many["one_first"] and count:
        first, report = job.report.unfinished[0], job.run(most=1)
        if report.stopped:
            _report(target, job, report)
        outcome = _outcome_of_first(client, job, first)
        if not target.as_json:
            say(f"First saga, {first}: {outcome}")
        good = report.outcomes[first].outcome == "done" and outcome not in _BAD
        if not good or (not yes and count > 1 and not typer.confirm(f"Continue with the other {count - 1}?", err=True)):
            report.stopped = "after the first"
            _report(target, job, report)
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
    )
    with bar if console.is_terminal and not target.as_json else nullcontext():
        task = bar.add_task(job.action, total=len(job.seqs), completed=len(job.report.outcomes))

        def on_outcome(outcome: CallOutcome) -> None:
            bar.advance(task)
            if outcome.outcome == "failed":
                typer.echo(f"sagas: {outcome.saga_id} failed: {plain(outcome.message)}", err=True)

        report = job.run(on_outcome)
    _report(target, job, report)


_BAD = tuple(status.value for status in (SagaStatus.DEAD_LETTERED, SagaStatus.FAILED, SagaStatus.COMPENSATION_FAILED))


def _outcome_of_first(client: SagaClient, job: Batch, saga_id: str) -> str:
    """Return the status of the first saga once it has stopped, at the latest after 30 seconds."""
    call = job.report.outcomes[saga_id]
    if call.outcome != "done" or job.action == "resolve":
        return call.outcome if not call.message else f"{call.outcome}: {plain(call.message)}"
    try:
        return client.wait(job.type, call.new or saga_id, _FIRST_WATCHED)["status"]
    except TimeoutError:
        return "still in flight"
    except SagaError as error:
        return plain(str(error))


def _report(target: Target, job: Batch, report: Report) -> NoReturn:
    counts = {kind: report.count(kind) for kind in ("done", "refused", "failed")}
    chosen, remaining = len(report.chosen), len(report.remaining)
    where = str(job.path) if job.path is not None else None
    warn(report.letters)
    if target.as_json:
        summary = {"job": job.job, "action": job.action, "chosen": chosen, **counts, "remaining": remaining}
        emit({**summary, "stopped": report.stopped or None, "outcomes": where})
    else:
        others = {**{kind: counts[kind] for kind in ("refused", "failed")}, "remaining": remaining}
        more = "".join(f", {count} {kind}" for kind, count in others.items() if count)
        say(f"{_PAST[job.action]} {count_of(counts['done'], 'saga')} of {chosen}{more} (bulk {job.job}).")
        for outcome in [each for each in report.outcomes.values() if each.outcome == "refused"][:_LISTED]:
            say(f"{outcome.saga_id} refused: {plain(outcome.message)}")
        if report.stopped:
            say(f"Stopped: {report.stopped}.")
        if where and (remaining or counts["failed"]):
            say(f"Resume with `sagas {job.action} {job.type} --all --outcomes {where}`.")
    raise typer.Exit(1 if remaining or counts["failed"] else 0)
