"""The statuses of sagas and steps as a page of documentation, drawn from the automaton's own table."""

from __future__ import annotations

import math
from itertools import product

from sagas.core.automaton import ROWS
from sagas.core.events import CompensationStarted
from sagas.core.states import ENDED, SagaStatus, StepStatus

S, T = SagaStatus, StepStatus

_SAGA = {
    S.PENDING: "Started; no step was claimed yet.",
    S.RUNNING: "Its steps are being executed, in order.",
    S.WAITING: "A step waits for a signal, a time or children, or will poll again. Nothing runs or is held.",
    S.COMPENSATING: "Completed steps are being undone, the last one first. No step runs forward any more.",
    S.DEAD_LETTERED: "Waits for an operator. A step is exhausted, and its message is in the dead-letter queue. Or no "
    "signal arrived in time, or too many children failed; then there is no message.",
    S.COMPLETED: "Every step completed.",
    S.COMPENSATED: "It failed and was undone.",
    S.CANCELLED: "It was cancelled and undone.",
    S.FAILED: "It failed, and by its policy nothing was undone. Needs an operator.",
    S.COMPENSATION_FAILED: "An undo failed for good; the others were carried out. Needs an operator.",
}

_STEP = {
    T.PENDING: "Never executed.",
    T.RUNNING: "An execution is under way.",
    T.RETRYING: "An execution failed or was lost; another one follows.",
    T.WAITING: "It waits for a signal, a time or its children, or raised `NotYet`. Nothing failed.",
    T.COMPLETED: "Its result is in the journal. A step without an undo stays so, also in a saga that is undone.",
    T.FAILED: "It has used up its executions, failed for good at once, or its wait timed out.",
    T.COMPENSATING: "Its undo is under way.",
    T.COMPENSATED: "Its undo worked, or an operator undid it by hand.",
    T.COMPENSATION_FAILED: "Its undo has used up its executions, or failed for good at once.",
}

_WIDE, _HIGH = 900, 530
_HALF_HIGH, _BESIDE = 15, 4
_PLACES: dict[str, tuple[int, int]] = {
    S.PENDING: (340, 40),
    S.RUNNING: (560, 40),
    S.WAITING: (780, 130),
    S.COMPLETED: (840, 265),
    S.FAILED: (780, 400),
    S.COMPENSATED: (560, 490),
    S.CANCELLED: (340, 490),
    S.COMPENSATION_FAILED: (98, 410),
    S.COMPENSATING: (70, 265),
    S.DEAD_LETTERED: (120, 130),
}
"""On a ring: no straight line between two passes a third."""
_STYLE = """<style>
text { font: 13px sans-serif; text-anchor: middle; fill: #1f2328 }
rect { stroke-width: 1.5; fill: #fff; stroke: #57606a } rect.over { stroke-width: 3 }
path { fill: none; stroke: #0969da; stroke-width: 1.4 } path.aside { stroke: #8c959f; stroke-dasharray: 3 4 }
#tip path { fill: #57606a; stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } rect { fill: #0d1117; stroke: #8b949e }
path { stroke: #58a6ff } path.aside { stroke: #6e7681 } #tip path { fill: #8b949e } }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0 L8 4 L0 8 z"/></marker></defs>"""

_INTRODUCTION = """\
# States

*Made from the table in `sagas/core/automaton.py` by `make docs`; edit there.*

A saga executes its steps in order. When a step is exhausted, or a caller cancels, the saga undoes its completed steps,
the last one first (Garcia-Molina and Salem, "Sagas", SIGMOD 1987). Once a saga is COMPENSATING or has ended, no step is
executed forward again. Only from DEAD_LETTERED, which is neither, can an operator send a saga forward again.

Every change is one entry in the audit trail, written by the holder of the saga's lease. A message that comes twice,
late or out of order finds that the saga is not where the message says, and changes nothing. Before a saga turns
round it waits until no lost execution can be at work any more, so an undo never runs beside its step.
"""


def changes() -> dict[tuple[str, str], list[str]]:
    """Return what leads from one status to another, by both."""
    labels: dict[tuple[str, str], list[str]] = {}
    for row in ROWS:
        for source, target in product(row.sources, row.targets) if row.meaning else ():
            if target is source:
                continue
            at_once = row.event is CompensationStarted and target in ENDED
            label = f"{row.meaning}, nothing to undo" if at_once else row.meaning
            known = labels.setdefault((source.value, target.value), [])
            known.extend([label] if label not in known else [])
    return labels


def svg() -> str:
    """Return the statuses of a saga as a drawing: on a ring, where no arrow runs behind a status that it passes."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" role="img">',
        _STYLE,
    ]
    for (source, target), labels in changes().items():
        (x1, y1), (x2, y2) = _PLACES[source], _PLACES[target]
        across, down = x2 - x1, y2 - y1
        length = math.hypot(across, down)
        ends: list[str] = []
        # From the edge of one box to that of the other, a little to its right, so that an arrow back lies beside it.
        for status, (x, y), onward in ((source, (x1, y1), 1), (target, (x2, y2), -1)):
            edge = min(_half(status) / abs(across) if across else 1.0, _HALF_HIGH / abs(down) if down else 1.0) * onward
            right, below = -down / length * _BESIDE, across / length * _BESIDE
            ends.append(f"{x + right + across * edge:.0f} {y + below + down * edge:.0f}")
        nothing = all("nothing to undo" in label for label in labels)
        lines.append(
            f'<path class="{"aside" if nothing else "way"}" data-from="{source}" data-to="{target}" '
            f'd="M{" L".join(ends)}" marker-end="url(#tip)"/>'
        )
    for status, (x, y) in _PLACES.items():
        kind, size = "over" if status in ENDED else "open", f'width="{2 * _half(status)}" height="{2 * _HALF_HIGH}"'
        lines.append(f'<rect class="{kind}" x="{x - _half(status)}" y="{y - _HALF_HIGH}" {size} rx="8"/>')
        lines.append(f'<text x="{x}" y="{y + 4}">{status}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _half(status: str) -> int:
    """Half the width of a status's box."""
    return round(4.3 * len(status)) + 8


def _table(head: str, meanings: dict[SagaStatus, str] | dict[StepStatus, str]) -> str:
    rows = "".join(f"| `{status.value}` | {meaning} |\n" for status, meaning in meanings.items())
    return f"| {head} | meaning |\n|---|---|\n{rows}"


def page() -> str:
    """Return ``docs/concepts/states.md``."""
    sagas = _table("saga", _SAGA)
    over = ", ".join(f"`{status.value}`" for status in S if status in ENDED)
    rows = "".join(f"| `{source}` | `{target}` | {'; '.join(why)} |\n" for (source, target), why in changes().items())
    ends = f"Final: {over}. An operator can still have FAILED undone, and COMPENSATION_FAILED retried.\n"
    parts = (
        _INTRODUCTION,
        "![The statuses of a saga](../images/states.svg)\n",
        "Thick boxes are final; dotted arrows are ways where nothing is to be undone. It begins as PENDING.\n",
        f"| from | to | when |\n|---|---|---|\n{rows}",
        "## Sagas\n",
        sagas,
        ends,
        "## Steps\n",
        _table("step", _STEP),
    )
    return "\n".join(parts)
