"""``sagas top``: prints counts and rates of sagas."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from sagas.cli.one_saga import OneType
from sagas.cli.output import display, emit, plain, screen
from sagas.cli.tables import breaker_table, queue_table, stats_tables
from sagas.cli.target import Target, on_target
from sagas.cli.times import Moment
from sagas.cli.times import moment as moment_option
from sagas.core.text import moment

if TYPE_CHECKING:
    from sagas.client import StatsView

_EVERY = 30.0
"""Seconds between two requests: the service caches an answer for this time."""


@on_target
def top(
    target: Target,
    name: OneType = None,
    since: Annotated[Moment | None, moment_option(help="Count sagas that ended since TIME; 1d by default")] = None,
    watching: Annotated[bool, typer.Option("--watch", help="Repeat every 30 s until Ctrl-C")] = False,
) -> None:
    """Show how many sagas there are by type and status, starts and ends per minute, and waiting messages."""
    client = target.client()
    begin = since and since.at(target.now())
    stats = client.stats(name, since=begin)
    if not watching:
        emit(stats) if target.as_json else display(_page(stats))
        return
    try:
        while target.as_json:  # print one document per request
            emit(stats)
            time.sleep(_EVERY)
            stats = client.stats(name, since=begin)
        with Live(_page(stats), console=screen(), auto_refresh=False) as live:
            while True:
                time.sleep(_EVERY)
                live.update(_page(client.stats(name, since=begin)), refresh=True)
    except KeyboardInterrupt:
        return


def _page(stats: StatsView) -> RenderableType:
    head = f"at {moment(stats['at'])}; sagas ended since {moment(stats['since'])}"
    parts: list[RenderableType] = [Text(head, style="dim"), *stats_tables(stats["types"])]
    if any(queue["messages"] != 0 for queue in stats["queues"]):
        parts.append(queue_table(stats["queues"]))
    if any(breaker["state"] != "closed" for breaker in stats["breakers"]):
        parts.append(breaker_table(breaker for breaker in stats["breakers"] if breaker["state"] != "closed"))
    parts += [Text(plain(f"Approximate: {figure}."), style="dim") for figure in stats["approximate"]]
    return Group(*parts)


def add_to(app: typer.Typer) -> None:
    app.command()(top)
