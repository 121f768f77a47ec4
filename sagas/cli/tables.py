"""Sagas, lists, audit trails and dead letters as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sagas.cli.output import plain, plain_line, pretty
from sagas.core.states import OVER, SagaStatus
from sagas.core.text import ago, between, clock_time, end_of, moment, span

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
    from sagas.engine.read.overviews import BreakerView, QueueStats, TypeStats, TypeView

_STYLES = {
    "COMPLETED": "green",
    "COMPENSATED": "yellow",
    "CANCELLED": "yellow",
    "DEAD_LETTERED": "red",
    "FAILED": "red",
    "COMPENSATION_FAILED": "bold red",
    "PENDING": "dim",
    "RETRYING": "yellow",
    "COMPENSATING": "yellow",
    "RUNNING": "cyan",
    "WAITING": "cyan",
}
_ORDER = tuple(SagaStatus)
_BAR = 30
_WIDE = 140
"""Columns from which on a list has room for whole times, and why a saga needs a person, beside it."""
_LONGEST_JSON = 20
"""Lines of a request or result that are shown."""
_TELLING = ("reason", "action", "cause", "fraction", "next_attempt_at")
"""Details of audit entries that a table has room for."""


def coloured(status: str) -> Text:
    """Return a status in its colour."""
    return Text(status, style=_STYLES.get(status, ""))


def saga_page(saga: SagaView, now: float) -> RenderableType:
    """Return a saga with its steps, its errors, and what to do about them. ``now``: epoch seconds."""
    from sagas.client.read.advice import advice, failed_children

    title = Text.assemble((saga["type"], "bold"), f" {saga['saga_id']} ", coloured(saga["status"]))
    over = saga["status"] in OVER
    when = f"started {moment(saga['created_at'])}, " + (
        f"took {between(saga['created_at'], end_of(saga))}" if over else f"{ago(saga['created_at'], now)}"
    )
    when += f", last changed {ago(saga['updated_at'], now)}"
    if saga.get("paused"):
        title.append(" paused", "red")
    if saga["cancel_requested_at"]:
        when += f", cancel asked for at {moment(saga['cancel_requested_at'])}"
    steps = _table("step", "status", "attempts", "undo attempts", "took", "error")
    for step in saga["steps"]:
        steps.add_row(
            step["name"],
            coloured(step["status"]),
            _count(step["attempts"]),
            _count(step["undo_attempts"]),
            "" if step["took"] is None else span(step["took"]),
            plain(step["error"]["type"]) if step["error"] and step["status"] != "RUNNING" else "",
        )
    parts: list[RenderableType] = [title, Text(when, style="dim"), steps]
    told = saga["progress"]
    if told:
        bar = Table.grid(padding=(0, 1))
        share = ProgressBar(total=1.0, completed=told["fraction"], width=_BAR)
        bar.add_row(told["step"], share, f"{told['fraction']:.0%}", Text(plain(told["message"])))
        parts.append(bar)
    return Group(*parts, *(Text(line) for line in [*failed_children(saga), *advice(saga, now)]))


def payloads(saga: SagaView) -> RenderableType:
    """Return request and results of a saga; long ones are cut."""
    found = [("request", saga["request"])]
    found += [(f"result of {step['name']}", step["result"]) for step in saga["steps"]]
    parts = list[Text]()
    for name, value in found:
        if value is None:
            continue
        lines = [plain_line(line) for line in pretty([value] if isinstance(value, str) else value).splitlines()]
        if isinstance(value, str):
            lines = [line.strip() for line in lines[1:-1]]
        if len(lines) > _LONGEST_JSON:
            more = f"... {len(lines) - _LONGEST_JSON} more lines: --json has all"
            lines = [*lines[:_LONGEST_JSON], more]
        if len(lines) == 1:
            parts.append(Text.assemble((f"{name} ", "dim"), lines[0]))
        else:
            parts += [Text(name, style="dim"), *(Text(f"  {line}") for line in lines)]
    return Group(*parts)


def stack_traces(entries: Iterable[AuditEntry]) -> list[RenderableType]:
    """Return the stack traces of an audit trail, each with its attempt and trace id, the last one at the end."""
    found = list[RenderableType]()
    for entry in entries:
        if not entry["details"].get("stack_trace"):
            continue
        trace_id = entry["trace_id"] or entry["details"].get("trace_id")
        head = f"stack trace of {entry['step']}, attempt {entry['attempt']}"
        head += f", trace id {trace_id}" if trace_id else ""
        lines = [Text(f"  {plain_line(line)}") for line in str(entry["details"]["stack_trace"]).splitlines()]
        found.append(Group(Text(plain(head), style="dim"), *lines))
    return found


def list_table(sagas: Sequence[Summary], now: float, width: int) -> RenderableType:
    """Return summaries, one line a saga with its whole id; why they need a person, if any does. ``now``: epoch
    seconds."""
    if width < _WIDE:
        lines, times = list[Text](), [ago(saga["updated_at"], now) for saga in sagas]
        widest, longest = max(len(saga["status"]) for saga in sagas), max(map(len, times))
        for saga, time in zip(sagas, times, strict=True):
            room = " " * (widest - len(saga["status"]) + 1)
            line = Text.assemble(f"{saga['saga_id']} ", coloured(saga["status"]), room, (f"{time:>{longest}} ", "dim"))
            # What does not fit is cut: an id stays whole, that its type is paused, and a saga in its line.
            paused = " paused" if saga.get("paused") else ""
            line.append(saga["type"][: max(width - len(line) - len(paused) - 1, 3 if paused else 8)]).append(
                paused, "red"
            )
            lines.append(line)
            if "why" in saga:
                lines.append(Text(f"  {plain(saga['why'])}", style="dim"))
        return Group(*lines)
    why = any("why" in saga for saga in sagas)
    faults = any(saga.get("fault") for saga in sagas)
    more = [*(["error"] if faults else []), *(["why it needs you"] if why else [])]
    table = _table("saga", "id", "status", "started", "last changed", *more)
    for saga in sagas:
        fault = saga.get("fault")
        reason = [plain(f"{fault['step']}: {fault['type']}" if fault else "")] if faults else []
        reason += [plain(saga.get("why", ""))] if why else []
        status = coloured(saga["status"])
        if saga.get("paused"):
            status = Text.assemble(status, (" paused", "red"))
        times = moment(saga["created_at"]), moment(saga["updated_at"])
        table.add_row(saga["type"], saga["saga_id"], status, *times, *reason)
    return table


def audit_table(entries: Sequence[AuditEntry], width: int) -> RenderableType:
    """Return an audit trail as a table. Stack traces are left to :func:`stack_trace` and to JSON."""
    if width < _WIDE:
        lines = list[Text]()
        for entry in entries:
            number = f"attempt {entry['attempt']}" if entry["attempt"] else ""
            what = " ".join(part for part in (entry["action"], entry["step"], number) if part)
            time = f"{entry['at'][:10]} {clock_time(entry['at'])} "
            lines.append(Text.assemble(f"{entry['seq']:>4} ", (time, "dim"), what))
            by = [] if entry["actor"] == "worker" else [f"by {entry['actor']}"]
            said = plain(", ".join([*_told(entry), *by]))
            if said:
                lines.append(Text(f"     {said}", style="dim"))
        return Group(*lines)
    table = _table("#", "time (UTC)", "action", "step", "attempt", "saga is", "by", "")
    for entry in entries:
        table.add_row(
            str(entry["seq"]),
            f"{entry['at'][:10]} {clock_time(entry['at'])}",
            entry["action"],
            entry["step"] or "",
            _count(entry["attempt"] or 0),
            coloured(entry["status"]),
            plain(entry["actor"]),
            plain(", ".join(_told(entry))),
        )
    return table


def _told(entry: AuditEntry) -> list[str]:
    """What a table tells of an entry's details."""
    details = entry["details"]
    error: dict[str, str] | None = details.get("error")
    said = [f"{error.get('type')}: {error.get('message')}"] if error else []
    return said + [f"{name.replace('_', ' ')}: {details[name]}" for name in _TELLING if details.get(name)]


def family_trail(entries: Iterable[AuditEntry]) -> Table:
    """Return the audit trails of several sagas in one table, in the order given."""
    table = _table("time (UTC)", "saga", "id", "action", "step", "saga is", "by")
    for entry in entries:
        time, actor = f"{entry['at'][:10]} {clock_time(entry['at'])}", plain(entry["actor"])
        who = entry["type"], entry["saga_id"], entry["action"], entry["step"] or ""
        table.add_row(time, *who, coloured(entry["status"]), actor)
    return table


def dead_letter_table(letters: Iterable[DeadLetter], width: int) -> RenderableType:
    """Return dead letters as a table: with whole ids, whatever the columns that there are."""
    if width < _WIDE:
        lines = list[Text]()
        for letter in letters:
            where = plain(f"{letter.saga or '?'}, step {letter.step}" if letter.step else letter.saga or "?")
            line = Text.assemble(f"{plain(letter.saga_id) or '?'} ", (f"{moment(letter.sent_at)} ", "dim"), where)
            line.truncate(width)
            told = f"message {letter.message_id}, received {letter.receives} times"
            lines += [line, *(Text(f"  {plain(one)}", style="dim") for one in (told, letter.reason) if one)]
        return Group(*lines)
    table = _table("saga", "id", "step", "received", "sent", "message")
    for letter in letters:
        sent = moment(letter.sent_at)
        who = letter.saga or "?", letter.saga_id or "?", letter.step or "?"
        table.add_row(*map(plain, who), f"{letter.receives} times", sent, letter.message_id)
        if letter.reason:
            table.add_row("", "", "", "", "", plain(letter.reason))
    return table


def type_table(types: Iterable[TypeView]) -> Table:
    """Return saga types as a table."""
    table = _table("saga", "version", "starts", "steps", "", no_wrap=1)
    for saga in types:
        starts = Text("accepted", style="green") if saga["active"] else Text("refused", style="red")
        steps = " -> ".join(f"{step['name']} (pivot)" if step.get("pivot") else step["name"] for step in saga["steps"])
        notes = [] if saga["cancellable"] else ["callers may not cancel it"]
        notes += map(paused_text, saga["pauses"])
        notes += [f"{saga['failures']} failed in a row"] if saga["failures"] and saga["active"] else []
        if saga["paused"]:
            starts = Text("paused", style="red") if not saga["active"] else Text("accepted, paused", style="yellow")
        table.add_row(saga["type"], saga["version"], starts, steps, plain("; ".join(notes)))
    return table


def incident_table(incidents: Iterable[IncidentView], now: float) -> Table:
    """Return for what sagas need an operator as a table. ``now``: epoch seconds."""
    table = _table("type", "step", "error", "sagas", "since", "last", no_wrap=2)
    for one in incidents:
        seen = (ago(one["first_seen"], now), ago(one["last_seen"], now))
        table.add_row(one["type"], one["step"], plain(one["error_type"] or ""), str(one["count"]), *seen)
    return table


def paused_text(pause: PauseView) -> str:
    """Return what is paused, by whom, why and until when, in one line."""
    what = pause["step"] or (pause["saga_id"] and f"saga {pause['saga_id'][:8]}") or ""
    kind = f"{what} paused".strip() if not pause["starts_only"] else "starts paused"
    by = f" by {pause['by']}" if pause["by"] else ""
    until = f" until {moment(pause['until'])}" if pause["until"] else ""
    return f"{kind}{by}{until}" + (f": {pause['reason']}" if pause["reason"] else "")


def breaker_table(breakers: Iterable[BreakerView]) -> Table:
    """Return circuit breakers as a table."""
    table = _table("saga", "step", "breaker", "failures in a row", "open until", "waiting")
    for breaker in breakers:
        state = Text(breaker["state"], style="green" if breaker["state"] == "closed" else "red")
        until = moment(breaker["open_until"]) if breaker["open_until"] else ""
        waiting = f"{breaker['waiting']} or more" if breaker["more_waiting"] else _count(breaker["waiting"])
        table.add_row(breaker["type"], breaker["step"], state, _count(breaker["failures"]), until, waiting)
    return table


def stats_table(types: Iterable[TypeStats], width: int) -> RenderableType:
    """Return counts as a table: a row for each type, a column for each status that there is; ``+`` is at least."""
    listed = list(types)
    if width < _WIDE:
        return Group(*(line for one in listed for line in _stats_lines(one)))
    statuses = [status for status in _ORDER if any(one["statuses"].get(status) for one in listed)]
    table = _table("saga", *statuses, "need you", "started/min", "ended/min", "oldest in flight")
    for one in listed:
        name = Text.assemble(one["type"], (" paused", "red")) if one["paused"] else Text(one["type"])
        figures = {status: one["statuses"].get(status, 0) for status in statuses}
        figures |= {rate: one[rate] for rate in ("attention", "started_per_minute", "ended_per_minute")}
        told = [f"{figure:g}{'+' if figure_of in one['at_least'] else ''}" for figure_of, figure in figures.items()]
        oldest = moment(one["oldest_in_flight"]) if one["oldest_in_flight"] else ""
        table.add_row(name, *told, oldest)
    return table


def _stats_lines(one: TypeStats) -> list[Text]:
    def told(figure_of: str, figure: float) -> str:
        return f"{figure:g}{'+' if figure_of in one['at_least'] else ''}"

    counted = [f"{told(status, one['statuses'][status])} {status}" for status in _ORDER if one["statuses"].get(status)]
    counted += [f"{told('attention', one['attention'])} need you"] if one["attention"] else []
    head = Text.assemble(one["type"], (" paused", "red") if one["paused"] else "", ": ", ", ".join(counted) or "none")
    rates = {"started": one["started_per_minute"], "ended": one["ended_per_minute"]}
    moves = [f"{told(f'{what}_per_minute', rate)} {what} a minute" for what, rate in rates.items() if rate]
    moves += [f"oldest in flight {moment(one['oldest_in_flight'])}"] if one["oldest_in_flight"] else []
    return [head, Text(f"  {', '.join(moves)}", style="dim")] if moves else [head]


def queue_table(queues: Iterable[QueueStats]) -> Table:
    """Return how many messages queues hold, those that hold any."""
    table = _table("saga", "queue of", "messages, about")
    for queue in queues:
        if queue["messages"] != 0:
            messages = "unknown" if queue["messages"] is None else str(queue["messages"])
            table.add_row(queue["type"], ", ".join(queue["steps"]), messages)
    return table


def _count(number: int) -> str:
    return str(number) if number else ""


def _table(*columns: str, no_wrap: int = 0) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number < no_wrap)
    return table


def verification_notes(found: VerificationView) -> list[str]:
    """Return what is to be known of a verification that found nothing wrong."""
    if "purged_at" not in found:
        return []
    return [f"It was purged at {moment(found['purged_at'])}: the trail of actions is left, without payloads."]
