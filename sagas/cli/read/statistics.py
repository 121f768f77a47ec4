"""``sagas top``: how many sagas there are, and how fast they come and go."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from sagas.cli.output import display, emit, plain, screen
from sagas.cli.read.reading import moment_of
from sagas.cli.tables import breaker_table, queue_table, stats_table
from sagas.cli.target import Target, on_target
from sagas.core.text import moment

if TYPE_CHECKING:
    from sagas.client import StatsView

_EVERY = 30.0
"""Seconds between two looks: the service keeps an answer for as long."""


@on_target
def top(
    target: Target,
    name: Annotated[str | None, typer.Argument(metavar="[TYPE]", help="Only sagas of this type.")] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Count those that ended since: ISO 8601, or 30m, 2h, 3d ago; 1d by default."),
    ] = None,
    watching: Annotated[bool, typer.Option("--watch", help="Count anew every 30 s until Ctrl-C.")] = False,
) -> None:
    """Show how many sagas there are by type and status, how many start and end a minute, and what waits."""
    client, from_when = target.client(), moment_of(since, "--since", target.now())
    found = client.stats(name, since=from_when)
    if not watching:
        emit(found) if target.as_json else display(_page(found))
        return
    try:
        while target.as_json:  # one document after the other
            emit(found)
            time.sleep(_EVERY)
            found = client.stats(name, since=from_when)
        with Live(_page(found), console=screen(), auto_refresh=False) as live:
            while True:
                time.sleep(_EVERY)
                live.update(_page(client.stats(name, since=from_when)), refresh=True)
    except KeyboardInterrupt:
        return


def _page(found: StatsView) -> RenderableType:
    ended = f"at {moment(found['at'])}; those that are over since {moment(found['since'])}"
    parts: list[RenderableType] = [Text(ended, style="dim"), stats_table(found["types"], screen().width)]
    if any(one["messages"] != 0 for one in found["queues"]):
        parts.append(queue_table(found["queues"]))
    if any(one["state"] != "closed" for one in found["breakers"]):
        parts.append(breaker_table(one for one in found["breakers"] if one["state"] != "closed"))
    parts += [Text(plain(f"Approximate: {told}."), style="dim") for told in found["approximate"]]
    return Group(*parts)


def add_to(app: typer.Typer) -> None:
    """Add this command to ``app``."""
    app.command("top")(top)
