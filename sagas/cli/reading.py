"""``sagas start | rerun | show | list | audit | attention | definitions``."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer

from sagas.cli.families import family_of, trail_of, tree_of
from sagas.cli.output import display, emit, fail, say
from sagas.cli.tables import audit_table, definition_table, list_table, verification_notes
from sagas.cli.target import Target, on_target
from sagas.cli.watching import report, watch
from sagas.client import Page, SagaView, VerificationView
from sagas.core.states import SagaStatus

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the saga type.", show_default=False)]
SagaId = Annotated[str, typer.Argument(metavar="ID", help="Id of the saga.", show_default=False)]
Watch = Annotated[bool, typer.Option("--watch", help="Show the steps until the saga is over or waits for a person.")]
Timeout = Annotated[float | None, typer.Option(min=0, help="Seconds to watch; without it, as long as it takes.")]
_OneName = Annotated[str | None, typer.Option("--name", help="Only sagas of this type.")]
_Limit = Annotated[int, typer.Option(min=1, max=100, help="How many to show.")]
_Cursor = Annotated[str | None, typer.Option(help="Go on where an earlier list ended.")]
_MOST_PAGES = 20
"""A filter may leave pages empty; so many are asked for before the list is shown as it is."""


@on_target
def start(
    target: Target,
    name: Name,
    file: Annotated[
        typer.FileText,
        typer.Option("--file", "-f", encoding="utf-8", help="The request, as JSON; - reads it from standard input."),
    ],
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
    try:
        request = json.loads(file.read())
    except (ValueError, RecursionError) as error:
        fail(f"{file.name} is not JSON: {error}")
    client = target.client()
    saga = client.start(name, request, key=key, correlation_id=correlation_id)
    if watching:
        if not target.as_json:
            say(f"Started {saga['name']} {saga['saga_id']}")
        watch(client, saga, timeout, as_json=target.as_json)
    else:
        _print_started(target, saga)


def _print_started(target: Target, saga: SagaView) -> None:
    if target.as_json:
        emit(saga)
    else:
        say(f"{saga['name']} {saga['saga_id']} {saga['status']}")
        say(f"`sagas show {saga['name']} {saga['saga_id']} --watch` follows it.")


@on_target
def rerun(
    target: Target,
    name: Name,
    saga_id: SagaId,
    key: Annotated[str | None, typer.Option(help="Idempotency key of the new saga.")] = None,
) -> None:
    """Run a saga again: start a new one with the request of this one."""
    _print_started(target, target.client().rerun(name, saga_id, key))


@on_target
def show(
    target: Target,
    name: Name,
    saga_id: SagaId,
    watching: Watch = False,
    timeout: Timeout = None,
    tree: Annotated[bool, typer.Option("--tree", help="Show also its children, and theirs.")] = False,
) -> None:
    """Show a saga: its steps, its errors, what comes next."""
    client = target.client()
    saga = client.show(name, saga_id)
    if tree:
        family = family_of(client, saga)
        if target.as_json:
            emit(family)
        else:
            display(tree_of(family))
    elif watching:
        watch(client, saga, timeout, as_json=target.as_json)
    else:
        report(saga, as_json=target.as_json)


@on_target
def result(
    target: Target,
    name: Name,
    saga_id: SagaId,
    wait: Annotated[float | None, typer.Option(min=0, help="Seconds to wait for the saga's end.")] = None,
) -> None:
    """Print a saga's result as JSON; fail with its status if it did not end COMPLETED."""
    client = target.client()
    saga = client.show(name, saga_id)
    if wait:
        with suppress(TimeoutError):
            saga = client.wait(name, saga_id, wait)
    if saga["status"] != "COMPLETED":
        fail(f"the saga is {saga['status']}: it has no result")
    emit(saga["result"])


@on_target
def list_sagas(
    target: Target,
    name: _OneName = None,
    status: Annotated[SagaStatus | None, typer.Option(help="Only sagas of this status.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only sagas that wait.")] = False,
    parent: Annotated[str | None, typer.Option("--parent", help="Only children of the saga with this id.")] = None,
    limit: _Limit = 20,
    cursor: _Cursor = None,
) -> None:
    """List sagas, newest first."""
    client = target.client()
    status = SagaStatus.WAITING if waiting else status
    if parent is not None and (name is not None or status is not None):
        fail("--parent goes with neither --name nor --status")
    page = _full(lambda most, at: client.list(name, status, parent=parent, limit=most, cursor=at), limit, cursor)
    _print_page(target, page, "There are no such sagas.")


@on_target
def attention(target: Target, name: _OneName = None, limit: _Limit = 20, cursor: _Cursor = None) -> None:
    """List the sagas that need a person, and why; the longest waiting first."""
    client = target.client()
    page = _full(lambda most, at: client.attention(name, limit=most, cursor=at), limit, cursor)
    _print_page(target, page, "No saga needs you.")


def _full(ask: Callable[[int, str | None], Page], limit: int, cursor: str | None) -> Page:
    """A page of ``limit`` sagas, if there are so many; a filter may leave the service's own pages short."""
    page = ask(limit, cursor)
    for _ in range(_MOST_PAGES):
        if len(page["sagas"]) >= limit or page["cursor"] is None:
            break
        further = ask(limit - len(page["sagas"]), page["cursor"])
        page = Page(sagas=page["sagas"] + further["sagas"], cursor=further["cursor"])
    return page


def _print_page(target: Target, page: Page, nothing: str) -> None:
    if target.as_json:
        emit(page)
        return
    if page["sagas"]:
        display(list_table(page["sagas"]))
    elif page["cursor"] is None:
        say(nothing)
    if page["cursor"] is not None:
        say(f"There may be more: --cursor {page['cursor']}")


@on_target
def audit(
    target: Target,
    name: Name,
    saga_id: SagaId,
    verify: Annotated[
        bool, typer.Option("--verify", help="Tell whether it is what was written; exit with 1 if it is not.")
    ] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Of its children too, in one time line.")] = False,
) -> None:
    """Show the audit trail of a saga: every change, by whom, oldest first."""
    if tree:
        client = target.client()
        told = list(trail_of(client, family_of(client, client.show(name, saga_id))))
        if target.as_json:
            emit({"entries": told})
        else:
            display(audit_table(told, whose=True))
        return
    if verify:
        _print_verification(target, target.client().verify(name, saga_id))
        return
    entries = list(target.client().audit(name, saga_id))
    if target.as_json:
        emit({"entries": entries})
    else:
        display(audit_table(entries))


def _print_verification(target: Target, found: VerificationView) -> None:
    if target.as_json:
        emit(found)
    elif found["broken"] is None:
        say(f"{found['entries']} entries: all are what was written.")
        for line in verification_notes(found):
            say(line)
    if found["broken"] is not None:
        fail(f"the audit trail is broken: {found['broken']['message']}")


@on_target
def definitions(target: Target) -> None:
    """List the saga types that are deployed, and whether they may be started."""
    found = target.client().definitions()
    if target.as_json:
        emit({"definitions": found})
    else:
        display(definition_table(found))


def add_to(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    for name, command in (
        ("start", start),
        ("rerun", rerun),
        ("show", show),
        ("result", result),
        ("list", list_sagas),
        ("audit", audit),
        ("attention", attention),
        ("definitions", definitions),
    ):
        app.command(name)(command)
