"""Sagas, lists, audit trails and dead letters as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sagas.cli.advice import advice
from sagas.cli.output import plain
from sagas.cli.times import between, clock_time, moment
from sagas.client import (
    AuditEntry,
    BreakerView,
    DeadLetter,
    DefinitionView,
    SagaView,
    Summary,
    VerificationView,
)

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
_BAR = 30
_TELLING = ("note", "action", "cause", "reason", "fraction", "next_attempt_at")
"""Details of audit entries that a table has room for."""


def coloured(status: str) -> Text:
    """Return a status in its colour."""
    return Text(status, style=_STYLES.get(status, ""))


def saga_page(saga: SagaView, now: float) -> RenderableType:
    """Return a saga with its steps, its errors, and what to do about them.

    Args:
        saga: as the API shows it.
        now: epoch seconds.
    """
    title = Text.assemble((saga["name"], "bold"), f" {saga['saga_id']} ", coloured(saga["status"]))
    when = f"started {moment(saga['created_at'])}, last changed {between(saga['created_at'], saga['updated_at'])} later"
    if saga["cancel_requested_at"]:
        when += f", cancel asked for at {moment(saga['cancel_requested_at'])}"
    steps = _table("step", "status", "attempts", "undo attempts", "took", "error")
    for step in saga["steps"]:
        steps.add_row(
            step["name"],
            coloured(step["status"]),
            _count(step["attempts"]),
            _count(step["undo_attempts"]),
            between(step["started_at"], step["ended_at"]),
            plain(step["error"]["type"]) if step["error"] else "",
        )
    parts: list[RenderableType] = [title, Text(when, style="dim"), steps]
    told = saga["progress"]
    if told:
        bar = Table.grid(padding=(0, 1))
        share = ProgressBar(total=1.0, completed=told["fraction"], width=_BAR)
        bar.add_row(told["step"], share, f"{told['fraction']:.0%}", Text(plain(told["message"])))
        parts.append(bar)
    return Group(*parts, *(Text(line) for line in advice(saga, now)))


def list_table(sagas: Sequence[Summary]) -> Table:
    """Return summaries as a table; why they need a person, if any does."""
    why = any("why" in saga for saga in sagas)
    table = _table("saga", "id", "status", "started", "last changed", *(["why it needs you"] if why else []))
    for saga in sagas:
        reason = [plain(saga.get("why", ""))] if why else []
        times = moment(saga["created_at"]), moment(saga["updated_at"])
        table.add_row(saga["name"], saga["saga_id"], coloured(saga["status"]), *times, *reason)
    return table


def audit_table(entries: Iterable[AuditEntry], *, whose: bool = False) -> Table:
    """Return an audit trail as a table, or that of several sagas (``whose``). Stack traces are left to JSON."""
    table = _table(
        *(["saga", "id"] if whose else []), "#", "time (UTC)", "action", "step", "attempt", "saga is", "by", ""
    )
    for entry in entries:
        details = entry["details"]
        error: dict[str, str] | None = details.get("error")
        said = [f"{error.get('type')}: {error.get('message')}"] if error else []
        said += [f"{name.replace('_', ' ')}: {details[name]}" for name in _TELLING if details.get(name)]
        table.add_row(
            *([entry["saga"], entry["saga_id"]] if whose else []),
            str(entry["seq"]),
            f"{entry['at'][:10]} {clock_time(entry['at'])}",
            entry["action"],
            entry["step"] or "",
            _count(entry["attempt"] or 0),
            coloured(entry["status"]),
            plain(entry["actor"]),
            plain(", ".join(said)),
        )
    return table


def dead_letter_table(letters: Iterable[DeadLetter]) -> Table:
    """Return dead letters as a table."""
    table = _table("saga", "id", "step", "received", "sent", "message")
    for letter in letters:
        sent = moment(letter.sent_at)
        who = letter.saga or "?", letter.saga_id or "?", letter.step or "?"
        table.add_row(*map(plain, who), f"{letter.receives} times", sent, letter.message_id)
    return table


def definition_table(definitions: Iterable[DefinitionView]) -> Table:
    """Return saga types as a table."""
    table = _table("saga", "version", "starts", "steps", "")
    for saga in definitions:
        starts = Text("enabled", style="green") if saga["active"] else Text("disabled", style="red")
        steps = " -> ".join(step["name"] for step in saga["steps"])
        # An API of an earlier version does not say whether callers may cancel: there, they may.
        notes = [] if saga.get("cancellable", True) else ["callers may not cancel it"]
        notes += [saga["reason"]] if saga["reason"] else []
        table.add_row(saga["name"], saga["version"], starts, steps, plain("; ".join(notes)))
    return table


def breaker_table(breakers: Iterable[BreakerView]) -> Table:
    """Return circuit breakers as a table."""
    table = _table("saga", "step", "breaker", "failures in a row", "open until", "waiting")
    for breaker in breakers:
        state = Text(breaker["state"], style="green" if breaker["state"] == "closed" else "red")
        until = moment(breaker["open_until"]) if breaker["open_until"] else ""
        waiting = f"{breaker['waiting']} or more" if breaker["more_waiting"] else _count(breaker["waiting"])
        table.add_row(breaker["saga"], breaker["step"], state, _count(breaker["failures"]), until, waiting)
    return table


def _count(number: int) -> str:
    return str(number) if number else ""


def _table(*columns: str) -> Table:
    return Table(*columns, box=None, header_style="dim", pad_edge=False)


def verification_notes(found: VerificationView) -> list[str]:
    """Return what is to be known of a verification that found nothing wrong."""
    notes = list[str]()
    if "purged_at" in found:
        notes.append(f"It was purged at {moment(found['purged_at'])}: the trail of actions is left, without payloads.")
    if found["chained_from"] is None:
        notes.append("No entry has a hash: an older version wrote them all.")
    elif found["chained_from"] > 1 and "purged_at" not in found:
        notes.append(f"Entries before {found['chained_from']} were written by an older version, and are covered since.")
    return notes
