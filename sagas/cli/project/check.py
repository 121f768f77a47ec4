"""``sagas check``: finds out whether sagas in flight can continue with this code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagas.cli.output import count_of, emit, fail, plain, say
from sagas.cli.project.types import Types, only_synthesized, types_of_project
from sagas.cli.target import Target, report
from sagas.errors import InvalidRequest, NotFound, SagaError, full_text
from sagas.lock import LOCK

if TYPE_CHECKING:
    from sagas.authoring.definition.definition import SagaDefinition
    from sagas.lock.changes import Change
    from sagas.lock.content import Content

_FLIGHT = "Sagas in flight"
_OF_A_CHANGE = ("saga", "where", "what", "effect", "todo")


def check(
    context: typer.Context,
    sagas: Types = None,
    lock: Annotated[Path, typer.Option(help="Lock file")] = Path(LOCK),
    write: Annotated[bool, typer.Option("--write", help="Record these types as those of a release")] = False,
    stack: Annotated[
        str | None, typer.Option(rich_help_panel=_FLIGHT, help="Compare with the sagas of this CloudFormation stack")
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", rich_help_panel=_FLIGHT, help="Compare with the sagas of the local stack")
    ] = False,
    in_flight: Annotated[
        Path | None, typer.Option(metavar="FILE", rich_help_panel=_FLIGHT, help="Compare with a file of --save")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_FLIGHT, help="Save sagas in flight, without ids and values"),
    ] = None,
    ids: Annotated[
        bool, typer.Option("--ids", rich_help_panel=_FLIGHT, help="Print the three oldest ids of each group")
    ] = False,
    region: Annotated[str | None, typer.Option(rich_help_panel=_FLIGHT, help="AWS region of the stack")] = None,
    profile: Annotated[str | None, typer.Option(rich_help_panel=_FLIGHT, help="AWS profile")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else")] = False,
) -> None:
    """Compare the saga types with the last release, or with a stack: can sagas in flight continue?"""
    if sum((stack is not None, local, in_flight is not None)) > 1:
        raise typer.BadParameter("only one of them", param_hint="--stack/--local/--in-flight")
    with_stack = stack is not None or local
    with_sagas = stack is not None or local or in_flight is not None
    if (save is not None or ids) and not with_stack:
        raise typer.BadParameter("goes with --stack or --local", param_hint="--ids" if ids else "--save")
    if write and with_sagas:
        raise typer.BadParameter("cannot be combined with --stack, --local or --in-flight", param_hint="--write")
    as_json = as_json or bool(context.find_root().obj and context.find_root().obj["json"])
    try:
        definitions = types_of_project(sagas or ())
    except SagaError as error:
        fail(full_text(error))
    if not with_sagas:
        others = [] if sagas else only_synthesized(definitions)
        _with_release(definitions, others, lock, write=write, as_json=as_json)
        return
    target = Target(stack, region, profile, as_json)
    try:
        content, where = _in_flight(target, definitions, in_flight)
    except SagaError as error:
        report(target, error, status=2)
    if save is not None:
        _save(content, save)
    _report(content, where, definitions, ids=ids, as_json=as_json)


def _with_release(
    definitions: list[SagaDefinition], others: Sequence[str], lock: Path, *, write: bool, as_json: bool
) -> None:
    """Compare with the lock file. ``others``: types that the CDK app has besides ``definitions``."""
    from sagas.lock.changes import changes
    from sagas.lock.content import content_of, text_of

    try:
        recorded = _recorded(lock, write)
    except SagaError as error:
        fail(full_text(error))
    differences = changes(recorded, definitions)
    content = content_of(definitions)
    cure = "is in the CDK app, and was not checked; list it in [tool.sagas] of pyproject.toml"
    warnings = [*never_retried(definitions), *(f"{name} {cure}" for name in others)]
    if write:
        _write(lock, text_of(content))
    broken = sum(change.breaks for change in differences)
    if as_json:
        entries = [_entry(change) for change in differences]
        emit({"lock": str(lock), "written": write, "incompatible": broken, "changes": entries, "warnings": warnings})
    else:
        _print(differences)
        for warning in warnings:
            say(f"Warning: {warning}")
        if write:
            say(f"Wrote {lock}.")
        elif not recorded["sagas"]:
            say(f"{lock} records no release yet, so no saga can be in flight.")
        elif not differences:
            say(f"No change since {lock} affects sagas in flight.")
        if not write and recorded != content:
            say("`sagas check --write` records these types as those of a release.")
    if broken and not write:
        fail(f"{broken} of {count_of(len(differences), 'change')} since the last release would stop sagas in flight")


def never_retried(definitions: Sequence[SagaDefinition]) -> Iterator[str]:
    """Yield a warning for each undo that is never retried because its step is not."""
    for definition in definitions:
        for step in definition.steps:
            if step.undo is not None and step.undo.follows_step and not step.undo.retry.max_retries:
                name = f"{definition.name}: undo {step.undo.name} of step {step.name}"
                yield f"{name} has the step's max_retries=0; set retry= of the undo, or undo_retry= of the class"


def _recorded(lock: Path, write: bool) -> Content:
    """Return the content of the lock file. It is empty if the file cannot be read and ``--write`` will replace it."""
    from sagas.lock.content import FORMAT, read

    try:
        return read(lock)
    except (NotFound, InvalidRequest):
        if not write:
            raise
        return {"format": FORMAT, "sagas": {}}


def _in_flight(target: Target, definitions: Sequence[SagaDefinition], path: Path | None) -> tuple[Content, str]:
    """Return the sagas in flight in a stack or a file, and the name of the stack or file."""
    from sagas.lock.changes import read_in_flight
    from sagas.lock.content import FORMAT

    if path is not None:
        return read_in_flight(path), str(path)
    client = target.client()
    names = list(dict.fromkeys([*(view["type"] for view in client.types()), *(own.name for own in definitions)]))
    answers = dict[str, Any]()
    for name in names:  # grows by the types that only another type's answer names
        try:
            answer = client.in_flight(name)
        except NotFound:
            continue  # a new type
        names += [other for other in answer["undeployed"] if other not in names]
        answers[name] = {part: answer[part] for part in ("blueprints", "deployed", "groups")}
    return {"format": FORMAT, "types": answers}, target.stack or "the local stack"


def _report(content: Content, where: str, definitions: Sequence[SagaDefinition], *, ids: bool, as_json: bool) -> None:
    from sagas.lock.changes import changes_in_flight

    differences = changes_in_flight(content, definitions)
    missing = unlisted(content, definitions)
    count = sum(group["count"] for answer in content["types"].values() for group in answer["groups"])
    stopped = sum(change.breaks for change in differences)
    if as_json:
        more = ("sagas", "place", "count", "since", *(("ids",) if ids else ()))
        entries = [_entry(change, *more) for change in differences]
        emit({"in_flight": where, "sagas": count, "incompatible": stopped, "changes": entries, "unlisted": missing})
    else:
        for name in missing:
            say(f"Warning: {plain(unlisted_text(name))}")
        _print(differences, ids=ids)
        if not stopped:
            say(f"{count_of(count, 'saga')} in flight in {where} can continue with this code.")
    if stopped:
        fail(f"this code would stop sagas in flight in {where}")


def unlisted(content: Content, definitions: Sequence[SagaDefinition]) -> list[str]:
    """Return the types that are deployed, and that are not among those which were checked."""
    deployed = {name for name, answer in content["types"].items() if answer.get("deployed")}
    return sorted(deployed - {definition.name for definition in definitions})


def unlisted_text(name: str) -> str:
    return f"{name} is deployed, and was not checked; unless you remove it, list it in [tool.sagas] of pyproject.toml"


def _entry(change: Change, *more: str) -> dict[str, Any]:
    return {name: getattr(change, name) for name in (*_OF_A_CHANGE, *more)} | {"incompatible": change.breaks}


def _print(differences: Sequence[Change], *, ids: bool = False) -> None:
    """Print the changes, and then each advice once."""
    for change in differences:
        say(plain(f"{'STOPS' if change.breaks else 'Fits, but'} {change}"))
        for saga_id in change.ids if ids and change.breaks else ():
            say(f"  {plain(saga_id)}")
    for advice in dict.fromkeys(change.todo for change in differences if change.todo):
        say(plain(f"{advice}."))


def _save(content: Content, path: Path) -> None:
    types = {
        name: answer
        | {"groups": [{key: group[key] for key in group if key != "examples"} for group in answer["groups"]]}
        for name, answer in content["types"].items()
    }
    _write(path, json.dumps(content | {"types": types}, sort_keys=True, separators=(",", ":")) + "\n")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"cannot write to {path}: {error.strerror}")


def add_to(app: typer.Typer) -> None:
    app.command()(check)
