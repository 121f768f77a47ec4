"""Prints timelines, children and books."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.shop import Books

console = Console(highlight=False)
if not console.is_terminal:
    console = Console(highlight=False, width=120)
_LONG = 3_600.0
"""Times of more seconds than this are shown in days."""
_COLOURS = {"COMPLETED": "green", "COMPENSATED": "yellow"}


def _what(entry: dict[str, Any]) -> str:
    error = entry["details"].get("error")
    return f"{error['type']}: {error['message']}" if error else ""


def show_timeline(saga: dict[str, Any], entries: list[dict[str, Any]]) -> None:
    """Print a saga's audit trail as a timeline."""
    colour = _COLOURS.get(saga["status"], "red")
    console.print(f"\n[bold]{saga['type']}[/] {saga['saga_id']} [{colour}]{saga['status']}[/]")
    table = Table("#", "ms", "action", "step", "attempt", "saga is", "", box=None, header_style="dim")
    begin = datetime.fromisoformat(entries[0]["at"])
    for entry in entries:
        seconds = (datetime.fromisoformat(entry["at"]) - begin).total_seconds()
        elapsed = f"{seconds * 1000:.0f}" if seconds < _LONG else f"{seconds / 86_400:.2f} d"
        attempt = "" if entry["attempt"] is None else str(entry["attempt"])
        step = entry["step"] or ""
        table.add_row(str(entry["seq"]), elapsed, entry["action"], step, attempt, entry["status"], _what(entry))
    console.print(table)


def show_children(children: list[dict[str, Any]]) -> None:
    """Print a saga's children."""
    table = Table("", "saga", "is", box=None, header_style="dim")
    for child in children:
        place = f"{child['parent']['step']}[{child['parent']['position']}]"
        status = f"[{_COLOURS.get(child['status'], 'red')}]{child['status']}[/]"
        table.add_row(place, f"{child['type']} {child['saga_id']}", status)
    console.print(table)


def show_books(before: Books, after: Books) -> None:
    """Print the stock and the ledger, before and after."""
    table = Table("", "before", "after", box=None, header_style="dim")
    for sku in sorted(before.stock):
        table.add_row(f"stock of {sku}", str(before.stock[sku]), str(after.stock[sku]))
    table.add_row("ledger, sum", f"{before.earned:.2f}", f"{after.earned:.2f}")
    table.add_row("ledger, entries", str(before.entries), str(after.entries))
    console.print(table)
