"""``sagas start | show | list | audit | attention | definitions``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated

import typer

from sagas.cli.output import display, emit, fail, say
from sagas.cli.tables import audit_table, definition_table, list_table, verification_notes
from sagas.cli.target import Target, on_target
from sagas.cli.watching import report, watch
from sagas.client import Page, SagaView, VerificationView
from sagas.core.states import SagaStatus
from sagas.core.times import iso
from sagas.engine.clock import SystemClock

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the saga type.", show_default=False)]
SagaId = Annotated[str, typer.Argument(metavar="ID", help="Id of the saga.", show_default=False)]
Watch = Annotated[bool, typer.Option("--watch", help="Show the steps until the saga is over or waits for a person.")]
Timeout = Annotated[float | None, typer.Option(min=0, help="Seconds to watch; without it, as long as it takes.")]
_OneName = Annotated[str | None, typer.Option("--name", help="Only sagas of this type.")]
_Limit = Annotated[int, typer.Option(min=1, max=100, help="How many to show.")]
_Cursor = Annotated[str | None, typer.Option(help="Go on where an earlier list ended.")]
Since = Annotated[
    str | None,
    typer.Option(
        help="Only sagas started since, or ended since where --status is an end: ISO 8601, or 30m, 2h, 3d ago."
    ),
]
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
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
        print_started(target, saga)


def print_started(target: Target, saga: SagaView) -> None:
    if target.as_json:
        emit(saga)
    else:
        say(f"{saga['name']} {saga['saga_id']} {saga['status']}")
        say(f"`sagas show {saga['name']} {saga['saga_id']} --watch` follows it.")


@on_target
def show(
    target: Target,
    name: Annotated[
        str, typer.Argument(metavar="NAME|ID", help="Name of the saga type, or a saga's id alone.", show_default=False)
    ],
    saga_id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="Id of the saga.", show_default=False),
    ] = None,
    watching: Watch = False,
    timeout: Timeout = None,
) -> None:
    """Show a saga: its steps, its errors, what comes next. By its id alone, or how that begins, if that is enough."""
    client = target.client()
    saga = client.look_up(name) if saga_id is None else client.show(name, saga_id)
    if watching:
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
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME] [FIELD=VALUE]...", help="The saga type, and values its sagas are found by."),
    ] = None,
    name: _OneName = None,
    status: Annotated[SagaStatus | None, typer.Option(help="Only sagas of this status.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only sagas that wait.")] = False,
    since: Since = None,
    until: Annotated[str | None, typer.Option(help="Only sagas started, or ended, before; as --since.")] = None,
    key: Annotated[str | None, typer.Option("--idempotency-key", help="Only what this key started.")] = None,
    limit: _Limit = 20,
    cursor: _Cursor = None,
) -> None:
    """List sagas, newest first: all, of a type, of a time, or with a value in their requests."""
    client = target.client()
    name, find = filters(what or (), name)
    status = SagaStatus.WAITING if waiting else status
    if key is not None:
        page = client.list(name, status, idempotency_key=key, find=find)
    else:
        span = {"since": moment_of(since, "--since"), "until": moment_of(until, "--until")}
        page = _full(
            lambda most, at: client.list(name, status, limit=most, cursor=at, find=find, **span), limit, cursor
        )
    _print_page(target, page, "There are no such sagas.")


def filters(words: Sequence[str], name: str | None) -> tuple[str | None, dict[str, str]]:
    """Return the saga type and the values that are asked for.

    Args:
        words: of the command line: at most one name, and any number of ``field=value``.
        name: of the type, if it was given as an option.

    Raises:
        BadParameter: there are two names, or one field twice.
    """
    find = dict[str, str]()
    for word in words:
        field, is_value, value = word.partition("=")
        if is_value and field not in find:
            find[field] = value
        elif is_value:
            raise typer.BadParameter(f"{field} is given twice", param_hint="FIELD=VALUE")
        elif name is None:
            name = word
        else:
            raise typer.BadParameter(f"one saga type at a time, not {name} and {word}", param_hint="NAME")
    return name, find


def moment_of(text: str | None, option: str) -> str | None:
    """Return a time as the API takes it: as it is, or so long ago (``90s``, ``30m``, ``2h``, ``3d``).

    Raises:
        BadParameter: it is neither.
    """
    ago = re.fullmatch(r"(\d{1,6})([smhd])", text or "")
    if ago is not None:
        return iso(SystemClock().now() - int(ago[1]) * _UNITS[ago[2]])
    try:
        return text and datetime.fromisoformat(text).isoformat()
    except ValueError:
        raise typer.BadParameter("a time like 2026-11-22T10:00Z, or 2h ago", param_hint=option) from None


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
) -> None:
    """Show the audit trail of a saga: every change, by whom, oldest first."""
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
        ("show", show),
        ("result", result),
        ("list", list_sagas),
        ("audit", audit),
        ("attention", attention),
        ("definitions", definitions),
    ):
        app.command(name)(command)
