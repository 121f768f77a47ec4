"""``sagas logs``: prints what the functions logged about a saga."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagas.cli.one_saga import SagaRef, on_saga
from sagas.cli.output import emit, plain, plain_line, say
from sagas.cli.target import Target
from sagas.cli.times import Moment, moment
from sagas.core.text import epoch

if TYPE_CHECKING:
    from sagas.client.read.logs import LogLine

_POLL = 1.0
"""Seconds between two requests. CloudWatch Logs accepts five requests per second from an account."""
_LATE = 30.0
"""A line can arrive this many seconds after lines with a later time."""
_PRINTED_ELSEWHERE = frozenset({
    "level", "location", "message", "timestamp", "service", "saga", "saga_id", "step", "correlation_id", "message_id",
    "cold_start", "function_arn", "function_memory_size", "function_name", "function_request_id", "xray_trace_id",
    "exception", "exception_name", "stack_trace", "sampling_rate",
})  # fmt: skip


@on_saga(typeless=True)
def logs(
    target: Target,
    saga: SagaRef,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until Ctrl-C")] = False,
    since: Annotated[Moment | None, moment(help="Only lines since TIME; by default since the saga was created")] = None,
) -> None:
    """Show what the functions logged about a saga: lines of the library and of ctx.logger."""
    client = target.client()
    saga_id = saga.saga_id
    # Imported late: this takes time to load, and no help text needs it.
    from sagas.engine.clock import SystemClock

    begin = None if since is None else epoch(since.at(SystemClock().now()))
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
    """Print the lines whose marks are not in ``seen``, and return the marks of these lines."""
    marks: set[tuple[Any, ...]] = set()
    for line in lines:
        mark = (line["group"], line["at"], line["event_id"], line["message"])
        if mark in seen:
            continue
        marks.add(mark)
        if target.as_json:
            emit(line)
            continue
        at = datetime.fromtimestamp(line["at"], UTC).strftime("%H:%M:%S.%f")[:-3]
        fields = line["fields"]
        if "message" not in fields:
            say(f"{at} {plain(line['message'])}")
            continue
        more = " ".join(f"{key}={value}" for key, value in fields.items() if key not in _PRINTED_ELSEWHERE)
        step = fields.get("step") or "-"
        say(plain_line(f"{at} {fields.get('level', ''):7} {step:16} {fields['message']} {more}".rstrip()))
        for row in str(fields.get("exception") or "").rstrip().splitlines():
            say(f"    {plain_line(row)}")
    return marks


def add_to(app: typer.Typer) -> None:
    app.command()(logs)
