"""Geometry of a bar chart over time: a row of bars per kind of event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sagas.core.text import iso, moment

NAMES, WIDTH, LANE, GAP = 190, 1000, 44, 12
"""Units of the drawing: width of the names' column, whole width, height of a row, and its margin."""
COUNT = 48
"""Bars in a row."""


@dataclass(frozen=True, slots=True)
class ChartBar:
    """A period in which an event happened.

    Args:
        x, y, width, height: where it is.
        title: how often and when, in a sentence.
    """

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A row: one kind of event.

    Args:
        name: of the event.
        y: top of the row.
        total: number of events.
        most: number of events in the highest bar.
        bars: of the periods with events.
    """

    name: str
    y: float
    total: int
    most: int
    bars: tuple[ChartBar, ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """The whole drawing."""

    height: float
    lanes: tuple[Lane, ...]


def bars(happened: Mapping[str, Sequence[float]], begin: float, end: float) -> Bars:
    """Return the chart of a period. ``happened``: times of the events by kind, epoch seconds; others are ignored."""
    size, wide = (end - begin) / COUNT, (WIDTH - NAMES) / COUNT
    lanes = list[Lane]()
    for number, (name, times) in enumerate(happened.items()):
        counts = [0] * COUNT
        for at in times:
            if begin <= at < end:
                counts[min(int((at - begin) / size), COUNT - 1)] += 1
        top, most = number * LANE, max(counts)
        found = list[ChartBar]()
        for index, count in enumerate(counts):
            if not count:
                continue
            height = round((LANE - GAP) * count / most, 1)
            title = f"{name}: {count} from {moment(iso(begin + index * size))}"
            x, y = round(NAMES + index * wide, 1), round(top + LANE - height, 1)
            found.append(ChartBar(x, y, round(wide - 2, 1), height, title))
        lanes.append(Lane(name, top, sum(counts), most, tuple(found)))
    return Bars(len(lanes) * LANE + 2, tuple(lanes))
