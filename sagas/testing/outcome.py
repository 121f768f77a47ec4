"""What a test learns about a saga."""

from __future__ import annotations

import json
from collections.abc import Collection, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.policies import Exhausted
from sagas.authoring.steps import Member, Step
from sagas.authoring.waits import Wait
from sagas.core.states import StepStatus
from sagas.engine.read.views import audit_view, step_status
from sagas.errors import TypeChanged
from sagas.store.journal.entries import RESULTS, Entry

if TYPE_CHECKING:
    from sagas.testing.simulation import Simulation

T = TypeVar("T")


class AttributeDict(dict[str, Any]):
    """A dict like the API's objects. Its keys can also be read as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Results(dict[str, Any]):
    """The results of steps by their names. If you index by the step itself (``results[Trip.book]``), the value is
    typed; it is ``None`` for a step that was skipped, or whose result the saga continued without."""

    continued: Collection[str] = ()

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, key: Step[..., Coroutine[Any, Any, T]], /) -> T: ...
        @overload
        def __getitem__(self, key: Step[..., T] | Wait[T], /) -> T: ...
        @overload
        def __getitem__(self, key: str, /) -> Any: ...
        def __getitem__(self, key: Any, /) -> Any: ...

    else:

        def __missing__(self, key):
            if not isinstance(key, Member):
                raise KeyError(key)
            options = getattr(key, "options", None)
            name = getattr(options, "result", None) or key.name
            return None if name in self.continued else self[name]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of the saga.

    Args:
        status: its last status, such as ``"COMPLETED"``.
        results: the result of each completed step, by result name, even if the step was undone later. Indexed by the
            step itself (``outcome.results[Trip.book]``), the value has the step's declared type.
        error: ``step``, ``type`` and ``message`` of the error that stopped the saga; ``None`` if there was none.
        audit: the audit trail, oldest first: ``seq``, ``at``, ``action``, ``step``, ``attempt``, ``status``,
            ``details`` and the other fields of the API.
        steps: the last status of each step, by step name.
        in_doubt: the steps whose outcome is unknown.
        result: the saga's result: the result of its last step, or of the step that the class keyword ``result`` names;
            ``None`` unless the saga is COMPLETED.
        waited: how long each wait took, by the wait's name.
        children: for each step with children, the outcomes of the children, in order.
    """

    status: str
    results: Results
    error: AttributeDict | None
    audit: list[AttributeDict]
    steps: dict[str, str]
    in_doubt: tuple[str, ...] = ()
    result: Any = None
    waited: dict[str, timedelta] = field(default_factory=dict[str, timedelta])
    children: dict[str, list[Outcome]] = field(default_factory=lambda: dict[str, list[Outcome]]())

    def __repr__(self) -> str:
        """Return a readable text: the status of each step, the audit trail, and the last stack trace."""
        lines = [f"Outcome {self.status}"]
        if self.error is not None:
            lines.append(f"  error: {self.error.type} in {self.error.step}: {self.error.message}")
        for name, status in self.steps.items():
            waited = f", waited {self.waited[name]}" if name in self.waited else ""
            lines.append(f"  {name}: {status}{waited}")
        lines += [f"  {name} = {value!r}" for name, value in self.results.items()]
        for entry in self.audit:
            what = entry.action + (f" {entry.step}" if entry.step else "")
            attempt = f" (attempt {entry.attempt})" if entry.attempt else ""
            lines.append(f"  {entry.seq:>3} {entry.at} {what}{attempt}: {entry.status}")
        traces = [entry.details["stack_trace"] for entry in self.audit if "stack_trace" in entry.details]
        return "\n".join(lines + traces[-1:])


def outcome_of(simulation: Simulation, saga_id: str) -> Outcome:
    """Return the outcome of a saga so far."""
    state = simulation.stored(saga_id)
    entries = simulation.entries(saga_id)
    definition = simulation.definition(state.saga)
    error = entries.get(state.error_seq)
    result = definition.step(state.result_step.name).result
    seqs = {step.name: step.result_seq for step in state.steps if step.result_seq}
    results = Results(
        (step.result, _stored(definition, step.name, entries[seqs[step.name]]))
        for step in definition.steps
        if step.name in seqs
    )
    without = {step.name for step in state.steps if step.status in (StepStatus.FAILED, StepStatus.SKIPPED)}
    results.continued = [
        step.result
        for step in definition.steps
        if step.name in without and (step.when or Exhausted.CONTINUE in (step.on_exhausted, step.on_timeout))
    ]
    outcome = Outcome(
        status=state.status.value,
        results=results,
        error=None if error is None else AttributeDict(step=error.step, **error.details["error"]),
        audit=[AttributeDict(audit_view(entry)) for entry in entries.values()],
        steps={step.name: step_status(state, index).value for index, step in enumerate(state.steps)},
        in_doubt=state.in_doubt,
        waited=_waited(entries.values()),
        children={
            name: [outcome_of(simulation, child.saga_id) for _, child in sorted(children.items())]
            for name, children in simulation.children(saga_id).items()
        },
    )
    return replace(outcome, result=outcome.results.get(result)) if outcome.status == "COMPLETED" else outcome


def _stored(definition: SagaDefinition, step: str, entry: Entry) -> Any:
    """Return a step's result as its later steps get it, or its JSON if they could not read it."""
    data = json.loads(entry.payload or "null")
    try:
        return definition.stored(step, data)
    except TypeChanged:
        return data


def _waited(entries: Iterable[Entry]) -> dict[str, timedelta]:
    """Return how long each wait took, until its end or until the saga's undo began."""
    began = dict[str, float]()
    waited = dict[str, timedelta]()
    for entry in entries:
        ends = entry.action in (*RESULTS, "WaitTimedOut")
        for name in [name for name in began if (ends and name == entry.step) or entry.action == "CompensationStarted"]:
            waited[name] = timedelta(seconds=round(entry.at - began.pop(name), 3))
        if entry.action == "WaitStarted" and entry.step is not None:
            began[entry.step] = entry.at
    return waited
