"""The deployed saga types, and the plans of sagas."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from sagas.authoring.definition.definition import (
    Condition,
    Parameter,
    SagaDefinition,
    StepDefinition,
    StepSource,
    UndoDefinition,
    definition_of,
)
from sagas.authoring.policies import AutoDisable
from sagas.authoring.redaction import REQUEST, Redaction
from sagas.core.events import CODE_GONE, Failure
from sagas.core.fit import Deployed, fit, gone, undo_gone
from sagas.core.rules import ForwardPlan, Plan, StepPlan, UndoPlan
from sagas.core.states import SagaState, StepState
from sagas.errors import NotFound
from sagas.store.journal.entries import REQUEST_SEQ, hiding


def plan_for(definition: SagaDefinition, steps: Iterable[StepState], settle: float = 0.0) -> Plan:
    """Return the plan of a saga that was started with ``steps``. ``settle``: as in :class:`~sagas.core.rules.Plan`.

    A saga keeps its steps, whatever was deployed since. The policies of what is not deployed are unknown.
    """
    deployed = {step.name: step for step in definition.steps}
    plans = tuple(_step_plan(was, deployed.get(was.name), definition.name) for was in steps)
    stale_after = definition.stale_after.total_seconds()
    return Plan(plans, definition.max_recovery_attempts, stale_after, settle)


def _step_plan(was: StepState, step: StepDefinition | None, saga: str) -> StepPlan:
    """Return the plan of a step ``was`` of a saga, whose deployed code is ``step``."""
    # If an undo is next, the saga needs it, even if a later release has added it.
    missing_undo = undo_gone(was, saga)
    if step is None:
        return StepPlan(gone(was, saga), missing_undo, was.undo)
    misfit, _, owes_undo = fit(was, Deployed(step.waits_for, step.has_attempts, step.undo is not None), saga)
    forward = misfit or ForwardPlan(
        executions=step.retry.executions,
        exhausted=step.on_exhausted.value,
        asks=step.has_attempts,
        wait=step.wait,
        on_timeout=step.on_timeout.value,
        concurrency=0 if step.children is None else step.children.concurrency,
        tolerate=0 if step.children is None else step.children.tolerate,
        one_by_one=step.children is not None and step.children.in_reverse,
    )
    undo: UndoPlan | Failure | None = missing_undo
    if missing_undo is not None and step.undo is not None:
        needs_result = any(parameter.step == was.name and not parameter.optional for parameter in step.undo.parameters)
        undo = UndoPlan(step.undo.retry.executions, step.undo_when == "started", needs_result)
    return StepPlan(forward, undo, owes_undo)


class SagaType(Struct, frozen=True, dict=True):
    """A saga type: its definition, its steps by name, and the plans of its sagas."""

    definition: SagaDefinition
    settle: float = 0.0

    @cached_property
    def _plans(self) -> dict[tuple[tuple[str, str, bool], ...], Plan]:
        """Plans by the structure of the sagas. Structures change only with releases, so there are few."""
        return {}

    def plan(self, steps: Iterable[StepState]) -> Plan:
        """Return the plan of a saga with these steps; see :func:`plan_for`."""
        steps = tuple(steps)
        structure = tuple((step.name, step.waits_for, step.undo) for step in steps)
        if structure not in self._plans:
            self._plans[structure] = plan_for(self.definition, steps, self.settle)
        return self._plans[structure]

    @property
    def new_steps(self) -> tuple[StepState, ...]:
        """Return the steps of a new saga."""
        steps = [step for step in self.definition.steps if not step.retired]
        result = self.definition.result_step
        return tuple(
            StepState(
                step.name,
                undo=step.undo is not None or step.children is not None,
                waits_for=step.waits_for,
                pivot=step.pivot,
                result=step is result and step is not steps[-1],
            )
            for step in steps
        )

    @property
    def first_entry_details(self) -> dict[str, Any]:
        """Return the type's part of the details of a new saga's first entry. :meth:`steps_recorded` reads them."""
        steps = [
            {"name": step.name, "undo": step.undo}
            | ({"waits_for": step.waits_for} if step.waits_for else {})
            | ({"pivot": True} if step.pivot else {})
            | ({"result": True} if step.result else {})
            for step in self.new_steps
        ]
        hidden = self.definition.redaction.hidden.get(REQUEST, ())
        return {"version": self.definition.version, "steps": steps, **hiding(hidden)}

    @staticmethod
    def steps_recorded(details: Mapping[str, Any]) -> tuple[StepState, ...]:
        """Return a saga's steps from the details of its first entry, whatever was deployed since."""
        return tuple(
            StepState(
                str(step["name"]),
                undo=bool(step["undo"]),
                waits_for=str(step.get("waits_for", "")),
                pivot=bool(step.get("pivot")),
                result=bool(step.get("result")),
            )
            for step in details["steps"]
        )

    def deadline(self, created_at: float) -> float:
        """Return the deadline of a saga that was started at ``created_at``; 0 for none."""
        timeout = self.definition.timeout
        return 0.0 if timeout is None else round(created_at + timeout.total_seconds(), 3)

    def code(self, name: str, *, undo: bool) -> StepDefinition | UndoDefinition | None:
        """Return the deployed code of a step or its undo; ``None`` if there is none. A wait may have no code."""
        step = next((step for step in self.definition.steps if step.name == name), None)
        if step is None or undo:
            return step and step.undo
        return step if step.has_attempts else None

    def condition(self, step: StepState) -> Condition | None:
        """Return the deployed condition of a step of a saga; ``None`` if it always runs. A saga that was started with
        this step as its pivot only goes forward behind it, so the pivot always runs."""
        code = self.code(step.name, undo=False)
        return code.when if isinstance(code, StepDefinition) and not step.pivot else None

    def still_taken(self, state: SagaState) -> set[int]:
        """Return the numbers of the entries whose payloads a step that has not ended, or an undo that may still run,
        takes. Past the pivot, no undo of an earlier step runs unless an operator wants it."""
        deployed = {step.name: step for step in self.definition.steps}
        pivot = state.past_pivot
        behind = next((index for index, step in enumerate(state.steps) if step.name == pivot), -1)
        seqs = {step.name: step.result_seq for step in state.steps}
        taken = set[int]()
        for index, step in enumerate(state.steps):
            definition = deployed.get(step.name)
            if definition is None:
                continue
            parameters = list[Parameter]()
            if index >= state.cursor and not state.undoing:
                parameters += definition.inputs
            if definition.undo is not None and (index <= state.cursor if state.undoing else index > behind):
                parameters += definition.undo.parameters
            for parameter in parameters:
                if parameter.source is StepSource.REQUEST:
                    taken.add(REQUEST_SEQ)
                elif parameter.source is StepSource.RESULT:
                    taken.add(seqs.get(parameter.step or "", 0))
        return taken

    @property
    def lanes(self) -> dict[str, str]:
        """For each step without code, the step whose queue it uses: the next step with code, or else the last."""
        coded = [position for position, step in enumerate(self.definition.steps) if step.has_lane]
        steps = self.definition.steps
        lanes = dict[str, str]()
        for position, step in enumerate(steps):
            if coded and not step.has_lane:
                after = next((other for other in coded if other > position), coded[-1])
                lanes[step.name] = steps[after].name
        return lanes

    def step(self, name: str) -> StepDefinition:
        """Return the step with this name."""
        try:
            return self.definition.step(name)
        except KeyError:
            raise NotFound(f"saga {self.definition.name!r} has no step {name!r} in this deployment") from None


class Registry:
    """Saga types by name.

    Args:
        classes: the saga classes.
        auto_disable: the policy for types that do not declare one.
        settle: seconds for which sagas wait for a release, as in :class:`~sagas.core.rules.Plan`.
    """

    def __init__(
        self, classes: Iterable[type[Any]], auto_disable: AutoDisable | None = None, settle: float = 0.0
    ) -> None:
        definitions = (definition.with_default(auto_disable) for definition in map(definition_of, classes))
        self.settle = settle
        self._types = {definition.name: SagaType(definition, settle) for definition in definitions}

    @classmethod
    def of(cls, *definitions: SagaDefinition, settle: float = 0.0) -> Registry:
        """Return the registry of some definitions."""
        registry = cls((), settle=settle)
        registry._types |= {definition.name: SagaType(definition, settle) for definition in definitions}
        return registry

    @classmethod
    def load(cls, text: str, auto_disable: AutoDisable | None = None, settle: float = 0.0) -> Registry:
        """Import the classes that a JSON list of ``module:Class`` names. The other parameters are those of the
        constructor."""
        classes: list[type[Any]] = []
        for name in json.loads(text):
            module, _, qualified = str(name).partition(":")
            target: Any = importlib.import_module(module)
            for part in qualified.split("."):
                target = getattr(target, part)
            classes.append(target)
        return cls(classes, auto_disable, settle)

    def get(self, name: str) -> SagaType:
        """Return the saga type with this name."""
        saga_type = self._types.get(name)
        if saga_type is None:
            raise NotFound(f"this service has no saga type {name!r}; it has {', '.join(sorted(self._types))}")
        return saga_type

    def plan(self, state: SagaState) -> Plan:
        """Return the plan of a saga. If its type is not deployed, everything about it is unknown."""
        if state.saga in self._types:
            return self._types[state.saga].plan(state.steps)
        missing = Failure(CODE_GONE, f"type {state.saga!r} is not deployed")
        steps = tuple(
            StepPlan(missing, None if step.waits_for == "children" else missing, step.undo) for step in state.steps
        )
        return Plan(steps, max_recovery_attempts=sys.maxsize, settle=self.settle)  # no stall is one too many

    def redaction(self, name: str) -> Redaction:
        """Return the redaction of a type. A type that is not deployed redacts nothing."""
        return self._types[name].definition.redaction if name in self._types else Redaction()

    def __contains__(self, name: str) -> bool:
        return name in self._types

    def __iter__(self) -> Any:
        return iter(self._types.values())
