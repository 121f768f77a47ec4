"""``sagas cancel | retry | compensate | resolve | rerun --all``: one operation on many sagas."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
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
    from sagas.client.operate.jobs import JobRecord
    from sagas.client.operate.outcomes import CallOutcome
    from sagas.client.operate.selection import Selection
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
    "step": _option(str | None, "--step", "Only sagas with trouble at this step"),
    "code": _option(str | None, "--code", "Only sagas with this reason at the step, as `sagas attention` prints it"),
    "status": _option(SagaStatus | None, "--status", "Only this status", case_sensitive=False),
    "error": _option(
        str | None, "--error", "Only this error type, or this text in its message; with --code only this type"
    ),
    "find": _option(list[str] | None, "--find", "Only this search key; repeatable", metavar="KEY=VALUE"),
    "since": _moment("--since", "Only sagas that started, or ended, since TIME"),
    "until": _moment("--until", "Only sagas that started, or ended, before TIME"),
    "reason": _option(str, "--reason", "Why; kept in each audit trail", ""),
    "dry_run": _flag("--dry-run", "Show the sagas and change nothing"),
    "rate": _option(float, "--rate", "Maximum number of calls per second", 20.0, min=0.1, max=1000),
    "one_first": _flag("--one-first", "Do one saga, wait for its outcome, then continue"),
    "job": _option(str | None, "--job", "Name of the job; one that there is already is resumed"),
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
    from sagas.client.operate.batch import Batch, needs_reason, usual
    from sagas.client.operate.jobs import JobFolder, service_of
    from sagas.client.operate.selection import Selection

    folder = JobFolder()
    name = str(many["job"] or "")
    resuming = folder.has(name)
    if len(names) > 1 or not (names or resuming):
        raise typer.BadParameter("needs TYPE, and takes no id", param_hint="--all")
    filters = _filters(many, target.now())
    client = target.client()
    service = service_of(target.stack, client.region)
    more: dict[str, Any] = {"reason": many["reason"] or "", "rate": many["rate"], "options": options}
    more |= {"service": service, "folder": folder, **({"job": name} if name else {})}
    if resuming:
        given = {**options, **({"reason": many["reason"]} if many["reason"] else {})}
        record = _resumed(folder.read(name), service, action, names, given)
        selection = _selection_again(record, usual(action, Selection(type=record.selection.type, **filters)))
        more |= {"reason": record.reason, "options": record.options}
    else:
        selection = usual(action, Selection(type=names[0], **filters))
    try:
        job = Batch(client, action, selection, **more)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from problem
    chosen = job.choose()
    if many["dry_run"]:
        _show_chosen(target, action, chosen)
        return
    if chosen and needs_reason(action) and not job.reason.strip():
        if not sys.stdin.isatty():
            raise typer.BadParameter("Missing option '--reason'.")
        job.reason = typer.prompt("Reason, for each audit trail", err=True)
    _do(target, client, job, many)


def _filters(many: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Return the fields of a selection that the options of a command name."""
    if many["code"] is not None and many["step"] is None:
        raise typer.BadParameter("needs --step", param_hint="--code")
    filters: dict[str, Any] = {part: many[part] or "" for part in ("step", "code")}
    filters |= {side: many[side].at(now) for side in ("since", "until") if many[side]}
    # An incident without an error has none, which is an empty one.
    filters["error"] = many["error"] or "" if many["code"] else many["error"]
    filters["find"] = find_values(many["find"])
    return {**filters, "statuses": (many["status"].value,)} if many["status"] else filters


def _resumed(
    record: JobRecord, service: str, action: str, names: Sequence[str], options: Mapping[str, Any]
) -> JobRecord:
    """Return a job that is run again, if the command asks for the same job of the same service."""
    if record.service != service:
        fail(f"job {record.job} is for the service {record.service}, not {service}")
    if (record.action, names[0] if names else record.selection.type) != (action, record.selection.type):
        fail(f"job {record.job} is another one: {record.action} of {record.selection.type or 'all types'}")
    own = {**record.options, "reason": record.reason}
    if any(own.get(option) != value for option, value in options.items()):
        fail(f"job {record.job} has another reason or other options; resume it without them")
    if not {*record.left_out} <= {"find"}:
        fail(f"which sagas job {record.job} was for is not kept; choose them again")
    return record


def _selection_again(record: JobRecord, requested: Selection) -> Selection:
    """Return the selection of a job that is run again, with the search keys of the command. Other filters may be
    repeated."""
    from msgspec.structs import replace

    from sagas.client.operate.batch import usual
    from sagas.client.operate.selection import Selection

    if record.left_out and not requested.find:
        fail(f"the search keys of job {record.job} are not kept; pass the same --find again")
    # The job's own times apply: `--since 2h` is another time by now.
    times: dict[str, Any] = {"since": "", "until": "", "as_of": "", "find": {}}
    everything = usual(record.action, Selection(type=record.selection.type))
    if replace(requested, **times) not in (everything, replace(record.selection, **times)):
        fail(f"job {record.job} has another filter; resume it without one")
    return replace(record.selection, find=requested.find if record.left_out else {})


def _show_chosen(target: Target, action: str, chosen: Sequence[Summary]) -> None:
    if target.as_json:
        emit({"action": action, "chosen": len(chosen), "sagas": chosen})
        return
    if chosen:
        show_list(chosen[:_LISTED], target.now())
    rest = f"; the first {_LISTED} are listed." if len(chosen) > _LISTED else "."
    say(f"{count_of(len(chosen), 'saga')} would be chosen{rest}")


def _do(target: Target, client: SagaClient, job: Batch, many: Mapping[str, Any]) -> None:
    """Ask for confirmation, run the job and print its outcome. The exit code is 1 if a call failed or sagas remain."""
    count = len(job.report.chosen)
    yes = many["yes"]
    if not count:
        if not target.as_json:
            say("No saga matches.")
            raise typer.Exit
        _report(target, job)
    of = f"of type {job.selection.type}" if job.selection.type else "of all types"
    question = f"{job.action.capitalize()} {count_of(count, 'saga')} {of}?"
    if not yes and not typer.confirm(question, err=True):
        fail("nothing was changed")
    if many["one_first"]:
        first = next(iter(job.report.chosen))
        report = job.run(most=1)
        if report.stopped:
            _report(target, job)
        outcome = _outcome_of_first(client, job, first)
        if not target.as_json:
            say(f"First saga, {first}: {outcome}")
        good = report.outcomes[first].outcome == "done" and outcome not in _BAD
        if not good or (not yes and count > 1 and not typer.confirm(f"Continue with the other {count - 1}?", err=True)):
            report.stopped = "after the first"
            _report(target, job)
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
    )
    with bar if console.is_terminal and not target.as_json else nullcontext():
        task = bar.add_task(job.action, total=count, completed=len(job.report.outcomes))

        def on_outcome(outcome: CallOutcome) -> None:
            bar.advance(task)
            if outcome.outcome == "failed":
                typer.echo(f"sagas: {outcome.saga_id} failed: {plain(outcome.message)}", err=True)

        job.run(on_outcome)
    _report(target, job)


_BAD = tuple(status.value for status in (SagaStatus.DEAD_LETTERED, SagaStatus.FAILED, SagaStatus.COMPENSATION_FAILED))


def _outcome_of_first(client: SagaClient, job: Batch, saga_id: str) -> str:
    """Return the status of the first saga once it has stopped, at the latest after 30 seconds."""
    call = job.report.outcomes[saga_id]
    if call.outcome != "done" or job.action == "resolve":
        return call.outcome if not call.message else f"{call.outcome}: {plain(call.message)}"
    try:
        return client.wait(job.report.chosen[saga_id].type, call.new or saga_id, _FIRST_WATCHED)["status"]
    except TimeoutError:
        return "still in flight"
    except SagaError as error:
        return plain(str(error))


def _report(target: Target, job: Batch) -> NoReturn:
    report = job.report
    counts = report.counts
    remaining = len(report.remaining)
    failed = counts["failed"]
    for note in report.notes:
        warn(note)
    if target.as_json:
        summary = {"job": job.job, "action": job.action, **counts, "remaining": remaining}
        emit({**summary, "stopped": report.stopped or None})
    else:
        done = counts.pop("done")
        chosen = counts.pop("chosen")
        others = {**counts, "remaining": remaining}
        more = "".join(f", {count} {kind}" for kind, count in others.items() if count)
        say(f"{_PAST[job.action]} {count_of(done, 'saga')} of {chosen:,}{more} (bulk {job.job}).")
        for outcome in [each for each in report.outcomes.values() if each.outcome == "refused"][:_LISTED]:
            say(f"{outcome.saga_id} refused: {plain(outcome.message)}")
        if report.stopped:
            say(f"Stopped: {report.stopped}{f'; the last: {plain(report.cause)}' if report.cause else ''}.")
        if remaining or failed:
            say(f"Continue with `sagas {job.action} --all --job {job.job}`.")
    raise typer.Exit(1 if remaining or failed else 0)
