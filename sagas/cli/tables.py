"""Prints sagas, lists, audit trails and dead letters as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sagas.cli.listing import listing, short_ids, whole
from sagas.cli.output import count_of, display, plain, plain_line, pretty, say
from sagas.core.states import ENDED, SagaStatus
from sagas.core.text import ago, between, clock_time, details_text, end_of, moment, span

if TYPE_CHECKING:
    from sagas.client.operate.dead_letters import DeadLetter
    from sagas.engine.read.answers import (
        AuditEntry,
        IncidentView,
        PauseView,
        SagaView,
        Summary,
        VerificationView,
    )
    from sagas.engine.read.overviews import (
        BreakerView,
        OverdueSagaView,
        OverviewView,
        QueueStats,
        TypeStats,
        TypeView,
    )
    from sagas.engine.read.reports import DueSagaView

_STYLES = {
    "COMPLETED": "green",
    "COMPENSATED": "yellow",
    "CANCELLED": "yellow",
    "DEAD_LETTERED": "red",
    "FAILED": "red",
    "COMPENSATION_FAILED": "bold red",
    "PENDING": "dim",
    "SKIPPED": "dim",
    "RETRYING": "yellow",
    "COMPENSATING": "yellow",
    "RUNNING": "cyan",
    "WAITING": "cyan",
}
_ORDER = tuple(SagaStatus)
_LONGEST_JSON = 20
"""At most this many lines of a request or result are printed."""


def coloured(status: str) -> Text:
    return Text(status, style=_STYLES.get(status, ""))


def saga_page(saga: SagaView, now: float) -> RenderableType:
    """Return a page about a saga: its steps, its errors, and what to do next. ``now``: epoch seconds."""
    from sagas.client.read.advice import advice, failed_children, why

    label = f"{plain(saga['label'])} " if saga["label"] else ""
    title = Text.assemble((saga["type"], "bold"), f" {label}{saga['saga_id']} ", coloured(saga["status"]))
    lasted = f"took {between(saga['created_at'], end_of(saga))}"
    since = lasted if saga["status"] in ENDED else ago(saga["created_at"], now)
    when = f"started {moment(saga['created_at'])} as version {plain(saga['version'])}, {since}"
    when += f", last changed {ago(saga['updated_at'], now)}, seq {saga['seq']}"
    if saga.get("paused"):
        title.append(" paused", "red")
    if saga["key"]:
        when += f", key {plain(saga['key'])}"
    if saga["cancel_requested_at"]:
        when += f", cancel requested at {moment(saga['cancel_requested_at'])}"
    columns = {"step": 0, "status": 0, "attempts": 2, "undo attempts": 3, "took": 1, "why": 0}
    steps = list[Any]()
    for step in saga["steps"]:
        took = "" if step["took"] is None else span(step["took"])
        counts = _count(step["attempts"]), _count(step["undo_attempts"])
        steps.append([step["name"], coloured(step["status"]), *counts, took, why(step)])
    parts: list[RenderableType] = [title, Text(when, style="dim"), listing(columns, steps)]
    progress = saga["progress"]
    if progress:
        bar = Table.grid(padding=(0, 1))
        share = ProgressBar(total=1.0, completed=progress["fraction"], width=30)
        bar.add_row(progress["step"], share, f"{progress['fraction']:.0%}", Text(plain(progress["message"])))
        parts.append(bar)
    return Group(*parts, *(Text(line) for line in [*failed_children(saga), *advice(saga, now)]))


def payloads(saga: SagaView) -> RenderableType:
    """Return the request and the results of a saga. Long values are cut."""
    values = [("request", saga["request"])]
    values += [(f"result of {step['name']}", step["result"]) for step in saga["steps"]]
    parts = list[Text]()
    for name, value in values:
        if value is None:
            continue
        lines = [plain_line(line) for line in pretty([value] if isinstance(value, str) else value).splitlines()]
        if isinstance(value, str):
            lines = [line.strip() for line in lines[1:-1]]
        if len(lines) > _LONGEST_JSON:
            more = f"... {count_of(len(lines) - _LONGEST_JSON, 'more line')}: --json prints all"
            lines = [*lines[:_LONGEST_JSON], more]
        if len(lines) == 1:
            parts.append(Text.assemble((f"{name} ", "dim"), lines[0]))
        else:
            parts += [Text(name, style="dim"), *(Text(f"  {line}") for line in lines)]
    return Group(*parts)


def stack_traces(entries: Iterable[AuditEntry]) -> list[RenderableType]:
    """Return the stack traces of an audit trail in order, each with its attempt and trace id."""
    traces = list[RenderableType]()
    for entry in entries:
        if not entry["details"].get("stack_trace"):
            continue
        trace_id = entry["trace_id"] or entry["details"].get("trace_id")
        of = "the undo of " if entry["action"].startswith("Compensation") else ""
        head = f"stack trace of {of}{entry['step']}, attempt {entry['attempt']}"
        head += f", trace id {trace_id}" if trace_id else ""
        lines = [Text(f"  {plain_line(line)}") for line in str(entry["details"]["stack_trace"]).splitlines()]
        traces.append(Group(Text(plain(head), style="dim"), *lines))
    return traces


def show_list(sagas: Sequence[Summary], now: float, *, wide: bool = False) -> None:
    """Print summaries, with columns of the labels and the idempotency keys if there are any. If a saga needs an
    operator, a column has the reasons. ``now`` is in epoch seconds."""
    from sagas.client.read.next_action import error_of, reason_of

    full = whole(wide)
    ids = short_ids((saga["saga_id"] for saga in sagas), wide=full)
    errors = [error_of(saga) for saga in sagas]
    needy = any(saga["attention"] for saga in sagas)
    faulty = any(kind for _, kind, _ in errors)
    names = [name for name in ("label", "key") if any(saga[name] for saga in sagas)]
    rows = list[list[str | Text]]()
    # A narrow terminal has room for one of them.
    columns = {name: 0 if name == names[0] else 2 for name in names}
    columns |= {"id": 0, "type": 0, "status": 0, "started": 4, "changed": 1}
    columns |= ({"error": 3} if faulty else {}) | ({"reason": 0} if needy else {})
    for saga, (step, kind, _) in zip(sagas, errors, strict=True):
        times = (moment(at) if full else ago(at, now) for at in (saga["created_at"], saga["updated_at"]))
        about: list[str | Text] = [saga[name] or "" for name in names]
        row = [*about, ids[saga["saga_id"]], saga["type"], _status(saga), *times]
        row += [f"{step}: {kind}" if kind else ""] if faulty else []
        rows.append([*row, *([reason_of(saga)] if needy else [])])
    display(listing(columns, rows, wide=wide))


def _status(saga: Summary) -> Text:
    status = coloured(saga["status"])
    return Text.assemble(status, (" paused", "red")) if saga.get("paused") else status


def show_due(due: Sequence[DueSagaView], now: float) -> None:
    ids = short_ids((saga["saga_id"] for saga in due), wide=whole(False))
    rows = list[list[str | Text]]()
    for saga in due:
        overdue = ago(saga["due_since"], now)
        rows.append([ids[saga["saga_id"]], saga["type"], coloured(saga["status"]), str(saga["attempts"]), overdue])
    display(listing({"id": 0, "type": 0, "status": 0, "stalls": 1, "due": 0}, rows))


def show_audit(entries: Sequence[AuditEntry], *, wide: bool = False, family: bool = False) -> None:
    """Print the audit trail of a saga, or of a family. :func:`stack_traces` and JSON have the stack traces."""
    ids = short_ids((entry["saga_id"] for entry in entries), wide=whole(wide))
    columns = {"id": 0, "type": 1} if family else {"#": 0}
    columns |= {"time (UTC)": 0, "action": 0, "step": 0, "attempt": 2, "status": 4, "by": 3, "details": 0}
    rows = list[list[str | Text]]()
    for entry in entries:
        head = [ids[entry["saga_id"]], entry["type"]] if family else [str(entry["seq"])]
        time = f"{entry['at'][:10]} {clock_time(entry['at'])}"
        row = [*head, time, entry["action"], entry["step"] or "", _count(entry["attempt"] or 0)]
        rows.append([*row, coloured(entry["status"]), entry["actor"], details_text(entry["details"])])
    display(listing(columns, rows, wide=wide))


def show_dead_letters(letters: Sequence[DeadLetter], *, wide: bool = False) -> None:
    ids = short_ids((letter.saga_id for letter in letters), wide=whole(wide))
    messages = short_ids((letter.message_id for letter in letters), wide=whole(wide))
    columns = {"message": 0, "id": 0, "type": 4, "step": 0, "sent": 2, "received": 3}
    if unreadable := any(letter.reason for letter in letters):
        columns["unreadable because"] = 0
    rows = list[list[str]]()
    for letter in letters:
        names = ids[letter.saga_id] or "?", letter.saga or "?", letter.step or "?"
        row = [messages[letter.message_id], *names, moment(letter.sent_at), count_of(letter.receives, "time")]
        rows.append([*row, letter.reason] if unreadable else row)
    display(listing(columns, rows, wide=wide))


def type_table(types: Iterable[TypeView], *, wide: bool) -> Table:
    rows = list[list[str | Text]]()
    for saga in types:
        starts = Text("accepted", style="green") if saga["active"] else Text("refused", style="red")
        if saga["paused"]:
            starts = Text("paused", style="red") if not saga["active"] else Text("accepted, paused", style="yellow")
        steps = " -> ".join(f"{step['name']} (pivot)" if step.get("pivot") else step["name"] for step in saga["steps"])
        notes = [] if saga["cancellable"] else ["callers cannot cancel it"]
        notes += map(paused_text, saga["pauses"])
        notes += [f"{saga['failures']} failed in a row"] if saga["failures"] and saga["active"] else []
        rows.append([saga["type"], saga["version"], starts, steps, "; ".join(notes)])
    return listing({"type": 0, "version": 2, "starts": 0, "steps": 1, "notes": 0}, rows, wide=wide)


def show_incidents(incidents: Iterable[IncidentView], now: float, *, wide: bool = False) -> None:
    """Print why sagas need an operator, and what to do. ``now``: epoch seconds."""
    from sagas.client.operate.batch import ACTIONS, needs_reason
    from sagas.client.read.next_action import incident_arguments, needed

    rows = list[list[str]]()
    commands = list[str]()
    for incident in incidents:
        why = incident["error_type"] or incident["code"].replace("_", " ")
        times = (moment(at) if whole(wide) else ago(at, now) for at in (incident["first_seen"], incident["last_seen"]))
        arguments = incident_arguments(incident)
        action = needed(incident["code"], incident["step"], arguments)
        means = f"{action.means} Until {moment(incident['until'])}." if "until" in incident else action.means
        if action.do in ACTIONS:
            commands.append(f"sagas {action.do} {arguments}{' --reason ...' * needs_reason(action.do)}")
        row = incident["type"], incident["step"], why, f"{incident['count']:,}{'+' * incident['at_least']}", *times
        rows.append([*row, action.title.lower(), means])
    columns = {"type": 0, "step": 0, "error": 0, "sagas": 0, "since": 2, "last": 1, "next": 0, "what to do": 3}
    display(listing(columns, rows, wide=wide))
    for command in commands:
        say(command)
    say("List the sagas: `sagas attention --sagas`, with the type, step, code and error.")


def show_stopped(overview: OverviewView, now: float, *, wide: bool = False) -> None:
    """Print what is overdue, paused, stopped by a circuit breaker, or left over. ``now``: epoch seconds."""
    from sagas.client.read.next_action import breaker_error

    rows = list[list[str]]()
    overdue: dict[str, list[OverdueSagaView]] = {}
    for saga in overview["overdue"]["sagas"]:
        overdue.setdefault(saga["type"], []).append(saga)
    for name, sagas in overdue.items():
        since = min(saga["due_since"] for saga in sagas)
        rows.append([name, f"{count_of(len(sagas), 'saga')} overdue", since, "the supervisor has not recovered them"])
    for breaker in overview["breakers"]:
        error = breaker["last_error"]
        what = f"breaker of {breaker['step']} {breaker['state']}"
        why = "; ".join(filter(None, (f"{breaker['failures']} failures in a row", breaker_error(error))))
        rows.append([breaker["type"], what, error["at"] if error else "", why])
    for pause in overview["pauses"]:
        by = f"by {pause['by']}" if pause["by"] else ""
        why = ": ".join(filter(None, (by, pause["reason"])))
        rows.append([pause["type"], _paused(pause), pause["at"] or "", why])
    for left in overview["messages"]:
        what = count_of(left["count"], "leftover dead letter")
        rows.append([left["type"], what, "", "no saga needs them: `sagas dlq show TYPE`"])
    for row in rows:
        row[2] = moment(row[2]) if whole(wide) and row[2] else ago(row[2] or None, now)
    display(listing({"type": 0, "stopped": 0, "since": 2, "why": 1}, rows, wide=wide))
    more = overview["overdue"]["count"] - len(overview["overdue"]["sagas"])
    more += sum(overview["left_out"][part] for part in ("breakers", "pauses", "messages"))
    say(f"As the supervisor found it at {moment(overview['at'])}" + (f"; and {more} more." if more > 0 else "."))


def _paused(pause: PauseView) -> str:
    """Return what a pause stops."""
    what = pause["step"] or (pause["saga_id"] and f"saga {pause['saga_id'][:8]}") or ""
    return f"{what} paused".strip() if not pause["starts_only"] else "starts paused"


def paused_text(pause: PauseView) -> str:
    """Return a line about a pause: its object, its author, its reason and its end."""
    kind = _paused(pause)
    by = f" by {pause['by']}" if pause["by"] else ""
    until = f" until {moment(pause['until'])}" if pause["until"] else ""
    return f"{kind}{by}{until}" + (f": {pause['reason']}" if pause["reason"] else "")


def breaker_table(breakers: Iterable[BreakerView]) -> Table:
    from sagas.client.read.next_action import breaker_error

    rows = list[list[str | Text]]()
    for breaker in breakers:
        state = Text(breaker["state"], style="green" if breaker["state"] == "closed" else "red")
        until = moment(breaker["open_until"]) if breaker["open_until"] else ""
        waiting = f"{breaker['waiting']} or more" if breaker["more_waiting"] else _count(breaker["waiting"])
        failures = _count(breaker["failures"])
        error = breaker_error(breaker["last_error"])
        rows.append([breaker["type"], breaker["step"], state, failures, until, waiting, error])
    columns = {
        "type": 0,
        "step": 0,
        "breaker": 0,
        "failures in a row": 3,
        "open until": 2,
        "waiting": 0,
        "last error": 1,
    }
    return listing(columns, rows)


def stats_tables(types: Iterable[TypeStats]) -> Iterator[Table]:
    """Yield a table of counts by type and status, then a table of rates by type. ``+`` means "at least"."""
    counts = list[list[str | Text]]()
    rates = list[list[str | Text]]()
    for stats in types:

        def figure(name: str, number: float, stats: TypeStats = stats) -> str:
            return f"{number:g}{'+' if name in stats['at_least'] else ''}"

        name = Text.assemble(stats["type"], (" paused", "red")) if stats["paused"] else Text(stats["type"])
        statuses = [status for status in _ORDER if stats["statuses"].get(status)]
        counts += [[name, coloured(status), figure(status, stats["statuses"][status])] for status in statuses]
        oldest = moment(stats["oldest_in_flight"]) if stats["oldest_in_flight"] else ""
        moves = (figure(rate, stats[rate]) for rate in ("attention", "started_per_minute", "ended_per_minute"))
        rates.append([name, *moves, oldest])
    yield listing({"type": 0, "status": 0, "sagas": 0}, counts)
    yield listing({"type": 0, "need you": 0, "started/min": 1, "ended/min": 2, "oldest in flight": 3}, rates)


def queue_table(queues: Iterable[QueueStats]) -> Table:
    """Return a table of all queues that are not empty, with the number of their messages."""
    rows = [
        [queue["type"], ", ".join(queue["steps"]), "unknown" if queue["messages"] is None else str(queue["messages"])]
        for queue in queues
        if queue["messages"] != 0
    ]
    return listing({"type": 0, "queue of": 0, "messages, about": 0}, rows)


def _count(number: int) -> str:
    return str(number) if number else ""


def verification_notes(verification: VerificationView) -> list[str]:
    """Return notes on a verification that found nothing wrong."""
    if "purged_at" not in verification:
        return []
    return [f"Purged at {moment(verification['purged_at'])}: the trail of actions is complete but has no payloads."]
