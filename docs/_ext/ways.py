"""Two ways of a saga as drawings: through the dead letters, and through a release. ``generated.py`` writes them.

Statuses, errors, times and commands come from the code.
"""

from __future__ import annotations

from drawing import Part, parts_drawing, place

from sagas.authoring.policies import SETTLE
from sagas.client.read.next_action import Do, needed
from sagas.core.events import AttentionCode
from sagas.core.fit import Deployed, fit
from sagas.core.states import SagaStatus, StepState

S = SagaStatus
_STOPPED = needed(AttentionCode.EXHAUSTED, "STEP", "ID")
_GIVE_UP = next(do for do in _STOPPED.others if do is Do.COMPENSATE)
_WAS = StepState("STEP", undo=True)
_MISFITS = [fit(_WAS, now).forward for now in (None, Deployed("signal", asks=True, undo=True))]

DEAD_LETTER = {
    "queue": Part("Queue of the step", "SQS", place(100, 40)),
    "function": Part("Function of the step", "Lambda", place(330, 40)),
    "letters": Part("Dead letters", "SQS, per saga type", place(570, 40)),
    "nobody": Part("No saga needs it", "sagas dlq delete", place(800, 40)),
    "supervisor": Part("Supervisor", "sends a new message", place(100, 150)),
    "in flight": Part("Saga in flight", "its function crashed", place(330, 150)),
    "stopped": Part(f"Saga {S.DEAD_LETTERED}", "its step used up its attempts", place(570, 150, 95)),
    "retry": Part(f"sagas {_STOPPED.do}", f"{S.RUNNING}, at this step", place(330, 260)),
    "attention": Part("Attention list", "sagas attention", place(570, 260)),
    "undo": Part(f"sagas {_GIVE_UP}", f"{S.COMPENSATING}", place(800, 260)),
}
"""What a message meets that its function cannot handle, and what its saga does then."""

RELEASE = {
    "saga": Part("Saga of release 1", "keeps its steps", place(110, 40)),
    "code": Part("Code of release 2", "compared before each step", place(360, 40, 95)),
    "runs": Part("The step runs", f"{S.RUNNING}", place(790, 40, 90)),
    "misfit": Part("It does not fit", " or ".join(misfit.type for misfit in _MISFITS if misfit), place(360, 150, 95)),
    "waits": Part("Waits for a release", f"{SETTLE / 60:.0f} minutes, no attempt", place(575, 150)),
    "fits": Part("Code that fits", "is deployed", place(790, 150, 90)),
    "stopped": Part(f"{S.DEAD_LETTERED}", "on the attention list", place(575, 260)),
    "retry": Part("Deploy code that fits", f"sagas {Do.RETRY}", place(790, 260, 90)),
}
"""What a saga does that was started with an earlier release."""

WAYS = {
    "dead-letter": (
        DEAD_LETTER,
        (
            ("queue", "function"), ("function", "letters"), ("letters", "nobody"), ("letters", "in flight"),
            ("letters", "stopped"), ("in flight", "supervisor"), ("supervisor", "queue"), ("in flight", "attention"),
            ("stopped", "attention"), ("attention", "retry"), ("attention", "undo"), ("retry", "queue"),
        ),
    ),
    "release": (
        RELEASE,
        (
            ("saga", "code"), ("code", "runs"), ("code", "misfit"), ("misfit", "waits"), ("waits", "fits"),
            ("waits", "stopped"), ("stopped", "retry"), ("retry", "fits"), ("fits", "runs"),
        ),
    ),
}  # fmt: skip
"""Each drawing: its parts, and an arrow for each pair of their names."""


def svg(name: str) -> str:
    """Return a drawing: ``dead-letter`` or ``release``."""
    return parts_drawing(900, 300, *WAYS[name])
