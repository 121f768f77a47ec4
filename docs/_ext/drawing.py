"""Boxes and arrows as SVG: what the drawings of the documentation share. They follow the reader's colour scheme."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_STYLE = """<style>
text { font: 13px sans-serif; text-anchor: middle; fill: #1f2328 } text.small { font-size: 11px; fill: #57606a }
rect { stroke-width: 1.5; fill: #fff; stroke: #57606a } rect.over { stroke-width: 3 }
path { fill: none; stroke: #0969da; stroke-width: 1.4 } path.aside { stroke: #8c959f; stroke-dasharray: 3 4 }
#tip path { fill: #57606a; stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } text.small { fill: #9198a1 } rect { fill: #0d1117; stroke: #8b949e }
path { stroke: #58a6ff } path.aside { stroke: #6e7681 } #tip path { fill: #8b949e } }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0 L8 4 L0 8 z"/></marker></defs>"""


@dataclass(frozen=True)
class Box:
    """A rectangle by its centre and its half sizes, in the drawing's units."""

    x: int
    y: int
    half_width: int
    half_height: int

    @property
    def rect(self) -> str:
        """Its place and size, as attributes of ``<rect>``."""
        place = f'x="{self.x - self.half_width}" y="{self.y - self.half_height}"'
        return f'{place} width="{2 * self.half_width}" height="{2 * self.half_height}"'


@dataclass(frozen=True)
class Part:
    """A box with two lines of text.

    Args:
        title: its first line.
        note: its second line.
        box: its place.
        logical_id: what the id of its resource begins with in a template; empty for what is not a resource of a stack.
    """

    title: str
    note: str
    box: Box
    logical_id: str = ""


def place(x: int, y: int, half_width: int = 75) -> Box:
    """Return the box of a part, by its centre."""
    return Box(x, y, half_width, 26)


def arrow(source: Box, target: Box, offset: int = 0) -> str:
    """Return the path from the edge of one box to the edge of another, ``offset`` to the right of the line between
    their centres, so that an arrow back lies next to it."""
    across, down = target.x - source.x, target.y - source.y
    length = math.hypot(across, down)
    right, below = -down / length * offset, across / length * offset
    ends: list[str] = []
    for box, onward in ((source, 1), (target, -1)):
        to_side = box.half_width / abs(across) if across else 1.0
        to_edge = min(to_side, box.half_height / abs(down) if down else 1.0) * onward
        ends.append(f"{box.x + right + across * to_edge:.0f} {box.y + below + down * to_edge:.0f}")
    return f'd="M{" L".join(ends)}" marker-end="url(#tip)"'


def drawing(width: int, height: int, lines: list[str]) -> str:
    """Return a whole SVG file."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    return "\n".join([head, _STYLE, *lines, "</svg>"]) + "\n"


def parts_drawing(width: int, height: int, parts: Mapping[str, Part], arrows: Iterable[tuple[str, str]]) -> str:
    """Return the SVG file of parts, with an arrow for each pair of names."""
    lines: list[str] = []
    for start, end in arrows:
        source, target = parts[start].box, parts[end].box
        if abs(target.x - source.x) < target.half_width and target.y > source.y:
            # Straight down onto a wide box.
            target = Box(source.x, target.y, target.half_width, target.half_height)
        lines.append(f'<path {arrow(source, target)} data-from="{start}" data-to="{end}"/>')
    for part in parts.values():
        x, y = part.box.x, part.box.y
        lines.append(f'<rect {part.box.rect} rx="8"/>')
        lines.append(f'<text x="{x}" y="{y - 2}">{part.title}</text>')
        lines.append(f'<text class="small" x="{x}" y="{y + 15}">{part.note}</text>')
    return drawing(width, height, lines)
