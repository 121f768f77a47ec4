"""The statuses of sagas and steps as a page of documentation, drawn from the automaton's own table.

``python -m sagas.core.diagram > docs/concepts/states.md`` writes the page anew.
"""

from __future__ import annotations

from collections.abc import Iterator

from sagas.core.automaton import ROWS, Row
from sagas.core.events import CompensationStarted
from sagas.core.states import OVER, SagaStatus, StepStatus

S, T = SagaStatus, StepStatus

_SAGA = {
    S.PENDING: "Started; no step was claimed yet.",
    S.RUNNING: "Its steps are being executed, in order.",
    S.WAITING: "A step waits for a signal or a time, or looks again later. Nothing runs, and nothing is held.",
    S.COMPENSATING: "What was done is being undone, the last step first. No step runs forward any more.",
    S.DEAD_LETTERED: "A step is exhausted; its message is in the dead-letter queue. Waits for an operator.",
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
    T.WAITING: "It waits for a signal or a time, or said that it is not yet time. Nothing failed.",
    T.COMPLETED: "Its result is in the journal. A step without an undo stays so, also in a saga that is undone.",
    T.FAILED: "It has used up its executions, failed for good at once, or waited in vain.",
    T.COMPENSATING: "Its undo is under way.",
    T.COMPENSATED: "Its undo worked, or an operator said that it was undone by hand.",
    T.COMPENSATION_FAILED: "Its undo has used up its executions, or failed for good at once.",
}

_INTRODUCTION = """\
# States

*Made from the table in `sagas/core/automaton.py` by `python -m sagas.core.diagram`; edit there.*

A saga executes its steps in order. When a step is exhausted, or a caller cancels, it turns round and undoes what was
completed, the last step first (Garcia-Molina and Salem, "Sagas", SIGMOD 1987). It never turns round twice: once a saga
is COMPENSATING or over, no step is executed forward again. Only a saga that waits in DEAD_LETTERED, which is neither,
can be sent forward again, by an operator.

Every change is one entry in the audit trail, written by the holder of the saga's lease. A message that comes twice,
late or out of order finds that the saga is not where the message says, and changes nothing. Before a saga turns
round it waits until no lost execution can be at work any more, so an undo never runs beside its step.
"""


def _arrows(row: Row) -> Iterator[tuple[str, str, str]]:
    """Yield source, target and label of each change of status by ``row``."""
    for source in row.sources if row.meaning else ():
        for target in row.targets:
            at_once = row.event is CompensationStarted and target in OVER
            if target is not source:
                yield source.value, target.value, f"{row.meaning}, nothing to undo" if at_once else row.meaning


def mermaid() -> str:
    """Return the statuses of a saga as a Mermaid state diagram."""
    labels: dict[tuple[str, str], list[str]] = {}
    for row in ROWS:
        for source, target, label in _arrows(row):
            known = labels.setdefault((source, target), [])
            known.extend([label] if label not in known else [])
    lines = ["stateDiagram-v2", "    [*] --> PENDING: started"]
    lines += [f"    {source} --> {target}: {'; '.join(label)}" for (source, target), label in labels.items()]
    lines += [f"    {status.value} --> [*]" for status in S if status in OVER]
    return "\n".join(lines) + "\n"


def _table(head: str, meanings: dict[SagaStatus, str] | dict[StepStatus, str]) -> str:
    rows = "".join(f"| `{status.value}` | {meaning} |\n" for status, meaning in meanings.items())
    return f"| {head} | meaning |\n|---|---|\n{rows}"


def page() -> str:
    """Return ``docs/concepts/states.md``."""
    sagas = _table("saga", _SAGA)
    over = ", ".join(f"`{status.value}`" for status in S if status in OVER)
    ends = f"Final: {over}. An operator can still have FAILED undone, and COMPENSATION_FAILED retried.\n"
    parts = (
        _INTRODUCTION,
        f"```mermaid\n{mermaid()}```\n",
        "## Sagas\n",
        sagas,
        ends,
        "## Steps\n",
        _table("step", _STEP),
    )
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")  # the page itself is the output
