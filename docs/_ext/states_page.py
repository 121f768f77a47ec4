"""The statuses of sagas and steps as a page of documentation, drawn from the automaton's own table."""

from __future__ import annotations

from itertools import product

from drawing import Box, arrow, drawing

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
_HALF_HIGH, _OFFSET = 15, 4
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
    boxes = {status: Box(x, y, round(4.3 * len(status)) + 8, _HALF_HIGH) for status, (x, y) in _PLACES.items()}
    lines: list[str] = []
    for (source, target), labels in changes().items():
        kind = "aside" if all("nothing to undo" in label for label in labels) else "way"
        path = arrow(boxes[source], boxes[target], _OFFSET)
        lines.append(f'<path class="{kind}" data-from="{source}" data-to="{target}" {path}/>')
    for status, box in boxes.items():
        lines.append(f'<rect class="{"over" if status in ENDED else "open"}" {box.rect} rx="8"/>')
        lines.append(f'<text x="{box.x}" y="{box.y + 4}">{status}</text>')
    return drawing(_WIDE, _HIGH, lines)


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
