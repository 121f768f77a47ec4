"""How often something happened when: a row of bars for each thing, over the same span of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sagas.core.text import iso, moment

NAMES, WIDTH, LANE, GAP = 190, 1000, 44, 12
"""Units of the drawing: the column for the names, all columns, the height of a row, and what is left free of it."""
COUNT = 48
"""Bars in a row."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One stretch of time in which something happened.

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
    """One thing that happened.

    Args:
        name: what.
        y: where its row begins.
        total: how often.
        most: how often in the stretch with the most of it: that bar is as high as the row.
        bars: those stretches in which it happened at all.
    """

    name: str
    y: float
    total: int
    most: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """The whole drawing."""

    height: float
    lanes: tuple[Lane, ...]


def bars(happened: Mapping[str, Sequence[float]], begin: float, end: float) -> Bars:
    """Return the drawing of what happened between two times. ``happened``: epoch seconds by what happened; what lies
    outside is left out. ``begin``: epoch seconds."""
    size, wide = (end - begin) / COUNT, (WIDTH - NAMES) / COUNT
    lanes = list[Lane]()
    for number, (name, times) in enumerate(happened.items()):
        counts = [0] * COUNT
        for at in times:
            if begin <= at < end:
                counts[min(int((at - begin) / size), COUNT - 1)] += 1
        top, most = number * LANE, max(counts)
        found = list[Bar]()
        for index, count in enumerate(counts):
            if not count:
                continue
            height = round((LANE - GAP) * count / most, 1)
            title = f"{name}: {count} from {moment(iso(begin + index * size))}"
            x, y = round(NAMES + index * wide, 1), round(top + LANE - height, 1)
            found.append(Bar(x, y, round(wide - 2, 1), height, title))
        lanes.append(Lane(name, top, sum(counts), most, tuple(found)))
    return Bars(len(lanes) * LANE + 2, tuple(lanes))
