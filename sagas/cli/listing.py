"""One layout for all lists. They always have a header. A narrow terminal gets fewer columns, but never cut ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from sagas.cli.output import plain, screen

Wide = Annotated[bool, typer.Option("--wide", help="Whole ids and times, and all columns")]
_GAP = 2
_ENOUGH = 20
"""Columns are dropped before long texts are cut to fewer characters than this."""
_SHORTEST_ID = 8
_WHOLE = ("id", "message", "#", "action", "status", "attempt", "time (UTC)", "started", "changed", "sent")
"""The titles of columns whose texts are never cut."""


def whole(wide: bool) -> bool:
    """Whether to print ids and times in full. If the output is not a terminal, this is always so."""
    return wide or not screen().is_terminal


def short_ids(ids: Iterable[str], *, wide: bool) -> dict[str, str]:
    """Return the start of each id, long enough to differ from all others. With ``wide``, return the whole id."""
    distinct = {*ids}
    length = _SHORTEST_ID
    while len({saga_id[:length] for saga_id in distinct}) < len(distinct):
        length += 1
    return {saga_id: saga_id if wide else saga_id[:length] for saga_id in distinct}


def listing(columns: Mapping[str, int], rows: Iterable[Sequence[str | Text]], *, wide: bool = False) -> Table:
    """Return a table. ``columns`` has titles with ranks. To fit the terminal, columns above rank 0 are dropped, the
    highest first, and then the longest texts are cut. With ``wide``, or without a terminal, nothing is omitted."""
    cells = [[cell if isinstance(cell, Text) else Text(plain(cell)) for cell in row] for row in rows]
    titles = [*columns]
    room = screen().width
    widths = [max(len(title), *(row[place].cell_len for row in cells), 0) for place, title in enumerate(titles)]
    places = [*range(len(titles))]

    def width(place: int, limit: int) -> int:
        return widths[place] if titles[place] in _WHOLE else min(widths[place], limit)

    def total(limit: int) -> int:
        return sum(width(place, limit) for place in places) + _GAP * (len(places) - 1)

    limit = max(widths)
    if not whole(wide):
        while total(_ENOUGH) > room and any(columns[titles[place]] for place in places):
            places.remove(max(places, key=lambda place: columns[titles[place]]))
        while total(limit) > room and limit > _SHORTEST_ID:
            limit -= 1
    # Set a width, because rich would otherwise remove columns that do not fit.
    table = Table(box=None, header_style="dim", pad_edge=False, width=total(limit))
    for place in places:
        table.add_column(titles[place], no_wrap=True, width=width(place, limit))
    for row in cells:
        for place in places:
            row[place].truncate(width(place, limit), overflow="ellipsis")
        table.add_row(*(row[place] for place in places))
    return table
