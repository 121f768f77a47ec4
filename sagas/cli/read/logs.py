"""``sagas logs``: what the functions logged about a saga."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagas.cli.output import emit, plain, say
from sagas.cli.read.reading import SagaId
from sagas.cli.target import Target, on_target

if TYPE_CHECKING:
    from sagas.client.read.logs import LogLine

_POLL = 1.0
"""Seconds between two looks; CloudWatch Logs takes five a second from an account."""
_LATE = 30.0
"""Seconds by which a line may come after later ones."""
_SHOWN_ALREADY = frozenset({
    "level", "location", "message", "timestamp", "service", "saga", "saga_id", "step", "correlation_id", "message_id",
    "cold_start", "function_arn", "function_memory_size", "function_name", "function_request_id", "xray_trace_id",
    "exception", "exception_name", "stack_trace", "sampling_rate",
})  # fmt: skip


@on_target
def logs(
    target: Target,
    saga_id: SagaId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")] = False,
    since: Annotated[
        float | None, typer.Option(min=0, help="Seconds to look back; by default since the saga was created.")
    ] = None,
) -> None:
    """Show what the functions logged about a saga: the library's lines, and those of ctx.logger."""
    client = target.client()
    # It takes its time to load, and no help text needs it.
    from sagas.engine.clock import SystemClock

    begin = None if since is None else SystemClock().now() - since
    lines = client.logs(saga_id, begin)
    if target.as_json and not follow:
        emit({"lines": lines})
        return
    seen = _print_new(target, lines, set())
    while follow:
        time.sleep(_POLL)
        latest = max((line["at"] for line in lines), default=None)
        lines = client.logs(saga_id, begin if latest is None else latest - _LATE)
        seen |= _print_new(target, lines, seen)
    if not lines:
        say("No line names this saga.")


def _print_new(target: Target, lines: list[LogLine], seen: set[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    """Print the lines that were not seen; return what tells them from others."""
    marks: set[tuple[Any, ...]] = set()
    for line in lines:
        mark = (line["group"], line["at"], line["event_id"], line["message"])
        if mark in seen:
            continue
        marks.add(mark)
        if target.as_json:
            emit(line)
            continue
        at, fields = datetime.fromtimestamp(line["at"], UTC).strftime("%H:%M:%S.%f")[:-3], line["fields"]
        if "message" not in fields:
            say(f"{at} {plain(line['message'])}")
            continue
        more = " ".join(f"{key}={value}" for key, value in fields.items() if key not in _SHOWN_ALREADY)
        step = fields.get("step") or "-"
        say(plain_line(f"{at} {fields.get('level', ''):7} {step:16} {fields['message']} {more}".rstrip()))
        for row in str(fields.get("exception") or "").rstrip().splitlines():
            say(f"    {plain_line(row)}")
    return marks


def plain_line(text: str) -> str:
    """The text without what does more to a terminal than show; its spaces stay."""
    return "".join(character if character.isprintable() else " " for character in text)
