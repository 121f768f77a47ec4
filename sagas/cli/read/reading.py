"""``sagas start | show | result | list | audit | attention | types``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sagas.cli.completion import remember
from sagas.cli.listing import Wide
from sagas.cli.one_saga import OneType, SagaRef, Type, find_values, full_page, on_saga, which
from sagas.cli.output import display, emit, fail, say
from sagas.cli.read.families import family_with, trail_of, tree_of
from sagas.cli.read.watching import Watch, report, watch
from sagas.cli.tables import (
    payloads,
    show_audit,
    show_incidents,
    show_list,
    show_stopped,
    stack_traces,
    type_table,
    verification_notes,
)
from sagas.cli.target import Target, on_target
from sagas.cli.times import Since, Timeout, Until, length
from sagas.client.endpoints import COMMANDS
from sagas.core.states import SagaStatus
from sagas.core.text import moment, parse_json
from sagas.errors import SagaError

if TYPE_CHECKING:
    from sagas.client import IncidentList, Page, SagaClient, SagaView

_Limit = Annotated[int, typer.Option(min=1, max=100, help="Maximum number of sagas to list")]
_Cursor = Annotated[str | None, typer.Option(help="Continue where an earlier list ended")]


def json_input(file: typer.FileText | None, data: str | None) -> object:
    if (file is None) == (data is None):
        raise typer.BadParameter("expected one of the two", param_hint="--file/--data")
    try:
        text = file.read() if file is not None else data or ""
        return parse_json(text.removeprefix("\ufeff"))  # some editors write a byte order mark
    except ValueError as error:
        fail(f"{file.name if file is not None else '--data'} is not JSON: {error}")


File = Annotated[
    typer.FileText | None, typer.Option("--file", "-f", encoding="utf-8", help="JSON file; - reads standard input")
]
Data = Annotated[str | None, typer.Option("--data", "-d", help="JSON text")]


@on_target
def start(
    target: Target,
    name: Type,
    file: File = None,
    data: Data = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: the same key and request start one saga only")
    ] = None,
    correlation_id: Annotated[
        str | None, typer.Option("--correlation-id", help="Your own id; kept in audit trail and logs")
    ] = None,
    watching: Watch = False,
    timeout: Timeout = None,
) -> None:
    """Start a saga."""
    request = json_input(file, data)
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
        say(f"Follow it with `sagas show {saga['saga_id']} --watch`.")


@on_saga()
def show(
    target: Target,
    saga: SagaRef,
    watching: Watch = False,
    timeout: Timeout = None,
    tree: Annotated[bool, typer.Option("--tree", help="Include its children and their children")] = False,
) -> None:
    """Show a saga: its steps, request, results and errors, and what happens next."""
    client = target.client()
    view = saga.show(client)
    if tree:
        family = family_with(client, view)
        emit(family) if target.as_json else display(tree_of(family))
        return
    if watching:
        watch(target, client, view, timeout)
        return
    report(target, view)
    if not target.as_json:
        display(payloads(view))
        if view["error"] or any(step["error"] for step in view["steps"]):
            for trace in stack_traces(client.audit(saga.type, saga.saga_id))[-1:]:
                display(trace)


@on_saga()
def result(
    target: Target,
    saga: SagaRef,
    wait: Annotated[float | None, length(help="Wait this long for the saga to end")] = None,
) -> None:
    """Print a saga's result as JSON; fail if it did not end COMPLETED or was purged."""
    client = target.client()
    try:
        view = client.wait(saga.type, saga.saga_id, wait) if wait is not None else saga.show(client)
    except TimeoutError:
        view = client.show(saga.type, saga.saga_id)  # its latest status
    if view["status"] != "COMPLETED":
        fail(f"the saga is {view['status']}; only COMPLETED sagas have a result")
    if "purged_at" in view:
        fail(f"the saga was purged at {moment(view['purged_at'])}, with its result")
    emit(view["result"])


@on_target
def list_sagas(
    target: Target,
    name: OneType = None,
    status: Annotated[SagaStatus | None, typer.Option(case_sensitive=False, help="Only sagas with this status")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only sagas that wait")] = False,
    find: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only sagas with this search key; repeatable")
    ] = None,
    since: Since = None,
    until: Until = None,
    key: Annotated[str | None, typer.Option("--idempotency-key", help="Only sagas that this key started")] = None,
    parent: Annotated[str | None, typer.Option("--parent", help="Only children of the saga with this id")] = None,
    limit: _Limit = 20,
    cursor: _Cursor = None,
    wide: Wide = False,
) -> None:
    """List sagas, newest first."""
    client = target.client()
    values = find_values(find)
    now = target.now()
    status = SagaStatus.WAITING if waiting else status
    if parent is not None:
        if any((name, status, since, until, key, find)):
            fail("--parent cannot be combined with other filters")
        parent = which(client, [parent], typeless=True).saga_id
        page = full_page(lambda most, at: client.list(parent=parent, limit=most, cursor=at), limit, cursor)
    elif key is not None:
        if any((status, since, until, cursor, find)):
            fail("--idempotency-key can be combined with TYPE only")
        page = client.list(name, idempotency_key=key)
    else:
        span = {"since": since and since.at(now), "until": until and until.at(now)}
        page = full_page(
            lambda most, at: client.list(name, status, limit=most, cursor=at, find=values, **span), limit, cursor
        )
    _print_page(target, page, "No sagas.", wide=wide)


@on_target
def attention(
    target: Target,
    name: OneType = None,
    limit: _Limit = 20,
    cursor: _Cursor = None,
    sagas: Annotated[bool, typer.Option("--sagas", help="The sagas one by one, by type, step, error and time")] = False,
    step: Annotated[str | None, typer.Option(help="Only sagas with trouble at this step of TYPE")] = None,
    code: Annotated[str | None, typer.Option(help="Only sagas with this reason at the step, such as exhausted")] = None,
    error: Annotated[str | None, typer.Option(help="Only sagas with this reason and this type of error")] = None,
    wide: Wide = False,
) -> None:
    """Show what needs an operator, why, and what to do: one line for each type, step and error, and what is stopped."""
    client = target.client()
    kind = {"step": step, "code": code, "error": error}
    if sagas:
        page = full_page(lambda most, at: client.attention(name, **kind, limit=most, cursor=at), limit, cursor)
        _print_page(target, page, "Nothing needs attention.", wide=wide)
        return
    answer = client.incidents(name, **kind)
    if name is not None:
        emit(answer) if target.as_json else _print_incidents(target, answer, wide=wide)
        return
    overview = client.overview()
    rejected = _rejected(client)
    if target.as_json:
        emit(answer | {"rejected_commands": rejected, "overview": overview})
        return
    stopped = any((overview["overdue"]["count"], overview["breakers"], overview["pauses"], overview["messages"]))
    if answer["incidents"] or not (stopped or rejected):
        _print_incidents(target, answer, wide=wide)
    if stopped:
        show_stopped(overview, target.now(), wide=wide)
    if rejected:
        say(f"Rejected commands and events: {rejected}. `sagas dlq list commands` has the reasons.")


def _print_incidents(target: Target, answer: IncidentList, *, wide: bool) -> None:
    if answer["incidents"]:
        show_incidents(answer["incidents"], target.now(), wide=wide)
    else:
        say("Nothing needs attention.")
    if answer["at_least"]:
        say("There are more incidents than these.")


def _rejected(client: SagaClient) -> int:
    """Return about how many commands and events were rejected; 0 if the service takes none, or they cannot be seen."""
    try:
        return client.count_letters(COMMANDS)
    except SagaError:
        return 0


def _print_page(target: Target, page: Page, nothing: str, *, wide: bool) -> None:
    remember(target, sagas=page["sagas"])
    if target.as_json:
        emit(page)
        return
    if page["sagas"]:
        show_list(page["sagas"], target.now(), wide=wide)
    elif page["cursor"] is None:
        say(nothing)
    if page["cursor"] is not None:
        say(f"Continue with --cursor {page['cursor']}")


@on_saga()
def audit(
    target: Target,
    saga: SagaRef,
    traces: Annotated[bool, typer.Option("--trace", help="Include stack traces, with trace ids")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the entries' hashes; exit with 1 if one does not match")
    ] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Include its children, in order of time")] = False,
    wide: Wide = False,
) -> None:
    """Show the audit trail of a saga: each change and its actor, oldest first."""
    client = target.client()
    name = saga.type
    saga_id = saga.saga_id
    if tree:
        entries = list(trail_of(client, family_with(client, saga.show(client))))
        emit({"entries": entries}) if target.as_json else show_audit(entries, wide=wide, family=True)
        return
    if verify:
        verification = client.verify(name, saga_id)
        if target.as_json:
            emit(verification)
        elif verification["broken"] is None:
            say(f"{verification['entries']} entries match their hashes.")
            for line in verification_notes(verification):
                say(line)
        if verification["broken"] is not None:
            fail(f"the audit trail is broken: {verification['broken']['message']}")
        return
    entries = list(client.audit(name, saga_id))
    if target.as_json:
        emit({"entries": entries})
        return
    show_audit(entries, wide=wide)
    for trace in stack_traces(entries) if traces else ():
        display(trace)


@on_target
def types(target: Target, wide: Wide = False) -> None:
    """List the deployed saga types, and whether they accept starts."""
    views = target.client().types()
    remember(target, types=views)
    if target.as_json:
        emit({"types": views})
    else:
        display(type_table(views, wide=wide))


def add_to(app: typer.Typer) -> None:
    named = {"start": start, "show": show, "result": result, "list": list_sagas, "audit": audit}
    for name, command in (named | {"attention": attention, "types": types}).items():
        app.command(name)(command)
