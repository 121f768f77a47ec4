"""The geometry of a bar chart over time, with a row of bars per kind of event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sagas.core.text import iso, moment

NAMES = 190
WIDTH = 1000
LANE = 44
GAP = 12
"""In units of the drawing: the width of the names, the whole width, the height of a row, and the margin of a row."""
COUNT = 48
"""The number of bars in a row."""


@dataclass(frozen=True, slots=True)
class ChartBar:
    """A bar: a period in which an event happened. ``title`` has the number of events and the period, in a sentence."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of bars for one kind of event, one for each period with events. ``y`` is the top of the row, ``total`` the
    number of events, and ``most`` their number in the highest bar."""

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
    """Return the bar chart of a span of time. ``happened`` has the times of events in epoch seconds, by kind. Times
    outside the span are ignored."""
    size = (end - begin) / COUNT
    wide = (WIDTH - NAMES) / COUNT
    lanes = list[Lane]()
    for number, (name, times) in enumerate(happened.items()):
        counts = [0] * COUNT
        for at in times:
            if begin <= at < end:
                counts[min(int((at - begin) / size), COUNT - 1)] += 1
        top = number * LANE
        most = max(counts)
        found = list[ChartBar]()
        for index, count in enumerate(counts):
            if not count:
                continue
            height = round((LANE - GAP) * count / most, 1)
            title = f"{name}: {count} from {moment(iso(begin + index * size))}"
            x = round(NAMES + index * wide, 1)
            y = round(top + LANE - height, 1)
            found.append(ChartBar(x, y, round(wide - 2, 1), height, title))
        lanes.append(Lane(name, top, sum(counts), most, tuple(found)))
    return Bars(len(lanes) * LANE + 2, tuple(lanes))
