"""Boxes and arrows as SVG: what the drawings of the documentation share. They follow the reader's colour scheme."""

from __future__ import annotations

import math
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
