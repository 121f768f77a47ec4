"""``sagas start | show | list | audit | attention | types``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from sagas.cli.output import display, emit, fail, say, screen
from sagas.cli.read.families import trail_of, tree_of
from sagas.cli.read.watching import report, watch
from sagas.cli.tables import (
    audit_table,
    family_trail,
    incident_table,
    list_table,
    payloads,
    stack_traces,
    type_table,
    verification_notes,
)
from sagas.cli.target import Target, on_target
from sagas.core.states import SagaStatus
from sagas.core.text import moment, so_long_ago

if TYPE_CHECKING:
    from sagas.client import Page, SagaClient, SagaView

Name = Annotated[str, typer.Argument(metavar="TYPE", help="The saga type.", show_default=False)]
SagaId = Annotated[str, typer.Argument(metavar="ID", help="Id of the saga.", show_default=False)]
Watch = Annotated[bool, typer.Option("--watch", help="Show the steps until the saga is over or waits for a person.")]
Timeout = Annotated[float | None, typer.Option(min=0, help="Seconds to watch; without it, as long as it takes.")]
_OneName = Annotated[str | None, typer.Argument(metavar="[TYPE]", help="Only sagas of this type.")]
_Limit = Annotated[int, typer.Option(min=1, max=100, help="How many to show.")]
_Cursor = Annotated[str | None, typer.Option(help="Go on where an earlier list ended.")]
MaybeName = Annotated[str | None, typer.Argument(metavar="[TYPE]", help="The saga type; not needed with an id.")]
MaybeId = Annotated[str | None, typer.Argument(metavar="ID", help="Id of the saga, or how it begins.")]
Last = Annotated[bool, typer.Option("--last", help="The newest saga, of the type if one is named.")]
_WHOLE_ID = 36
Since = Annotated[
    str | None,
    typer.Option(
        help="Only sagas started since, or ended since where --status is an end: ISO 8601, or 30m, 2h, 3d ago."
    ),
]
_MOST_PAGES = 20
"""A filter may leave pages empty; so many are asked for before the list is shown as it is."""


def which(client: SagaClient, name: str | None, saga_id: str | None, *, last: bool) -> tuple[str, str]:
    """Return the type and the id of the saga that is meant: named by both, by its id or how that begins, or the
    newest."""
    if last:
        if saga_id is not None:
            raise typer.BadParameter("goes without an id", param_hint="--last")
        newest = _full(lambda most, at: client.list(name, limit=most, cursor=at), 1, None)["sagas"]
        if not newest:
            fail("there is no saga yet" if name is None else f"there is no {name} saga yet")
        return newest[0]["type"], newest[0]["saga_id"]
    if name is None:
        raise typer.BadParameter("give the id of a saga, or --last", param_hint="ID")
    if saga_id is not None and len(saga_id) >= _WHOLE_ID:
        return name, saga_id
    found = client.look_up(name if saga_id is None else saga_id)
    if saga_id is not None and found["type"] != name:
        fail(f"the saga whose id begins with {saga_id!r} is a {found['type']}")
    return found["type"], found["saga_id"]


@on_target
def start(
    target: Target,
    name: Name,
    file: Annotated[
        typer.FileText | None,
        typer.Option("--file", "-f", encoding="utf-8", help="The request, as JSON; - reads it from standard input."),
    ] = None,
    data: Annotated[str | None, typer.Option("--data", "-d", help="The request, as JSON.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: the same key and request start one saga only.")
    ] = None,
    correlation_id: Annotated[
        str | None, typer.Option("--correlation-id", help="Your own; kept in audit trail and logs.")
    ] = None,
    watching: Watch = False,
    timeout: Timeout = None,
) -> None:
    """Start a saga."""
    if (file is None) == (data is None):
        raise typer.BadParameter("give one of the two", param_hint="--file/--data")
    try:
        request = json.loads(file.read() if file is not None else data or "")
    except (ValueError, RecursionError) as error:
        fail(f"{file.name if file is not None else 'the request'} is not JSON: {error}")
    client = target.client()
    saga = client.start(name, request, key=key, correlation_id=correlation_id)
    if watching:
        if not target.as_json:
            say(f"Started {saga['type']} {saga['saga_id']}")
        watch(target, client, saga, timeout)
    else:
        print_started(target, saga)


def print_started(target: Target, saga: SagaView) -> None:
    if target.as_json:
        emit(saga)
    else:
        say(f"{saga['type']} {saga['saga_id']} {saga['status']}")
        say(f"`sagas show {saga['type']} {saga['saga_id']} --watch` follows it.")


@on_target
def show(
    target: Target,
    name: MaybeName = None,
    saga_id: MaybeId = None,
    last: Last = False,
    watching: Watch = False,
    timeout: Timeout = None,
    tree: Annotated[bool, typer.Option("--tree", help="Show also its children, and theirs.")] = False,
) -> None:
    """Show a saga: its steps, request and results, its errors, what comes next."""
    client = target.client()
    if saga_id is None and name is not None and not last:
        saga = client.look_up(name)
    else:
        saga = client.show(*which(client, name, saga_id, last=last))
    if tree:
        from sagas.client.read.families import childless_in, family_of

        family = family_of(client.list, saga, childless=childless_in(client.types()))
        if target.as_json:
            emit(family)
        else:
            display(tree_of(family))
        return
    if watching:
        watch(target, client, saga, timeout)
        return
    report(target, saga)
    if not target.as_json:
        display(payloads(saga))
        if saga["error"] or any(step["error"] for step in saga["steps"]):
            for trace in stack_traces(client.audit(saga["type"], saga["saga_id"]))[-1:]:
                display(trace)


@on_target
def result(
    target: Target,
    name: Name,
    saga_id: SagaId,
    wait: Annotated[float | None, typer.Option(min=0, help="Seconds to wait for the saga's end.")] = None,
) -> None:
    """Print a saga's result as JSON; fail with its status if it did not end COMPLETED, or was purged."""
    client = target.client()
    try:
        saga = client.wait(name, saga_id, wait) if wait else client.show(name, saga_id)
    except TimeoutError:
        saga = client.show(name, saga_id)  # what became of it meanwhile
    if saga["status"] != "COMPLETED":
        fail(f"the saga is {saga['status']}: it has no result")
    if "purged_at" in saga:
        fail(f"the saga was purged at {moment(saga['purged_at'])}: its result is gone")
    emit(saga["result"])


@on_target
def list_sagas(
    target: Target,
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TYPE] [FIELD=VALUE]...", help="The saga type, and values its sagas are found by."),
    ] = None,
    status: Annotated[SagaStatus | None, typer.Option(case_sensitive=False, help="Only sagas of this status.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only sagas that wait.")] = False,
    since: Since = None,
    until: Annotated[str | None, typer.Option(help="Only sagas started, or ended, before; as --since.")] = None,
    key: Annotated[str | None, typer.Option("--idempotency-key", help="Only what this key started.")] = None,
    parent: Annotated[str | None, typer.Option("--parent", help="Only children of the saga with this id.")] = None,
    limit: _Limit = 20,
    cursor: _Cursor = None,
) -> None:
    """List sagas, newest first: all, of a type, of a time, or with a value in their requests."""
    client = target.client()
    name, find = filters(what or ())
    status = SagaStatus.WAITING if waiting else status
    if parent is not None:
        if any((name, status, since, until, key, find)):
            fail("--parent goes with no other filter")
        page = _full(lambda most, at: client.list(parent=parent, limit=most, cursor=at), limit, cursor)
    elif key is not None:
        if any((status, since, until, cursor, find)):
            fail("--idempotency-key goes with TYPE alone")
        page = client.list(name, idempotency_key=key)
    else:
        span = {"since": moment_of(since, "--since", target.now()), "until": moment_of(until, "--until", target.now())}
        page = _full(
            lambda most, at: client.list(name, status, limit=most, cursor=at, find=find, **span), limit, cursor
        )
    _print_page(target, page, "There are no such sagas.")


def filters(words: Sequence[str]) -> tuple[str | None, dict[str, str]]:
    """Return the saga type and the values that are asked for."""
    name, find = None, dict[str, str]()
    for word in words:
        field, is_value, value = word.partition("=")
        if is_value and field not in find:
            find[field] = value
        elif is_value:
            raise typer.BadParameter(f"{field} is given twice", param_hint="FIELD=VALUE")
        elif name is None:
            name = word
        else:
            raise typer.BadParameter(f"one saga type at a time, not {name} and {word}", param_hint="TYPE")
    return name, find


def moment_of(text: str | None, option: str, now: float) -> str | None:
    """Return a time as the API takes it: as it is, or so long ago (``90s``, ``30m``, ``2h``, ``3d``). ``now``: epoch
    seconds."""
    ago = so_long_ago(text or "", now)
    if ago is not None:
        return ago
    try:
        return text and datetime.fromisoformat(text).isoformat()
    except ValueError:
        raise typer.BadParameter("a time like 2026-11-22T10:00Z, or 2h ago", param_hint=option) from None


@on_target
def attention(
    target: Target,
    name: _OneName = None,
    limit: _Limit = 20,
    cursor: _Cursor = None,
    incidents: Annotated[bool, typer.Option("--incidents", help="How many of each type, step and error type.")] = False,
) -> None:
    """List the sagas that need a person, and why; the longest waiting first."""
    client = target.client()
    if incidents:
        found = client.incidents(name)
        if target.as_json:
            emit(found)
        elif found["incidents"]:
            display(incident_table(found["incidents"], target.now()))
        else:
            say("No saga needs you.")
        if found["at_least"] and not target.as_json:
            say("There are more sagas than were counted.")
        return
    page = _full(lambda most, at: client.attention(name, limit=most, cursor=at), limit, cursor)
    _print_page(target, page, "No saga needs you.")


def _full(ask: Callable[[int, str | None], Page], limit: int, cursor: str | None) -> Page:
    """A page of ``limit`` sagas, if there are so many; a filter may leave the service's own pages short."""
    page = ask(limit, cursor)
    for _ in range(_MOST_PAGES):
        if len(page["sagas"]) >= limit or page["cursor"] is None:
            break
        further = ask(limit - len(page["sagas"]), page["cursor"])
        page["sagas"] += further["sagas"]
        page["cursor"] = further["cursor"]
    return page


def _print_page(target: Target, page: Page, nothing: str) -> None:
    if target.as_json:
        emit(page)
        return
    if page["sagas"]:
        display(list_table(page["sagas"], target.now(), screen().width))
    elif page["cursor"] is None:
        say(nothing)
    if page["cursor"] is not None:
        say(f"There may be more: --cursor {page['cursor']}")


@on_target
def audit(
    target: Target,
    name: MaybeName = None,
    saga_id: MaybeId = None,
    last: Last = False,
    traces: Annotated[bool, typer.Option("--trace", help="With the stack traces and their trace ids.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Tell whether it is what was written; exit with 1 if it is not.")
    ] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Of its children too, in one time line.")] = False,
) -> None:
    """Show the audit trail of a saga: every change, by whom, oldest first."""
    client = target.client()
    name, saga_id = which(client, name, saga_id, last=last)
    if tree:
        from sagas.client.read.families import childless_in, family_of

        childless = childless_in(client.types())
        told = list(trail_of(client, family_of(client.list, client.show(name, saga_id), childless=childless)))
        if target.as_json:
            emit({"entries": told})
        else:
            display(family_trail(told))
        return
    if verify:
        found = client.verify(name, saga_id)
        if target.as_json:
            emit(found)
        elif found["broken"] is None:
            say(f"{found['entries']} entries: all are what was written.")
            for line in verification_notes(found):
                say(line)
        if found["broken"] is not None:
            fail(f"the audit trail is broken: {found['broken']['message']}")
        return
    entries = list(client.audit(name, saga_id))
    if target.as_json:
        emit({"entries": entries})
        return
    display(audit_table(entries, screen().width))
    for trace in stack_traces(entries) if traces else ():
        display(trace)


@on_target
def types(target: Target) -> None:
    """List the saga types that are deployed, and whether they may be started."""
    found = target.client().types()
    if target.as_json:
        emit({"types": found})
    else:
        display(type_table(found))


def add_to(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    for name, command in (
        ("start", start),
        ("show", show),
        ("result", result),
        ("list", list_sagas),
        ("audit", audit),
        ("attention", attention),
        ("types", types),
    ):
        app.command(name)(command)
