"""The geometry of a saga's graph: a row of boxes for the steps, each with its undo below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH = 190
HEIGHT = 48
_GAP = 56
_EDGE = 8
_LONGEST = 22
"""A box has room for this many characters."""
_UNDOS = {"COMPENSATED": "DONE", "COMPENSATING": "RUNNING", "COMPENSATION_FAILED": "FAILED"}


@dataclass(frozen=True, slots=True)
class Box:
    """The box of a step or of an undo. ``x`` and ``y`` are its upper left corner. The status of an undo is ``UNDO_``
    and a status, such as ``UNDO_DONE``. ``label`` has the status, the number of attempts and whether it is the pivot,
    in words."""

    x: int
    y: int
    name: str
    status: str
    label: str
    undo: bool


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line from one box to another: ``back`` goes from undo to undo, ``down`` from a step to its undo."""

    x1: int
    y1: int
    x2: int
    y2: int
    kind: str


@dataclass(frozen=True, slots=True)
class Graph:
    """The whole drawing, and its size."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def graph(steps: Sequence[Mapping[str, Any]], undos: Mapping[str, str | None], misfit: str = "") -> Graph:
    """Return the drawing of a saga's steps. ``misfit`` names the step that does not fit the deployed code, if any."""
    boxes = list[Box]()
    arrows = list[Arrow]()
    below = list[Box]()
    lower = _EDGE + HEIGHT + _GAP // 2
    for index, step in enumerate(steps):
        x = _EDGE + index * (WIDTH + _GAP)
        status = step["status"]
        more = f" x{step['attempts']}" if step["attempts"] > 1 and status not in _UNDOS else ""
        text = ("pivot, " if step.get("pivot") else "") + status.replace("_", " ").lower() + more
        text += ", does not fit" if step["name"] == misfit else ""
        boxes.append(Box(x, _EDGE, _cut(step["name"]), status, text, False))
        if index:
            arrows.append(Arrow(x - _GAP, _EDGE + HEIGHT // 2, x - 3, _EDGE + HEIGHT // 2, "on"))
        undo = undos.get(step["name"]) or ("undo" if step["undo_attempts"] else None)
        if undo is None:
            continue
        word = _UNDOS.get(status, "NOT NEEDED" if status in ("PENDING", "SKIPPED") else "NOT RUN")
        times = f" x{step['undo_attempts']}" if step["undo_attempts"] > 1 else ""
        box = Box(x, lower, _cut(undo), f"UNDO_{word.replace(' ', '_')}", word.lower() + times, True)
        arrows.append(Arrow(x + WIDTH // 2, _EDGE + HEIGHT, x + WIDTH // 2, lower, "down"))
        if below:
            arrows.append(Arrow(x, lower + HEIGHT // 2, below[-1].x + WIDTH + 3, lower + HEIGHT // 2, "back"))
        below.append(box)
    width = _EDGE * 2 + len(steps) * WIDTH + max(len(steps) - 1, 0) * _GAP
    return Graph(width, (lower if below else _EDGE) + HEIGHT + _EDGE, (*boxes, *below), tuple(arrows))


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
