"""Watches a saga until it ends or needs an operator."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from sagas.cli.output import display, emit, plain, say, screen
from sagas.cli.tables import saga_page
from sagas.core.states import SagaStatus
from sagas.core.text import clock_time

if TYPE_CHECKING:
    from sagas.cli.target import Target
    from sagas.client import SagaClient, SagaView

Watch = Annotated[bool, typer.Option("--watch", help="Show the steps until the saga ends or needs an operator")]
_NOT_COMPLETED = 3
_IN_FLIGHT = 4
_INTERRUPTED = 130
"""Exit codes."""


def report(target: Target, saga: SagaView) -> None:
    if target.as_json:
        emit(saga)
    else:
        display(saga_page(saga, target.now()))


def watch(target: Target, client: SagaClient, saga: SagaView, timeout: float | None) -> None:
    """Show a saga until it ends or needs an operator, and exit with a code that says which. On a terminal, the page is
    redrawn. Elsewhere, each change is a line. With ``--json``, only the end is printed."""
    from rich.live import Live

    console = screen()
    as_json = target.as_json
    lines = _Lines(target.now)
    live = Live(console=console, auto_refresh=False) if console.is_terminal and not as_json else None

    def show(changed: SagaView) -> None:
        if live is not None:
            live.update(saga_page(changed, target.now()), refresh=True)
        elif not as_json:
            lines.change(changed)

    try:
        with live or nullcontext():
            last = client.wait(saga["type"], saga["saga_id"], timeout, show)
    except TimeoutError as error:
        typer.echo(f"sagas: {error}", err=True)
        raise typer.Exit(_IN_FLIGHT) from None
    except KeyboardInterrupt:
        typer.echo("sagas: stopped watching; the saga continues", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    if as_json or not console.is_terminal:
        report(target, last)
    if last["status"] != SagaStatus.COMPLETED:
        raise typer.Exit(_NOT_COMPLETED)


class _Lines:
    """Prints a line when a step or the saga changes, and when a step begins to wait."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._said: dict[str, str] = {}
        self._waits: dict[str, tuple[str | None, ...]] = {}
        self._now = now

    def change(self, saga: SagaView) -> None:
        from sagas.client.read.advice import waits_for

        for step in saga["steps"]:
            if step["status"] == "PENDING":
                continue
            undo = step["undo_attempts"] and step["status"].startswith("COMPENSAT")
            number = step["undo_attempts"] if undo else step["attempts"]
            parts = [step["status"], f"attempt {number}" if number > 1 else ""]
            if step["error"] and step["status"] not in ("COMPENSATED", "RUNNING"):
                parts.append(f"{step['error']['type']}: {plain(step['error']['message'])}")
            if step["status"] == "SKIPPED":
                parts.append(step["message"] or "")
            if step["next_attempt_at"]:
                parts.append(f"again at {clock_time(step['next_attempt_at'])}")
            self._say(f"step {step['name']}", ", ".join(part for part in parts if part), saga["updated_at"])
            # Sentences cannot be compared: they contain the remaining time and the number of ended children.
            wait = (step.get("waiting_for"), step.get("waits_until"), step.get("message"))
            if wait[0] and self._waits.get(step["name"]) != wait:
                self._waits[step["name"]] = wait
                say(f"{clock_time(saga['updated_at'])} {plain(waits_for(saga, step, self._now()))}")
        if progress := saga["progress"]:
            far = f"{progress['fraction']:.0%} {plain(progress['message'])}".rstrip()
            self._say(f"step {progress['step']} is at", far, progress["at"])
        self._say("saga", saga["status"], saga["updated_at"])

    def _say(self, subject: str, text: str, at: str) -> None:
        if self._said.get(subject) != text:
            self._said[subject] = text
            say(f"{clock_time(at)} {subject} {text}")
